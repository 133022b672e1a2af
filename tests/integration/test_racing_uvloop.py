"""Racing agents replay in the recorded order under uvloop too, whose ready queue nobody can see."""

import asyncio
import time

import pytest

from otel_agent_replay.boundary import threads
from tests.taped_runs import Replayed, record, tool, tool_async

uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed here")

DELAYS = {"slow": 0.06, "middle": 0.03, "fast": 0.01}
REPLAYS = 4


@pytest.fixture(autouse=True)
def _hooked():
    threads.install()
    yield
    threads.uninstall()


def _replays_exactly(agent):
    """Record the agent in a loop of uvloop, replay it in others, and return its result."""

    def run():
        loop = uvloop.new_event_loop()
        try:
            return loop.run_until_complete(agent())
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    expected, recording = record(run)
    for _ in range(REPLAYS):
        replayed = Replayed(recording, run)
        assert replayed.result == expected
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
        assert list(replayed.tape.left()) == []
    return expected


async def _search(source):
    await asyncio.sleep(DELAYS[source])
    return f"answer of {source}"


def _blocking(source):
    time.sleep(DELAYS[source])
    return f"{source} in a thread"


search = tool_async("search", _search, "source")
blocking = tool("blocking", _blocking, "source")
note = tool("note", lambda text: text, "text")


def test_the_first_completed_wins_again_and_the_rest_is_cancelled():
    """Of three calls the recorded one is done first, and the others are cancelled where they were."""

    async def agent():
        tasks = [asyncio.create_task(search(source)) for source in DELAYS]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [note(text) for text in sorted(task.result() for task in done)]

    assert "answer of fast" in _replays_exactly(agent)


def test_each_is_seen_as_it_is_done():
    """`asyncio.as_completed` gives the recorded order, though each result leads to another call."""

    async def agent():
        order = []
        for nearest in asyncio.as_completed([search(source) for source in DELAYS]):
            order.append(await nearest)
            note(str(order))
        return order

    assert len(_replays_exactly(agent)) == len(DELAYS)


def test_many_that_ended_in_one_turn_are_seen_together():
    """Six calls that end in one turn of the loop are all done when the waiter comes to look."""
    events = {}

    async def wait_for_it(source):
        await events[source].wait()
        return source

    wait_for_it = tool_async("wait_for_it", wait_for_it, "source")

    async def agent():
        events.update((source, asyncio.Event()) for source in "abcdef")
        tasks = [asyncio.create_task(wait_for_it(source)) for source in events]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.005, lambda: [event.set() for event in reversed(events.values())])
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return note(str(len(done)))

    assert _replays_exactly(agent) == "6"


def test_a_timeout_fires_again_beside_threads():
    """A timeout that fired fires again, and calls in threads end among the loop's own in the recorded order."""

    async def agent():
        order = []

        async def one(awaitable):
            order.append(await awaitable)
            note(str(order))

        await asyncio.gather(
            one(asyncio.to_thread(blocking, "middle")), one(search("slow")), one(asyncio.to_thread(blocking, "fast"))
        )
        try:
            await asyncio.wait_for(search("slow"), 0.02)
        except asyncio.TimeoutError:
            order.append(note("gave up"))
        return order

    assert _replays_exactly(agent)[-1] == "gave up"
