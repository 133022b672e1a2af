"""When a process that records starts a sealer, with the clock and the starting in the test's hands."""

from __future__ import annotations

import _thread
import logging
import os
import threading

import pytest

from otel_agent_replay.export import on_demand
from otel_agent_replay.export.on_demand import (
    ENOUGH_BYTES,
    ENOUGH_SEGMENTS,
    LONGEST_WAIT_S,
    SHORTEST_PAUSE_S,
    OnDemandSealer,
    on_demand_sealer,
)
from otel_agent_replay.settings import Settings

PATIENCE_S = 10


class Bench:
    """A sealer whose clock stands still until it is moved, and whose starts are counted; each may be held."""

    def __init__(self, tmp_path, *, fails=()):
        self.now = 1000.0
        self.fails = list(fails)
        self.threads = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()
        self.sealer = OnDemandSealer(tmp_path, spawn=self.spawn, clock=lambda: self.now)

    def spawn(self, lake):
        self.threads.append(threading.get_ident())
        self.began.release()
        assert self.may_end.wait(PATIENCE_S)
        if self.fails:
            raise self.fails.pop(0)

    def idle(self):
        """Wait until no start is under way."""
        deadline = threading.Event()
        for _ in range(1000):
            if not self.sealer._starting:
                return
            deadline.wait(0.005)
        raise AssertionError("a start did not end")

    def ended(self, *sizes):
        for size in sizes:
            self.sealer.segment_ended(size)
            self.idle()

    @property
    def starts(self):
        return len(self.threads)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_little_is_left_waiting(bench):
    """A few small segments start nothing."""
    bench.ended(*[100] * (ENOUGH_SEGMENTS - 1))
    assert bench.starts == 0


def test_enough_segments_are_sealed(bench):
    """The fiftieth ended segment starts a sealer, once, and the count begins anew."""
    bench.ended(*[1] * ENOUGH_SEGMENTS)
    assert bench.starts == 1
    bench.now += SHORTEST_PAUSE_S
    bench.ended(*[1] * (ENOUGH_SEGMENTS - 1))
    assert bench.starts == 1
    bench.ended(1)
    assert bench.starts == 2


def test_enough_bytes_are_sealed(bench):
    """Two segments that make up 8 MiB start a sealer."""
    bench.ended(ENOUGH_BYTES - 1)
    assert bench.starts == 0
    bench.ended(1)
    assert bench.starts == 1


def test_what_waits_long_is_sealed_with_the_next(bench):
    """A small segment waits at most until the first one that ends a minute after it."""
    bench.ended(1)
    bench.now += LONGEST_WAIT_S - 1
    bench.ended(1)
    assert bench.starts == 0
    bench.now += 1
    bench.ended(1)
    assert bench.starts == 1


def test_at_most_one_start_in_thirty_seconds(bench):
    """Whatever piles up, the second start comes no earlier than 30 s after the first, and then for all of it."""
    bench.ended(ENOUGH_BYTES)
    bench.now += SHORTEST_PAUSE_S - 0.1
    bench.ended(*[ENOUGH_BYTES] * 5)
    assert bench.starts == 1
    bench.now += 0.1
    bench.ended(1)
    assert bench.starts == 2


def test_the_host_does_not_wait_for_a_start(bench):
    """While a sealer is being started, segments go on ending in the host's thread, and the start is another's."""
    bench.may_end.clear()
    bench.sealer.segment_ended(ENOUGH_BYTES)
    assert bench.began.acquire(timeout=PATIENCE_S)
    bench.now += 2 * SHORTEST_PAUSE_S
    bench.sealer.segment_ended(ENOUGH_BYTES)  # would hang here if it waited
    bench.may_end.set()
    bench.idle()
    assert bench.starts == 1
    assert bench.threads[0] != threading.get_ident()


def test_a_refused_start_is_said_once_counted_and_made_up_for(tmp_path, caplog):
    """When no process can be started the host hears of it once, and the next segment after the pause tries again."""
    bench = Bench(tmp_path, fails=[BlockingIOError("no more processes"), BlockingIOError("no more processes")])
    with caplog.at_level(logging.WARNING, "otel_agent_replay"):
        bench.ended(ENOUGH_BYTES)
        bench.ended(1)
        assert bench.starts == 1
        bench.now += SHORTEST_PAUSE_S
        bench.ended(1)
        bench.now += SHORTEST_PAUSE_S
        bench.ended(1)
    assert bench.starts == 3
    assert bench.sealer.refused == 2
    assert len(caplog.records) == 1
    assert "no more processes" in caplog.text


def test_no_more_threads(bench, monkeypatch, caplog):
    """Where no thread can be started (also: the interpreter is ending) the host goes on, and the start is owed."""
    monkeypatch.setattr(on_demand, "_start_thread", _no_thread)
    bench.ended(ENOUGH_BYTES)
    assert bench.starts == 0
    assert bench.sealer.refused == 1
    assert "can't start new thread" in caplog.text
    monkeypatch.setattr(on_demand, "_start_thread", _thread.start_new_thread)
    bench.now += SHORTEST_PAUSE_S
    bench.ended(1)
    assert bench.starts == 1


def _no_thread(*_):
    raise RuntimeError("can't start new thread")


def test_at_the_end_what_waits_is_sealed_at_once(bench):
    """The process's last act starts a sealer without thread or pause, and nothing starts one afterwards."""
    bench.ended(ENOUGH_BYTES)
    bench.ended(1)
    bench.sealer.finish()
    assert bench.threads[1] == threading.get_ident()
    bench.sealer.finish()
    bench.now += SHORTEST_PAUSE_S
    bench.ended(*[ENOUGH_BYTES] * 3)
    assert bench.starts == 2


def test_at_the_end_of_a_process_that_wrote_nothing_no_sealer_is_started(bench):
    """Nothing waits, so nothing is started."""
    bench.sealer.finish()
    assert bench.starts == 0


def test_a_start_under_way_at_the_end_is_made_again(bench):
    """A thread that is about to start a sealer may die with the interpreter: the end does not rely on it."""
    bench.may_end.clear()
    bench.sealer.segment_ended(ENOUGH_BYTES)
    assert bench.began.acquire(timeout=PATIENCE_S)

    def spawn_and_let_go(lake):
        bench.may_end.set()
        bench.spawn(lake)

    bench.sealer._spawn = spawn_and_let_go
    bench.sealer.finish()
    assert bench.starts == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_with_an_empty_pile(bench):
    """Also a fork in the middle of a start leaves the child able to start one for its own segments."""
    bench.may_end.clear()
    bench.sealer.segment_ended(ENOUGH_BYTES)
    assert bench.began.acquire(timeout=PATIENCE_S)
    bench.sealer.segment_ended(7)
    pid = os.fork()
    if pid == 0:
        sealer = bench.sealer
        fresh = not sealer._starting and not sealer._segments and not sealer._bytes
        os._exit(0 if fresh else 1)
    bench.may_end.set()
    assert os.waitpid(pid, 0)[1] == 0
    bench.idle()


@pytest.mark.parametrize(
    ("environment", "may"),
    [
        ({}, True),
        ({"AGENT_REPLAY_SEAL": "off"}, False),
        ({"AGENT_REPLAY_MODE": "exact"}, False),
        ({"AGENT_REPLAY_MODE": "exact", "AGENT_REPLAY_SEAL": "on_demand"}, False),
    ],
)
def test_who_may_start_a_sealer(environment, may, tmp_path):
    """Neither a replay nor a process that was told not to ever gets one."""
    settings = Settings.load({"lake": tmp_path}, environment, tmp_path)
    assert (on_demand_sealer(settings) is not None) is may
