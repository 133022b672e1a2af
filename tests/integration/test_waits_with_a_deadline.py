"""What a thread waits for with a deadline comes, or does not, as in the recording; a replay waits for no deadline.

The replays below give the waits other deadlines than their recordings, so that no clock can decide.
"""

from __future__ import annotations

import asyncio
import concurrent.futures as pools
import os
import queue
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from otel_agent_replay.boundary import threads, waits
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import WAIT
from tests.taped_runs import LIMIT_S, reads_of, record, replayed_in_time, tool, tool_async

FOR_EVER = 600.0  # seconds: what a replay must not wait for
SOON = 0.02  # what a recording waits for

search = tool("search", lambda source: f"answer of {source}", "source")


@pytest.fixture(autouse=True)
def _hooked():
    threads.install()
    waits.install()
    yield
    waits.uninstall()
    threads.uninstall()


def _waits(recording):
    """What became of each wait of a recording, by name."""
    return [(read.name.removeprefix(WAIT), read.value == 0) for read in reads_of(recording, WAIT)]


def _lock(seconds):
    lock = threading.Lock()
    lock.acquire()
    return lock.acquire(timeout=seconds)


def _reentrant_lock(seconds):
    lock = threading.RLock()
    holder = threading.Thread(target=lock.acquire)
    holder.start()
    holder.join()
    return lock.acquire(timeout=seconds)


def _condition(seconds):
    condition = threading.Condition()
    with condition:
        return condition.wait(seconds)


def _condition_wait_for(seconds):
    condition = threading.Condition()
    with condition:
        return condition.wait_for(lambda: None, seconds)


def _join(seconds):
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    thread.join(seconds)
    alive = thread.is_alive()
    over.set()
    thread.join()
    return not alive


def _get(kind):
    def wait(seconds):
        try:
            return kind().get(timeout=seconds)
        except queue.Empty:
            return False

    return wait


def _put(seconds):
    line = queue.Queue(1)
    line.put("full")
    try:
        return line.put("more", timeout=seconds)
    except queue.Full:
        return False


def _in_pool(wait):
    def waited(seconds):
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            try:
                return wait(pool, over, seconds)
            except pools.TimeoutError:
                return False
            finally:
                over.set()

    return waited


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("lock", _lock),
        ("lock", _reentrant_lock),
        ("semaphore", lambda seconds: threading.Semaphore(0).acquire(timeout=seconds)),
        ("event", lambda seconds: threading.Event().wait(seconds)),
        ("condition", _condition),
        ("condition.wait_for", _condition_wait_for),
        ("join", _join),
        ("queue.get", _get(queue.Queue)),
        ("queue.get", _get(queue.PriorityQueue)),
        ("queue.get", _get(queue.SimpleQueue)),
        ("queue.put", _put),
        ("future", _in_pool(lambda pool, over, seconds: pool.submit(over.wait).result(seconds))),
        ("future", _in_pool(lambda pool, over, seconds: pool.submit(over.wait).exception(seconds))),
        ("future", _in_pool(lambda pool, over, seconds: list(pool.map(lambda _: over.wait(), "a", timeout=seconds)))),
        ("futures", _in_pool(lambda pool, over, seconds: pools.wait([pool.submit(over.wait)], seconds).done)),
        ("as_completed", _in_pool(lambda pool, over, secs: [*pools.as_completed([pool.submit(over.wait)], secs)])),
    ],
)  # fmt: skip
def test_a_wait_that_was_given_up_is_given_up_again_without_its_time(name, wait):
    """Whatever a thread waited for in vain it waits for in vain again, at once, however long it would wait."""
    expected, recording = record(lambda: search(str(wait(SOON))))
    assert _waits(recording) == [(name, False)]
    replayed = replayed_in_time(recording, lambda: search(str(wait(FOR_EVER))))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert replayed.tape.count_reads_left() == 0


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("lock", lambda lock, _event, _line, _call, _thread, seconds: lock.acquire(timeout=seconds)),
        ("event", lambda _lock, event, _line, _call, _thread, seconds: event.wait(seconds)),
        ("queue.get", lambda _lock, _event, line, _call, _thread, seconds: line.get(timeout=seconds)),
        ("future", lambda _lock, _event, _line, call, _thread, seconds: call.result(seconds)),
        ("join", lambda _lock, _event, _line, _call, thread, seconds: thread.join(seconds) or not thread.is_alive()),
    ],
)
def test_a_wait_that_came_comes_again_however_long_it_takes(name, wait):
    """A replay's threads may take longer than any deadline of the agent's: what came in the recording is waited for."""

    def agent(seconds, thinking):
        lock, event, line, call = threading.Lock(), threading.Event(), queue.SimpleQueue(), pools.Future()
        lock.acquire()

        def give():
            until = time.perf_counter() + thinking
            while time.perf_counter() < until:
                pass
            found = search("given")
            lock.release()
            event.set()
            line.put(found)
            call.set_result(found)

        thread = threading.Thread(target=give)
        thread.start()
        came = wait(lock, event, line, call, thread, seconds)
        thread.join()
        return search(str(came))

    expected, recording = record(lambda: agent(FOR_EVER, 0.0))
    assert _waits(recording) == [(name, True)]
    replayed = replayed_in_time(recording, lambda: agent(0.001, 0.1))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_what_was_done_when_a_wait_was_given_up_is_done_again():
    """Whose call ended before the deadline has gone on by then in a replay too, and whose call ended later has not."""

    def agent(seconds, certain):
        found, may_go_on = [], threading.Event()

        def early():
            found.append(search("early"))

        def late():
            may_go_on.wait()
            found.append(search("late"))

        workers = [threading.Thread(target=early), threading.Thread(target=late)]
        for worker in workers:
            worker.start()
        if certain:
            workers[0].join()
        else:
            may_go_on.set()
        threading.Event().wait(seconds)
        seen = search(",".join(found))
        may_go_on.set()
        for worker in workers:
            worker.join()
        return [seen, search(",".join(found))]

    expected, recording = record(lambda: agent(SOON, certain=True))
    assert expected[0] == "answer of answer of early"
    for _ in range(3):
        replayed = replayed_in_time(recording, lambda: agent(FOR_EVER, certain=False))
        assert replayed.result == expected
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_a_pulse_beats_as_often_as_in_the_recording():
    """A thread that does something until it is told to stop does it as often, between the same calls, in no time."""

    def agent(seconds, beats_at_least):
        stop, beaten, count = threading.Event(), threading.Semaphore(0), [0]

        def beat():
            while not stop.wait(seconds):
                count[0] += 1
                search(f"beat {count[0]}")
                beaten.release()

        thread = threading.Thread(target=beat)
        thread.start()
        for _ in range(beats_at_least):
            beaten.acquire()
        seen = search("between")
        stop.set()
        thread.join()
        return seen, count[0]

    expected, recording = record(lambda: agent(SOON, 3))
    assert expected[1] >= 3
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER, 3))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert replayed.tape.count_reads_left() == 0


