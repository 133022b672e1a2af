"""Laws of virtual time: whatever waits inside whatever deadlines, it ends as plain arithmetic says, in that order."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agent_replay.boundary import ambient, virtual_locks, virtual_time
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import COMPONENT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import AnswerSource
from otel_agent_replay.replay.virtual_clock import Start, VirtualClock
from otel_agent_replay.replay.virtual_waits import VirtualWaits
from tests.support.tape_session import MemoryObserver, redaction


@pytest.fixture(autouse=True, scope="module")
def hooked():
    ambient.install()
    virtual_time.install()
    virtual_locks.install()
    yield
    virtual_locks.uninstall()
    virtual_time.uninstall()
    ambient.uninstall()


def in_virtual_time(function):
    waits = VirtualWaits()
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
            return function(), waits.elapsed_ns / 1e9
    finally:
        session.close()


# A plan is a wait of so many seconds, plans one after the other, plans side by side, or a plan under a deadline.
# Which of two equal moments comes first is nobody's law.
WAITS = st.integers(1, 4000).map(lambda number: ("wait", number))
PLANS = st.recursive(
    WAITS,
    lambda inner: st.one_of(
        st.tuples(st.just("then"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("beside"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("within"), st.integers(1, 3000), inner),
    ),
    max_leaves=8,
)


def takes(plan):
    """How long a plan takes by arithmetic."""
    if plan[0] == "wait":
        return plan[1]
    if plan[0] == "within":
        return min(plan[1], takes(plan[2]))
    lengths = [takes(one) for one in plan[1]]
    return sum(lengths) if plan[0] == "then" else max(lengths)


async def followed(plan):
    if plan[0] == "wait":
        await asyncio.sleep(plan[1])
    elif plan[0] == "then":
        for one in plan[1]:
            await followed(one)
    elif plan[0] == "beside":
        await asyncio.gather(*(followed(one) for one in plan[1]))
    else:
        try:
            await asyncio.wait_for(followed(plan[2]), plan[1])
        except asyncio.TimeoutError:
            assert takes(plan[2]) >= plan[1]
        else:
            assert takes(plan[2]) <= plan[1]


@settings(deadline=None)
@given(PLANS)
def test_any_plan_of_waits_and_deadlines_takes_what_arithmetic_says(plan):
    """Waits one after the other add up, side by side the longest counts, and a deadline cuts what is longer."""
    assert in_virtual_time(lambda: asyncio.run(followed(plan)))[1] == pytest.approx(takes(plan), abs=1e-3)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12))
def test_tasks_end_in_the_order_of_their_moments(seconds):
    """Equal ones in the order in which they began."""
    ended = []

    async def wait(number):
        await asyncio.sleep(seconds[number])
        ended.append((seconds[number], number))

    async def all_of_them():
        await asyncio.gather(*(wait(number) for number in range(len(seconds))))

    _, elapsed = in_virtual_time(lambda: asyncio.run(all_of_them()))
    assert ended == sorted(ended)
    assert elapsed == max(seconds)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=4, unique=True))
def test_threads_end_in_the_order_of_their_moments(seconds):
    """However the system schedules them."""
    ended = []

    def wait(length):
        time.sleep(length)
        ended.append(length)

    def all_of_them():
        threads = [threading.Thread(target=wait, args=(length,)) for length in seconds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, elapsed = in_virtual_time(all_of_them)
    assert ended == sorted(seconds)
    assert elapsed == max(seconds)
