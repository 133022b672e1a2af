"""What the garbage collector runs, whenever that is, is part of no run."""

from __future__ import annotations

import gc
import time
import weakref
from contextlib import contextmanager

import pytest

from otel_agent_replay.boundary import clock


@pytest.fixture(autouse=True)
def hooked():
    clock.install()
    yield
    clock.uninstall()


class InACycle:
    """Nobody but the collector can let go of it."""

    def __init__(self, seen):
        self.seen, self.itself = seen, self

    def __del__(self):
        self.seen.append(time.time())


@contextmanager
def collecting_by_hand():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def rounds(collect_at, make):
    """An agent that leaves garbage behind and reads the clock; the collector comes in one of its rounds."""
    with collecting_by_hand():
        read = []
        for number in range(6):
            make()
            if number == collect_at:
                gc.collect()
            read.append(time.time())
        return read


def test_a_finalizer_that_the_collector_runs_reads_for_itself(stage):
    """The collector comes at another moment in the replay: the agent sees the recorded times all the same."""
    seen = []
    recorded = stage.record(lambda: rounds(1, lambda: InACycle(seen)))
    assert len(seen) == 2
    assert stage.replay(lambda: rounds(4, lambda: InACycle(seen))) == recorded
    assert len(seen) == 11
    assert not set(seen) & set(recorded)
    assert stage.observer.names == ["time.time"] * 6


def test_callbacks_of_weak_references_and_of_the_collector_are_no_part_of_it_either(stage):
    """Neither of them reads a time of the run's, though the collector's was set before the run and after it opened."""
    seen, kept = [], []

    def told(_phase, _info):
        seen.append(time.time())

    def make():
        made = InACycle([])
        kept.append(weakref.ref(made, lambda _: seen.append(time.time())))

    def agent(collect_at):
        return rounds(collect_at, make)

    gc.callbacks.insert(0, told)
    try:
        recorded = stage.record(lambda: agent(1))
        replayed = stage.replay(lambda: agent(4))
    finally:
        gc.callbacks.remove(told)
    assert replayed == recorded
    assert len(seen) > 4
    assert stage.observer.names == ["time.time"] * 6


def test_what_ends_where_nobody_holds_it_is_part_of_the_run(stage):
    """A finalizer that runs because a name was let go reads the clock at that place, so it is recorded and replayed."""

    def agent():
        seen = []
        made = InACycle(seen)
        made.itself = None
        del made
        return [*seen, time.time()]

    recorded, replayed = stage.both(agent)
    assert replayed == recorded
    assert len(recorded) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_after_a_collection_the_run_goes_on(stage):
    """The code that was interrupted is where it was, also when a finalizer fails."""

    class Fails:
        def __init__(self):
            self.itself = self

        def __del__(self):
            raise ValueError("in a finalizer")

    def agent():
        Fails()
        gc.collect()
        return [time.time(), time.time()]

    recorded, replayed = stage.both(agent)
    assert replayed == recorded