def test_a_timer_goes_off_at_its_turn_without_its_time():
    """`threading.Timer` waits for whoever started it: one that went off does so at once, one that was cancelled not."""

    def agent(seconds):
        gone_off = []
        timers = [threading.Timer(seconds, lambda: gone_off.append(search("timer")))]
        timers.append(threading.Timer(FOR_EVER, lambda: gone_off.append("never")))
        for timer in timers:
            timer.start()
        timers[0].join()
        timers[1].cancel()
        timers[1].join()
        return gone_off

    expected, recording = record(lambda: agent(SOON))
    assert expected == ["answer of timer"]
    assert replayed_in_time(recording, lambda: agent(FOR_EVER)).result == expected


def test_the_same_futures_are_done_when_the_wait_for_them_ends():
    """`concurrent.futures.wait` tells apart what was done and what was not as it did in the recording."""

    def agent(seconds, held):
        over, begun = [threading.Event() for _ in range(3)], threading.Event()

        def work(number):
            begun.set()
            over[number].wait()
            return search(f"s{number}")

        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(work, number) for number in range(3)]
            for number in range(3):
                if number != held:
                    over[number].set()
            begun.wait()
            if held is not None:
                for number in range(3):
                    if number != held:
                        calls[number].result()
            found = pools.wait(calls, seconds)
            for event in over:
                event.set()
            return sorted(calls.index(call) for call in found.done), sorted(call.result() for call in calls)

    expected, recording = record(lambda: agent(SOON, held=1))
    assert expected[0] == [0, 2]
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER, held=None))
    assert replayed.result == expected
    assert replayed.tape.count_reads_left() == 0


def test_the_futures_before_a_deadline_are_given_again_and_then_it_is_over():
    """`as_completed` with a timeout gives what was done in time, and times out where it did."""

    def agent(seconds):
        over, given = threading.Event(), []
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(search, "quick"), pool.submit(over.wait)]
            with pytest.raises(pools.TimeoutError):
                for call in pools.as_completed(calls, seconds):
                    given.append(call.result())
            over.set()
        return given

    expected, recording = record(lambda: agent(1.0))
    assert expected == ["answer of quick"]
    assert replayed_in_time(recording, lambda: agent(FOR_EVER)).result == expected


