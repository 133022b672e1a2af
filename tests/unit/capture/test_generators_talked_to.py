"""Generators that are talked to: what is sent, thrown in and closed reaches them, recorded or not, and replays."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, nullcontext

import pytest

import otel_agent_replay as replay
from tests.support.memory_journal import recording as recording_runs
from tests.support.tape_session import recording, replaying


@replay.tool
def asking(top: int):
    """Tell what it is told."""
    heard = []
    for number in range(top):
        try:
            heard.append((yield number))
        except ValueError as error:
            heard.append((yield f"again, {error}"))
    return heard


async def _asking(top: int):
    """The same, in a form that an agent may have too."""
    said = None
    try:
        for number in range(top):
            try:
                said = yield f"{number} {said}"
            except ValueError as error:
                said = yield f"again, {error}"
    finally:
        ended.append("cleaned up")


asking_async = replay.tool(_asking)
asking_agent = replay.agent(_asking)

ended: list[str] = []


def talk(items):
    """Send, throw and take the rest; return all that was heard."""
    heard = [next(items), items.send("one"), items.throw(ValueError("what?")), items.send("two")]
    while True:
        try:
            heard.append(next(items))
        except StopIteration as stop:
            return [*heard, stop.value]


async def talk_async(items):
    """The same with an async generator, then with another that is left."""
    heard = [await anext(items), await items.asend("one"), await items.athrow(ValueError("what?"))]
    heard.append(await items.asend("two"))
    return heard + [item async for item in items]


HEARD = [0, 1, "again, what?", 2, 3, ["one", "two", None, None]]
HEARD_ASYNC = ["0 None", "1 one", "again, what?", "2 two", "3 None"]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("front", ["tool", "agent"])
def test_an_async_generator_hears_what_its_consumer_says(front, recorded):
    """Declared, it is what it was: sent values and thrown errors reach it, and closing it ends it at once."""

    async def consume():
        declared = asking_async if front == "tool" else asking_agent
        heard = await talk_async(declared(4))
        ended.clear()
        left = declared(4)
        await anext(left)
        await left.aclose()
        return heard, list(ended)

    inside = replay.agent(consume) if front == "tool" else consume
    with recording_runs() if recorded else nullcontext():
        assert asyncio.run(inside()) == (HEARD_ASYNC, ["cleaned up"])


def test_a_generator_that_was_talked_to_replays():
    """The recorded items come again, whatever is sent; an error that it answered is answered again."""
    with recording() as observer:
        live = talk(asking(4))
    assert live == HEARD
    with replaying(observer.exchanges) as (tape, again):
        assert talk(asking(4)) == live
    assert tape.left == again.losses == []


def test_an_async_generator_that_was_talked_to_replays():
    """The same for an async one."""
    with recording() as observer:
        live = asyncio.run(talk_async(asking_async(4)))
    assert live == HEARD_ASYNC
    with replaying(observer.exchanges) as (tape, again):
        assert asyncio.run(talk_async(asking_async(4))) == live
    assert tape.left == again.losses == []


def test_a_tool_that_is_a_context_manager_lets_the_same_error_pass_in_a_replay():
    """What the body of its `with` raises comes out as that very error, recorded and replayed."""

    @contextmanager
    @replay.tool
    def opened(name):
        yield name.upper()

    def use():
        problem = KeyError("in the body")
        with pytest.raises(KeyError) as raised, opened("file") as name:
            assert name == "FILE"
            raise problem
        return raised.value is problem

    with recording() as observer:
        assert use()
    with replaying(observer.exchanges):
        assert use()
