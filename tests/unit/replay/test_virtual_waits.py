"""One line of virtual time: sleeps, timers of the event loop, threads and events, without a real wait."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FutureTimeout

import pytest

from otel_agent_replay.boundary import ambient, virtual_locks, virtual_time
from otel_agent_replay.boundary import sleep as sleep_hooks
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import COMPONENT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import AnswerSource
from otel_agent_replay.replay import virtual_waits
from otel_agent_replay.replay.virtual_clock import Start, VirtualClock
from otel_agent_replay.replay.virtual_waits import VirtualWaits
from tests.support.tape_session import MemoryObserver, redaction

real_monotonic = time.monotonic


@pytest.fixture
def hooked(monkeypatch):
    """Every hook in place; fails where somebody asks for a real wait of the application's length."""
    asked, call_at = [], virtual_time._call_at

    def real_timer(loop, when, *args, **more):
        own = virtual_time._shuts_down(sys._getframe(2))  # a loop's deadline for its own threads is no wait
        asked.extend([when] if when - real_monotonic() > 0.5 and not own else [])
        return call_at(loop, when, *args, **more)

    monkeypatch.setattr(sleep_hooks, "_time_sleep", asked.append)
    monkeypatch.setattr(virtual_time, "_call_at", real_timer)
    ambient.install()
    virtual_time.install()
    virtual_locks.install()
    yield
    virtual_locks.uninstall()
    virtual_time.uninstall()
    ambient.uninstall()
    assert not asked, "somebody really slept"


def in_virtual_time(function, waits=None):
    waits = waits or VirtualWaits()
    session = Session(
        run_id=b"v" * 16,
        root=Place.root("agent"),
        mode=COMPONENT,
        observer=MemoryObserver(),
        redaction=redaction(),
        answerers={AnswerSource.VIRTUAL: VirtualClock(Start(10**18), waits=waits)},
    )
    session.virtual_time = waits
    session.open()
    try:
        with session.entered():
            value = function()
    finally:
        session.close()
    return value, waits.elapsed_ns / 1e9


def test_wait_for_gives_up_after_its_virtual_time(hooked):
    """A wait of forty minutes inside a deadline of thirty times out after thirty, with the client's own error."""

    async def agent():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(2400), 1800)

    assert in_virtual_time(lambda: asyncio.run(agent()))[1] == 1800


def test_a_wait_that_is_shorter_than_its_deadline_ends_well(hooked):
    """Ten minutes fit into thirty, and the deadline that was not reached lets no time pass afterwards."""

    async def agent():
        return await asyncio.wait_for(asyncio.sleep(600, "done"), 1800)

    assert in_virtual_time(lambda: asyncio.run(agent())) == ("done", 600)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout came with 3.11")
def test_timeouts_nest_and_move_in_virtual_time(hooked):
    """The inner deadline strikes first; one that is put off strikes later."""

    async def agent():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(100):
                        await asyncio.sleep(500)
                async with asyncio.timeout(1) as moved:
                    moved.reschedule(asyncio.get_running_loop().time() + 5000)
                    await asyncio.sleep(5000)

    assert in_virtual_time(lambda: asyncio.run(agent()))[1] == 1000


def test_deadlines_gathered_without_a_frame_of_the_application(hooked):
    """`wait_for` as a task of its own, which only asyncio drives, keeps virtual time too."""

    async def agent():
        waits = [asyncio.wait_for(asyncio.sleep(seconds), 50) for seconds in (10, 100)]
        return await asyncio.gather(*waits, return_exceptions=True)

    outcomes, elapsed = in_virtual_time(lambda: asyncio.run(agent()))
    assert [type(one) for one in outcomes] == [type(None), asyncio.TimeoutError]
    assert elapsed == 50


def test_the_loops_own_functions_keep_virtual_time(hooked):
    """`call_later`, `call_at`, `wait(timeout=)` and `time` agree with the clock of the application."""
    called = []

    async def agent():
        loop = asyncio.get_running_loop()
        began, monotonic = loop.time(), time.monotonic()
        loop.call_later(30, lambda: called.append(loop.time() - began))
        loop.call_at(began + 20, lambda: called.append(loop.time() - began))
        loop.call_later(10, called.append, "never").cancel()
        done, waiting = await asyncio.wait([loop.create_task(asyncio.sleep(90))], timeout=60)
        assert not done
        for task in waiting:
            task.cancel()
        return loop.time() - began, time.monotonic() - monotonic

    (by_loop, by_clock), elapsed = in_virtual_time(lambda: asyncio.run(agent()))
    assert called == pytest.approx([20, 30])
    assert by_loop == pytest.approx(60)
    assert (by_clock, elapsed) == (60, 60)


def test_work_that_is_ready_comes_before_time_passes(hooked):
    """A task that runs a thousand turns without waiting is done before a wait of a millisecond is over."""
    order = []

    async def busy():
        for _ in range(1000):
            await asyncio.sleep(0)
        order.append("busy")

    async def waiting():
        await asyncio.sleep(0.001)
        order.append("waited")

    async def agent():
        await asyncio.gather(waiting(), busy())

    in_virtual_time(lambda: asyncio.run(agent()))
    assert order == ["busy", "waited"]


