"""Agents that race concurrent calls replay without departing: the recorded completion order is imposed."""

import asyncio
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from tests.taped_runs import Replayed, record, tool, tool_async

REPLAYS = 20


class Live:
    """Counts calls that were really made: a replay makes none."""

    def __init__(self):
        self.calls = 0


def _async_tools(live, delays):
    async def search(source):
        live.calls += 1
        await asyncio.sleep(delays[source])
        return f"answer of {source}"

    async def summarise(text):
        live.calls += 1
        return f"summary of {text}"

    return tool_async("search", search, "source"), tool_async("summarise", summarise, "text")


def _sync_tools(live, delays):
    def search(source):
        live.calls += 1
        time.sleep(delays[source])
        return f"answer of {source}"

    def summarise(text):
        live.calls += 1
        return f"summary of {text}"

    return tool("search", search, "source"), tool("summarise", summarise, "text")


def _replays_exactly(agent, live, *, replays=REPLAYS):
    expected, recording = record(agent)
    made = live.calls
    for _ in range(replays):
        replayed = Replayed(recording, agent)
        assert replayed.result == expected
        assert replayed.playback.interrupt is None
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
        assert list(replayed.tape.left()) == []
    assert live.calls == made, "a replay called through"
    return expected


DELAYS = {"slow": 0.06, "fast": 0.01, "middle": 0.03}


def test_first_completed_of_three_wins_again():
    """The agent takes the first of three answers and cancels the others; each replay has the same winner."""
    live = Live()
    search, summarise = _async_tools(live, DELAYS)

    async def agent():
        tasks = {asyncio.create_task(search(source)): source for source in ("slow", "middle", "fast")}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        # Two that are done at once, on a busy machine, come out of the set in the order of their addresses.
        return [await summarise(text) for text in sorted(tasks[task] for task in done)]

    assert _replays_exactly(agent, live)[0] == "summary of fast"


def test_first_completed_repeatedly_sees_one_at_a_time():
    """Waiting again for the next of the rest gives the recorded order, one answer at a time."""
    live = Live()
    search, summarise = _async_tools(live, DELAYS)

    async def agent():
        pending = {asyncio.create_task(search(source)) for source in ("slow", "middle", "fast")}
        order = []
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            order.append(sorted(task.result() for task in done))
            await summarise(str(order))
        return order

    assert len(_replays_exactly(agent, live)) == 3


def test_asyncio_as_completed_keeps_its_order():
    """`asyncio.as_completed` yields in the recorded order, though each result leads to another call."""
    live = Live()
    search, summarise = _async_tools(live, DELAYS)

    async def agent():
        order = []
        for nearest in asyncio.as_completed([search("slow"), search("middle"), search("fast")]):
            text = await nearest
            order.append(await summarise(f"{len(order)}: {text}"))
        return order

    assert _replays_exactly(agent, live)[0] == "summary of 0: answer of fast"


def test_gather_of_identical_calls_gives_each_its_own_answer():
    """Three identical prompts in parallel get their own recorded answers, whoever ended first."""
    live = Live()
    answers = iter(("first", "second", "third"))
    delays = iter((0.04, 0.01, 0.02))

    async def ask(prompt):
        live.calls += 1
        answer, delay = next(answers), next(delays)
        await asyncio.sleep(delay)
        return answer

    ask = tool_async("ask", ask, "prompt")

    async def agent():
        return await asyncio.gather(ask("same"), ask("same"), ask("same"))

    assert _replays_exactly(agent, live) == ["first", "second", "third"]


def test_fired_timeout_fires_again():
    """A call that the caller gave up on after a timeout is held until it gives up again."""
    live = Live()
    search, summarise = _async_tools(live, {"slow": 5.0, "fast": 0.01})

    async def agent():
        try:
            text = await asyncio.wait_for(search("slow"), timeout=0.05)
        except asyncio.TimeoutError:
            text = await search("fast")
        return await summarise(text)

    assert _replays_exactly(agent, live, replays=5) == "summary of answer of fast"