def test_a_timeout_that_the_call_itself_raised_is_its_result():
    """A call that raises a timeout of its own did come in time."""

    def fail():
        raise pools.TimeoutError("its own")

    def agent():
        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(pools.TimeoutError, match="its own"):
                pool.submit(fail).result(FOR_EVER)
        return search("after")

    expected, recording = record(agent)
    assert _waits(recording) == [("future", True)]
    assert replayed_in_time(recording, agent).result == expected


def test_a_thread_that_only_looks_sees_the_same():
    """A call that does not wait at all (`get_nowait`, `acquire(blocking=False)`) gets what it got in the recording."""

    def agent(certain):
        line, lock = queue.Queue(), threading.Lock()
        feeder = threading.Thread(target=lambda: line.put(search("fed")))
        looked = []

        def look():
            try:
                looked.append(line.get_nowait())
            except queue.Empty:
                looked.append("nothing")
            looked.append(str(lock.acquire(blocking=False)))

        look()
        feeder.start()
        if certain:
            feeder.join()
        look()
        feeder.join()
        return search(" ".join(looked))

    expected, recording = record(lambda: agent(certain=True))
    assert "nothing True answer of fed False" in expected
    for _ in range(3):
        assert replayed_in_time(recording, lambda: agent(certain=False)).result == expected


def test_a_worker_thread_gives_up_on_a_task_of_the_loop_again():
    """`run_coroutine_threadsafe(...).result(timeout)` gives up at once where it gave up in the recording."""

    async def slow(source):
        await asyncio.sleep(FOR_EVER)
        return source

    ask = tool_async("ask", slow, "source")

    def agent(seconds):
        async def main():
            loop = asyncio.get_running_loop()

            def work():
                call = asyncio.run_coroutine_threadsafe(ask("slow"), loop)
                with pytest.raises(pools.TimeoutError):
                    call.result(seconds)
                call.cancel()
                return search("instead")

            return await asyncio.to_thread(work)

        return main()

    expected, recording = record(lambda: agent(SOON))
    assert replayed_in_time(recording, lambda: agent(FOR_EVER)).result == expected


def test_what_never_comes_is_given_up_and_said():
    """Where nobody gives what came in the recording the wait is given up, and the replay says so: no deadlock."""

    def agent(seconds, *, given):
        event = threading.Event()
        if given:
            event.set()
        return search("x"), event.wait(seconds)

    (_, came), recording = record(lambda: agent(FOR_EVER, given=True))
    assert came
    replayed = replayed_in_time(recording, lambda: agent(SOON, given=False))
    assert replayed.result == ("answer of x", False)
    assert replayed.playback.order.not_imposed_on(replayed.tape) == (0,)


def test_a_wait_for_a_thread_that_departed_ends():
    """Where the peer stopped at a departure, whoever waits for it stops too, whatever its deadline."""

    def agent(source):
        line = queue.Queue()
        threading.Thread(target=lambda: line.put(search(source)), daemon=True).start()
        return line.get(timeout=FOR_EVER)

    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        _, recording = record(lambda: agent("asked"))
        with pytest.raises(ReplayDeparture):
            replayed_in_time(recording, lambda: agent("changed"))
    finally:
        threading.excepthook = hook


def test_waits_that_no_recording_knows_are_made():
    """A changed agent that waits more often waits as it stands, and departs nowhere for it."""
    _, recording = record(lambda: search("x"))
    replayed = replayed_in_time(recording, lambda: (threading.Event().wait(SOON), search("x")))
    assert replayed.result == (False, "answer of x")


def test_only_the_waits_of_the_application_are_reads():
    """What a library waits for, and what the standard library does on its own, is not recorded."""
    file = os.path.join(sysconfig.get_path("purelib"), "some_library.py")
    names = {}
    exec(compile("def wait(event, seconds):\n    return event.wait(seconds)\n", file, "exec"), names)  # noqa: S102

    def agent():
        names["wait"](threading.Event(), SOON)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(search, "x").result()

    _, recording = record(agent)
    assert _waits(recording) == []


def test_a_pulse_that_outlives_its_run_is_nobodys():
    """A thread that waits on after its run's end neither records nor counts as a late call."""
    stop, waited = threading.Event(), threading.Event()
    lost = []

    def beat():
        while not stop.wait(SOON):
            if over.is_set():
                waited.set()

    over = threading.Event()

    def agent():
        from otel_agent_replay.boundary.session import active

        active()[0].observer.lost = lost.append
        thread = threading.Thread(target=beat)
        thread.start()
        return thread

    kept = []
    record(lambda: kept.append(agent()))  # a thread is no value to keep
    over.set()
    assert waited.wait(LIMIT_S)
    stop.set()
    kept[0].join()
    assert lost == []