def test_a_thread_and_a_task_share_one_line_of_time(hooked):
    """A thread's wait of ten seconds ends after a task's of five and before one of twenty."""
    order = []

    def in_thread():
        time.sleep(10)
        order.append("thread")

    async def in_task(seconds):
        await asyncio.sleep(seconds)
        order.append(seconds)

    async def agent():
        await asyncio.gather(asyncio.to_thread(in_thread), in_task(20), in_task(5))

    assert in_virtual_time(lambda: asyncio.run(agent()))[1] == 20
    assert order == [5, "thread", 20]


def test_threads_end_their_waits_in_the_order_of_their_moments(hooked):
    """Three threads that wait side by side."""
    order = []

    def wait(seconds):
        time.sleep(seconds)
        order.append(seconds)

    def agent():
        threads = [threading.Thread(target=wait, args=(seconds,)) for seconds in (30, 10, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert in_virtual_time(agent)[1] == 30
    assert order == [10, 20, 30]


def test_a_future_that_comes_too_late_has_timed_out(hooked):
    """`result(timeout=)` gives up on a call of forty minutes after half an hour, and waits for one of twenty."""

    def agent():
        with ThreadPoolExecutor(2) as pool:
            late, early = pool.submit(time.sleep, 2400), pool.submit(time.sleep, 1200)
            assert early.result(timeout=1800) is None
            with pytest.raises(FutureTimeout):
                late.result(timeout=600)
            return time.monotonic()

    began, elapsed = in_virtual_time(agent)
    assert (began - 10_000, elapsed) == pytest.approx((1800, 2400))


def test_events_queues_and_joins_give_up_in_virtual_time(hooked):
    """Each waits as long as it says, and no longer than it must."""

    def agent():
        line, flag, passed = queue.Queue(), threading.Event(), []

        def measured(wait):
            began = time.monotonic()
            passed.append((wait(), time.monotonic() - began))

        sleeper = threading.Thread(target=lambda: (time.sleep(100), flag.set(), line.put("late")))
        sleeper.start()
        measured(lambda: flag.wait(30))
        with pytest.raises(queue.Empty):
            line.get(timeout=20)
        measured(lambda: sleeper.join(10))
        measured(lambda: flag.wait(1000))
        measured(lambda: line.get(timeout=1000))
        measured(lambda: sleeper.join(1000))
        return passed

    passed, _ = in_virtual_time(agent)
    assert [value for value, _ in passed] == [False, None, True, "late", None]
    assert [seconds for _, seconds in passed] == pytest.approx([30, 10, 40, 0, 0], abs=1e-4)


def test_as_completed_reckons_its_deadline_in_virtual_time(hooked):
    """One answer after ten minutes, and none of an hour within half of one."""

    def agent():
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(time.sleep, seconds) for seconds in (600, 3600)]
            done = []
            with pytest.raises(FutureTimeout):
                done.extend(calls.index(call) for call in as_completed(calls, timeout=1800))
            return done or [calls.index(call) for call in calls if call.done()]

    assert in_virtual_time(agent) == ([0], 3600)


def test_a_wait_without_a_deadline_is_left_alone(hooked):
    """It ends when the other thread says so."""

    def agent():
        flag = threading.Event()
        threading.Thread(target=lambda: (time.sleep(50), flag.set())).start()
        return flag.wait()

    assert in_virtual_time(agent) == (True, 50)


def test_a_task_that_blocks_its_loop_blocks_its_deadlines(hooked):
    """`time.sleep` in a coroutine lets time pass over a deadline, which strikes when the loop runs again."""

    async def block():
        time.sleep(50)
        await asyncio.sleep(1)

    async def agent():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(block(), 10)

    assert in_virtual_time(lambda: asyncio.run(agent()))[1] == 50


def test_events_happen_while_somebody_waits_and_after_the_last_wait(hooked):
    """What is due earlier happens during the wait, at its own moment; what is left happens when time runs out."""
    waits = VirtualWaits()
    seen = []

    def agent():
        for seconds in (5, 15):
            waits.call_after(seconds * 10**9, lambda: seen.append(waits.elapsed_ns / 1e9))
        time.sleep(10)
        seen.append("waited")

    in_virtual_time(agent, waits)
    assert seen == [5, "waited"]
    assert waits.run_out(10)
    assert seen == [5, "waited", 15]


def test_what_a_loop_leaves_behind_holds_nobody_up(hooked, monkeypatch):
    """A timer of a loop that has ended, or that nobody runs, is not waited for: a thread goes on without a pause."""
    called, paused = [], []
    monkeypatch.setattr(virtual_waits, "_wait", lambda _condition, pause_s: paused.append(pause_s))

    async def leave():
        asyncio.get_running_loop().call_later(5, called.append, "late")

    def agent():
        asyncio.run(leave())
        idle = asyncio.new_event_loop()
        idle.run_until_complete(leave())
        time.sleep(900)
        idle.close()

    assert in_virtual_time(agent) == (None, 900)
    assert (called, paused) == ([], [])


def test_outside_such_a_run_the_loop_keeps_real_time():
    """With the hooks in place, code of no run gets real timers and the real clock."""
    virtual_time.install()
    try:

        async def ordinary():
            loop = asyncio.get_running_loop()
            began, real = loop.time(), real_monotonic()
            await asyncio.sleep(0.02)
            return loop.time() - began, real_monotonic() - real

        by_loop, by_clock = asyncio.run(ordinary())
    finally:
        virtual_time.uninstall()
    assert 0.015 < by_loop <= by_clock + 0.001