def test_a_timeout_that_fired_takes_no_time_and_fires_around_whatever_was_done_before():
    """A timeout around several calls fires at once in a replay, though the call it cut off began late in it."""
    live = Live()
    search, summarise = _async_tools(live, {"slow": 9.0, "fast": 0.9})

    async def both():
        return [await search("fast"), await search("slow")]

    async def agent():
        try:
            return await asyncio.wait_for(both(), timeout=1.5)
        except asyncio.TimeoutError:
            return await summarise("gave up")

    began = time.perf_counter()
    expected, recording = record(agent)
    took = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(3):
        replayed = Replayed(recording, agent)
        assert replayed.result == expected == "summary of gave up"
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert time.perf_counter() - began < took


def test_timeout_beside_other_calls_keeps_the_order():
    """A timeout that fired between other calls' ends fires there again, on the real clock."""
    live = Live()
    search, summarise = _async_tools(live, {"slow": 5.0, "fast": 0.01, "late": 0.6})

    async def impatient():
        try:
            return await asyncio.wait_for(search("slow"), timeout=0.4)
        except asyncio.TimeoutError:
            return await summarise("gave up")

    async def agent():
        return await asyncio.gather(impatient(), search("fast"), search("late"))

    assert _replays_exactly(agent, live, replays=3)[0] == "summary of gave up"


def test_thread_pool_feeding_a_queue():
    """Workers put results on a queue as they come; the consumer sees the recorded order."""
    live = Live()
    delays = {f"s{n}": (5 - n) * 0.015 for n in range(5)}
    search, summarise = _sync_tools(live, delays)

    def agent():
        results = queue.Queue()
        with ThreadPoolExecutor(5) as pool:
            for source in delays:
                pool.submit(_carry(lambda source=source: results.put(search(source))))
            order = []
            for _ in delays:
                text = results.get()
                order.append(summarise(f"{len(order)}: {text}"))
        return order

    assert len(_replays_exactly(agent, live)) == len(delays)


def test_as_completed_of_futures():
    """`concurrent.futures.as_completed` yields in the recorded order."""
    live = Live()
    delays = {f"s{n}": (4 - n) * 0.02 for n in range(4)}
    search, _ = _sync_tools(live, delays)

    def agent():
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(_carry(lambda source=source: search(source))) for source in delays]
            return [future.result() for future in as_completed(futures)]

    assert len(_replays_exactly(agent, live)) == len(delays)


def test_consumer_stops_the_others_after_the_first():
    """A consumer that sets a stop flag after the first result is seen by the workers before the second exists."""
    live = Live()
    search, summarise = _sync_tools(live, {"a": 0.01, "b": 0.05, "c": 0.09})

    def agent():
        results, stop, ran_on = queue.Queue(), threading.Event(), []

        def worker(source):
            text = search(source)
            if stop.is_set():
                return
            ran_on.append(source)
            results.put(text)

        threads = [threading.Thread(target=_carry(lambda source=source: worker(source))) for source in "abc"]
        for thread in threads:
            thread.start()
        first = results.get()
        stop.set()
        for thread in threads:
            thread.join()
        return [first, ran_on, summarise(first)]

    assert _replays_exactly(agent, live) == ["answer of a", ["a"], "summary of answer of a"]


def test_loop_and_threads_mixed():
    """Blocking tools in threads and coroutines in one loop end in one recorded order."""
    live = Live()
    blocking, _ = _sync_tools(live, {"thread": 0.03})
    search, summarise = _async_tools(live, {"slow": 0.06, "fast": 0.01})

    async def agent():
        order = []

        async def one(awaitable):
            order.append(await awaitable)
            order.append(await summarise(order[-1]))

        await asyncio.gather(one(asyncio.to_thread(blocking, "thread")), one(search("slow")), one(search("fast")))
        return order

    result = _replays_exactly(agent, live)
    assert [text for text in result if text.startswith("answer")] == [
        "answer of fast", "answer of thread", "answer of slow",
    ]  # fmt: skip


