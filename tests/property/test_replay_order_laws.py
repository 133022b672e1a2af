"""An unchanged agent replays exactly, whatever its concurrent calls' latencies were."""

import asyncio
import queue
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.boundary.crossing import new_strand, within_strand
from tests.taped_runs import Replayed, record, tool, tool_async

DELAYS = st.lists(st.sampled_from([0.0, 0.001, 0.002, 0.004]), min_size=2, max_size=6)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(DELAYS, st.integers(1, 3))
def test_tasks_complete_in_the_recorded_order(delays, rounds):
    """Tasks of several calls each, consumed as they complete, give the recorded order and results."""

    async def wait(number, turn):
        await asyncio.sleep(delays[(number + turn) % len(delays)])
        return number * 10 + turn

    wait = tool_async("wait", wait, "number", "turn")

    async def one(number):
        return [await wait(number, turn) for turn in range(rounds)]

    async def agent():
        order = []
        for nearest in asyncio.as_completed([one(number) for number in range(len(delays))]):
            order.append(await nearest)
            order.append(await wait(len(order), 0))
        return order

    expected, recording = record(agent)
    replayed = Replayed(recording, agent)
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert list(replayed.tape.left()) == []


@SLOW
@given(DELAYS)
def test_threads_complete_in_the_recorded_order(delays):
    """Workers that feed a queue, read by a consumer that calls a tool for each, give the recorded order."""
    import time

    def wait(number):
        time.sleep(delays[number])
        return number

    wait = tool("wait", wait, "number")
    note = tool("note", lambda text: text, "text")

    def agent():
        results, order = queue.Queue(), []
        with ThreadPoolExecutor(len(delays)) as pool:
            for number in range(len(delays)):
                context, strand = copy_context(), new_strand()

                def work(number=number, strand=strand):
                    with within_strand(strand):
                        results.put(wait(number))

                pool.submit(context.run, work)
            for _ in delays:
                order.append(note(f"{len(order)}: {results.get()}"))
        return order

    expected, recording = record(agent)
    replayed = Replayed(recording, agent)
    assert replayed.result == expected
    assert list(replayed.tape.left()) == []


@SLOW
@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.booleans())
def test_calls_that_end_turns_apart_are_seen_in_the_recorded_groups(gaps, cancels):
    """However many turns of the loop lie between ends, whoever waits for the next sees the same ones done together."""
    events = {}

    async def search(number):
        await events[number].wait()
        return number

    search = tool_async("search", search, "number")
    note = tool("note", lambda text: text, "text")

    async def release():
        for number, gap in enumerate(gaps):
            for _ in range(gap):
                await asyncio.sleep(0)
            events[number].set()

    async def agent():
        events.update((number, asyncio.Event()) for number in range(len(gaps)))
        tasks = {asyncio.create_task(search(number)): number for number in reversed(range(len(gaps)))}
        await asyncio.sleep(0)
        releasing = asyncio.create_task(release())
        groups, pending = [], set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            groups.append(note(str(sorted(tasks[task] for task in done))))
            if cancels:
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
                break
        await releasing
        return groups

    expected, recording = record(agent)
    replayed = Replayed(recording, agent)
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert list(replayed.tape.left()) == []
