"""Which of two threads is done first is an input: a replay imposes it, whatever the threads do after their calls."""

from __future__ import annotations

import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress

import pytest

from otel_agent_replay.boundary import threads
from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.tape_entry import ThreadEnd
from tests.taped_runs import Replayed, record, tool


@pytest.fixture(autouse=True)
def _hooked():
    threads.install()
    yield
    threads.uninstall()


@pytest.mark.parametrize("thinking", [(0.06, 0.03, 0.0), (0.0, 0.03, 0.06), (0.0, 0.0, 0.0)])
def test_futures_complete_in_the_recorded_order(thinking):
    """Workers whose calls end at once and who then think for some time complete as recorded, however long they think.

    The replay's workers think in the opposite order; without their turns the agent would see the opposite order too.
    """
    search = tool("search", lambda source: f"answer of {source}", "source")

    def agent(seconds):
        def work(number):
            found = search(f"s{number}")
            time.sleep(seconds[number])
            return found

        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(work, number) for number in range(3)]
            return [future.result() for future in as_completed(futures)]

    expected, recording = record(lambda: agent((0.06, 0.0, 0.03)))
    assert sorted(expected) == ["answer of s0", "answer of s1", "answer of s2"]  # s1, s2, s0 on a quiet machine
    for _ in range(3):
        replayed = Replayed(recording, lambda: agent(thinking))
        assert replayed.result == expected
        assert replayed.playback.interrupt is None
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
        assert replayed.tape.count_reads_left() == 0


def test_one_worker_that_does_what_many_did_keeps_their_order():
    """Answers take no time, so a pool's first worker is free for the next task: its consumer still runs in between."""
    search = tool("search", lambda source: f"answer of {source}", "source")
    numbers = range(8)

    def agent(before_submit, in_task):
        def work(number):
            time.sleep(in_task * (number + 1))
            return search(f"s{number}")

        with ThreadPoolExecutor(len(numbers)) as pool:
            futures = []
            for number in numbers:
                futures.append(pool.submit(work, number))
                busy_until = time.perf_counter() + before_submit
                while time.perf_counter() < busy_until:
                    pass
            return [future.result() for future in as_completed(futures)]

    expected, recording = record(lambda: agent(0.0, 0.03))
    assert sorted(expected) == [f"answer of s{number}" for number in numbers]
    for _ in range(3):
        replayed = Replayed(recording, lambda: agent(0.004, 0.0))
        assert replayed.result == expected
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_a_thread_that_is_left_out_holds_nobody_up():
    """A changed agent that starts fewer threads goes on; the threads that it has are not kept for ever."""
    search = tool("search", lambda source: f"answer of {source}", "source")

    def all_in_threads():
        with ThreadPoolExecutor(3) as pool:
            return sorted(pool.map(search, ["s0", "s1", "s2"]))

    def fewer():
        with ThreadPoolExecutor(3) as pool:
            found = pool.submit(search, "s2").result()
        return sorted([found, search("s1"), search("s0")])

    expected, recording = record(all_in_threads)
    began = time.perf_counter()
    replayed = Replayed(recording, fewer)
    assert replayed.result == expected
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("by_queue", [False, True])
def test_a_thread_that_is_stopped_at_its_turn_is_not_overtaken(by_queue, monkeypatch):
    """A thread that had its turn and gets no processor just then is still the first one whose end, or put, is seen."""
    search = tool("search", lambda source: f"answer of {source}", "source")

    def agent():
        found = queue.Queue()
        all_answered, all_put = threading.Barrier(3), threading.Barrier(3)

        def work(source):
            answer = search(source)
            all_answered.wait(10)
            time.sleep(0.02 * int(source))
            if by_queue:
                found.put(answer)
                all_put.wait(10)
            return answer

        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(work, str(number)) for number in range(3)]
            return [found.get() for _ in futures] if by_queue else [future.result() for future in as_completed(futures)]

    expected, recording = record(agent)
    ended = CompletionOrder.ended
    marks = []

    def stopped_after_the_first(order, entry):
        ended(order, entry)
        if isinstance(entry, ThreadEnd):
            marks.append(entry)
            if len(marks) == 1:
                time.sleep(0.1)

    monkeypatch.setattr(CompletionOrder, "ended", stopped_after_the_first)
    replayed = Replayed(recording, agent)
    assert replayed.result == expected
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
    assert marks