def test_order_that_would_deadlock_is_let_go_and_said():
    """An answer that waits for one which its own reader holds back is let go, and the step is named."""
    live = Live()

    def read(name):
        live.calls += 1
        return name

    read = tool("read", read, "name")
    done = threading.Event()

    def recording():
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(_carry(lambda: (done.wait(5), read("one"))))
            read("two")
            done.set()
            first.result()

    def changed():
        return [read("one"), read("two")]

    _, tape = record(recording)
    started = time.perf_counter()
    replayed = Replayed(tape, changed)
    assert replayed.result == ["one", "two"]
    assert replayed.playback.order.not_imposed_on(replayed.tape) == (2,)
    assert time.perf_counter() - started < 2


def _carry(function):
    """Hand the running context to a thread, as the recorder's thread hook does."""
    import contextvars

    from otel_agent_replay.boundary.crossing import new_strand, within_strand

    context, strand = contextvars.copy_context(), new_strand()

    def run():
        with within_strand(strand):
            return function()

    return lambda: context.run(run)


@pytest.mark.parametrize("agent_delay", [0.0, 0.002])
def test_slow_consumers_change_nothing(agent_delay):
    """A consumer that needs a moment before it acts still acts before the next answer."""
    live = Live()
    search, summarise = _async_tools(live, DELAYS)

    async def agent():
        pending = {asyncio.create_task(search(source)) for source in ("slow", "middle", "fast")}
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        time.sleep(agent_delay)
        for _ in range(20):
            await asyncio.sleep(0)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [await summarise(text) for text in sorted(task.result() for task in done)]

    assert "summary of answer of fast" in _replays_exactly(agent, live)


def test_a_consumer_that_crosses_nothing_acts_before_the_next_answer_comes():
    """A task that takes many turns of the loop until it acts on an answer comes first again, if it did."""
    live = Live()
    search, summarise = _async_tools(live, {"slow": 0.06, "fast": 0.01})

    async def agent():
        order = []

        async def consumer(source, turns):
            text = await search(source)
            for _ in range(turns):
                await asyncio.sleep(0)
            order.append(text)

        await asyncio.gather(consumer("fast", 20), consumer("slow", 0))
        return await summarise(", ".join(order))

    assert _replays_exactly(agent, live, replays=5) == "summary of answer of fast, answer of slow"


def test_many_calls_that_ended_in_one_turn_are_seen_together():
    """However many calls ended in one turn of the loop, whoever waited for the first finds all of them done."""
    live = Live()
    sources = "abcdefgh"
    events = {}

    async def search(source):
        live.calls += 1
        await events[source].wait()
        return f"answer of {source}"

    search = tool_async("search", search, "source")
    count = tool("count", lambda number: number, "number")

    async def agent():
        events.update((source, asyncio.Event()) for source in sources)
        tasks = [asyncio.create_task(search(source)) for source in sources]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.005, lambda: [events[source].set() for source in reversed(sources)])
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return count(len(done))

    assert _replays_exactly(agent, live, replays=5) == len(sources)


@pytest.mark.parametrize("together", [True, False])
def test_calls_that_ended_together_are_seen_together(together):
    """Two calls that ended in one turn of the loop are both done for their consumer; else it sees the first alone."""
    live = Live()
    events = {}

    async def search(source):
        live.calls += 1
        await events[source].wait()
        return f"answer of {source}"

    search = tool_async("search", search, "source")
    count = tool("count", lambda number: number, "number")

    async def agent():
        events.update((source, asyncio.Event()) for source in "abc")
        tasks = [asyncio.create_task(search(source)) for source in "abc"]
        await asyncio.sleep(0)

        def release():
            events["a"].set()
            if together:
                events["b"].set()
            else:
                asyncio.get_running_loop().call_later(0.005, events["b"].set)

        asyncio.get_running_loop().call_later(0.005, release)
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return count(len(done))

    assert _replays_exactly(agent, live) == (2 if together else 1)
