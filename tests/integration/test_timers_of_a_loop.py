"""Timers of an event loop that the agent sets go off in a replay where they went off, in no time, and nowhere else.

The replays below give the timers other deadlines than their recordings, so that no clock can decide.
"""

from __future__ import annotations

import asyncio
import sys
import time

import anyio
import pytest

from otel_agent_replay.boundary import loop_timers, sleep, threads, waits
from otel_agent_replay.model import TIMER
from tests.taped_runs import reads_of, record, replayed_in_time, tool_async

FOR_EVER = 600.0  # seconds: what a replay must not wait for
SOON = 0.03  # what a recording waits for


async def _find(source):
    return f"answer of {source}"


async def _never(source):
    await asyncio.Event().wait()
    return source


search = tool_async("search", _find, "source")
hang = tool_async("hang", _never, "source")


@pytest.fixture(autouse=True)
def _hooked():
    parts = (threads, waits, loop_timers, sleep)
    for part in parts:
        part.install()
    yield
    for part in reversed(parts):
        part.uninstall()


def _timers(recording):
    """Whether each timer of a recording went off, in the order in which that was settled."""
    return [read.value != 0 for read in reads_of(recording, TIMER)]


async def _wait_for(awaitable, seconds):
    try:
        await asyncio.wait_for(awaitable, seconds)
    except asyncio.TimeoutError:
        return True
    return False


async def _timeout(awaitable, seconds):
    try:
        async with asyncio.timeout(seconds):
            await awaitable
    except asyncio.TimeoutError:
        return True
    return False


async def _wait(awaitable, seconds):
    task = asyncio.ensure_future(awaitable)
    done, _ = await asyncio.wait([task], timeout=seconds)
    task.cancel()
    return not done


async def _as_completed(awaitable, seconds):
    try:
        for one in asyncio.as_completed([awaitable], timeout=seconds):
            await one
    except asyncio.TimeoutError:
        return True
    return False


async def _call_later(awaitable, seconds):
    task = asyncio.ensure_future(awaitable)
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return True
    finally:
        timer.cancel()
    return False


async def _move_on(awaitable, seconds):
    with anyio.move_on_after(seconds) as scope:
        await awaitable
    return scope.cancelled_caught


async def _fail_after(awaitable, seconds):
    try:
        with anyio.fail_after(seconds):
            await awaitable
    except TimeoutError:
        return True
    return False


WAYS = [
    _wait_for,
    pytest.param(_timeout, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout is of 3.11")),
    _wait,
    _as_completed,
    _call_later,
    _move_on,
    _fail_after,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("inside", ["a call", "nothing recorded"])
def test_a_timeout_that_fired_fires_again_without_its_time(way, inside):
    """Whatever was cut off, a call or a wait that is not recorded, is cut off again at once, however long it is."""

    async def agent(seconds):
        cut_off = await way(hang("x") if inside == "a call" else asyncio.Event().wait(), seconds)
        return await search(str(cut_off))

    expected, recording = record(lambda: agent(SOON))
    assert expected == "answer of True"
    assert _timers(recording) == [True]
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert replayed.tape.count_reads_left() == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_timeout_that_did_not_fire_does_not_fire_in_a_slower_replay(way):
    """What came in time in the recording is waited for past its deadline."""

    async def agent(seconds, thinking):
        def think():
            until = time.perf_counter() + thinking
            while time.perf_counter() < until:
                pass

        async def work():
            await asyncio.get_running_loop().run_in_executor(None, think)
            return await search("worked")

        cut_off = await way(work(), seconds)
        return await search(str(cut_off))

    expected, recording = record(lambda: agent(FOR_EVER, 0.0))
    assert expected == "answer of False"
    replayed = replayed_in_time(recording, lambda: agent(0.001, 0.1))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_a_queue_is_looked_into_as_often_as_in_the_recording():
    """Polls with a timeout come out between the same calls, though nothing of them crosses the boundary."""

    async def agent(seconds, polls):
        line, enough = asyncio.Queue(), asyncio.Event()
        empty = 0

        async def work():
            await enough.wait()
            await line.put(await search("worked"))

        worker = asyncio.ensure_future(work())
        while True:
            try:
                found = await asyncio.wait_for(line.get(), seconds)
            except asyncio.TimeoutError:
                empty += 1
                if empty == polls:
                    enough.set()
                continue
            await worker
            return await search(f"{found} after {empty}")

    expected, recording = record(lambda: agent(SOON, 3))
    assert "after" in expected
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER, 3))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_timers_and_calls_of_two_tasks_keep_their_order():
    """A timer that went off between the ends of two calls goes off between them again, whatever its deadline."""

    async def agent(seconds):
        told, gone_off = [], asyncio.Event()

        async def call(source, after):
            if after is not None:
                await after.wait()
            told.append(await search(source))

        def go_off():
            told.append("timer")
            gone_off.set()

        asyncio.get_running_loop().call_later(seconds, go_off)
        await asyncio.gather(call("a", None), call("b", gone_off))
        return await search(",".join(told))

    expected, recording = record(lambda: agent(SOON))
    assert expected.endswith("timer,answer of b")
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER))
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_the_loops_clock_shows_that_the_time_has_passed():
    """Once a timer went off the loop's clock is past its moment, and what is set later counts from there."""

    async def agent(seconds):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await _wait_for(asyncio.Event().wait(), seconds)
        passed = loop.time() - began >= seconds
        after = loop.create_future()
        loop.call_later(0, after.set_result, None)
        await after
        return await search(str(passed))

    expected, recording = record(lambda: agent(SOON))
    replayed = replayed_in_time(recording, lambda: agent(FOR_EVER))
    assert replayed.result == expected == "answer of True"


def test_a_timer_that_goes_off_in_no_recording_is_a_real_one():
    """A changed agent with a timeout more waits for it, and departs nowhere for it."""

    async def agent(more):
        found = await search("x")
        if more:
            assert await _wait_for(asyncio.Event().wait(), SOON)
        return found

    expected, recording = record(lambda: agent(more=False))
    assert replayed_in_time(recording, lambda: agent(more=True)).result == expected


def test_a_call_that_never_ends_is_given_up_and_said():
    """Where what came in the recording does not come, the timeout fires in the end, and the replay says so."""

    async def agent(seconds, comes):
        event = asyncio.Event()
        if comes:
            asyncio.get_running_loop().call_soon(event.set)
        found = await search("x")
        return found, await _wait_for(event.wait(), seconds)

    (_, fired), recording = record(lambda: agent(FOR_EVER, comes=True))
    assert not fired
    replayed = replayed_in_time(recording, lambda: agent(SOON, comes=False))
    assert replayed.result == ("answer of x", True)
    assert replayed.playback.order.not_imposed_on(replayed.tape) == (0,)