@pytest.mark.parametrize("kind", [queue.Queue, queue.LifoQueue, queue.SimpleQueue])
@pytest.mark.parametrize("nowait", [False, True])
def test_a_queue_is_fed_in_the_recorded_order(kind, nowait):
    """Which of two threads puts its result on a queue first is imposed too, whosever call ended first."""
    search = tool("search", lambda source: f"answer of {source}", "source")
    asked, put = threading.Event(), threading.Event()

    def agent(first_waits):
        results = kind()
        order = []

        def feed(source):
            found = search(source)
            if source == "a" and first_waits:
                asked.set()
                put.wait(10)
            if nowait:
                results.put_nowait(found)
            else:
                results.put(found)
            if first_waits:
                put.set()

        first = threading.Thread(target=feed, args=("a",))
        first.start()
        if first_waits:
            asked.wait(10)
        second = threading.Thread(target=feed, args=("b",))
        second.start()
        if kind is queue.LifoQueue:  # what lies on top depends on when one looks: one looks when both are there
            first.join()
            second.join()
        for _ in range(2):
            order.append(search(results.get()))
        first.join()
        second.join()
        return order

    expected, recording = record(lambda: agent(first_waits=True))
    in_order = ["answer of answer of b", "answer of answer of a"]
    assert expected == (in_order[::-1] if kind is queue.LifoQueue else in_order)
    for _ in range(3):
        replayed = Replayed(recording, lambda: agent(first_waits=False))
        assert replayed.result == expected
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
        assert replayed.tape.count_reads_left() == 0


@pytest.mark.skipif(sys.version_info < (3, 13), reason="queues can be shut down since 3.13")
@pytest.mark.parametrize("late", [True, False])
def test_a_queue_is_shut_down_in_the_recorded_order(late):
    """Whether a thread's put came before another thread shut the queue down is imposed too."""
    search = tool("search", lambda source: f"answer of {source}", "source")

    def agent(waits):
        results, first_done = queue.Queue(), threading.Event()

        def put():
            found = search("a")
            if waits and late:
                first_done.wait(10)
            with suppress(queue.ShutDown):
                results.put(found)
            if not late:
                first_done.set()

        def end():
            search("b")
            if waits and not late:
                first_done.wait(10)
            results.shutdown()
            if late:
                first_done.set()

        threads = [threading.Thread(target=one) for one in ((put, end) if late else (end, put))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results.qsize()

    expected, recording = record(lambda: agent(waits=True))
    assert expected == (0 if late else 1)
    for _ in range(3):
        replayed = Replayed(recording, lambda: agent(waits=False))
        assert replayed.result == expected
        assert replayed.playback.order.not_imposed_on(replayed.tape) == ()


def test_a_put_that_was_not_recorded_waits_for_nobody():
    """A changed agent that puts more on a queue goes on, and so does a full queue's."""
    search = tool("search", lambda source: f"answer of {source}", "source")

    def agent(times):
        results, bounded = queue.Queue(), queue.Queue(1)
        with ThreadPoolExecutor(1) as pool:
            for _ in range(times):
                pool.submit(results.put, search("s")).result()
        bounded.put("full")
        with pytest.raises(queue.Full):
            bounded.put("more", timeout=0.001)
        return results.qsize()

    _, recording = record(lambda: agent(1))
    replayed = Replayed(recording, lambda: (agent(1), [queue.Queue().put(1) for _ in range(3)]))
    assert replayed.result[0] == 1
    assert replayed.playback.order.not_imposed_on(replayed.tape) == ()
