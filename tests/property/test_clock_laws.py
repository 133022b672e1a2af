"""Laws of the clocks of a run that left its tape: none goes back, whatever comes from where, and none falls behind."""

from __future__ import annotations

import itertools
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import Kind
from otel_agent_replay.replay import virtual_clock
from otel_agent_replay.replay.by_arguments import ByArguments
from otel_agent_replay.replay.virtual_clock import VirtualClock
from otel_agent_replay.testing import builders

PLACE = Place.root("agent")
CLOCKS = ("time.time_ns", "time.monotonic_ns", "time.perf_counter_ns", "datetime.now(tz)")
_FIRST_NS = builders._FIRST_NS
_BOOTED_NS = {"time.time_ns": _FIRST_NS, "datetime.now(tz)": _FIRST_NS, "time.monotonic_ns": 10**12}

recorded_reads = st.lists(st.tuples(st.sampled_from(CLOCKS), st.integers(1_000, 10**11)), max_size=8)
"""Which clock the recorded run read, and how many nanoseconds after its read before."""

events = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.sampled_from(CLOCKS), st.booleans()),
        st.tuples(st.just("passes"), st.integers(0, 10**11)),
        st.tuples(st.just("sleeps"), st.floats(0, 100)),
    ),
    max_size=20,
)
"""What the run does that left its tape: it reads, at a place on record or elsewhere, works, or waits."""


def recording(reads):
    run, now_ns = builders.run("agent"), 0
    for name, apart_ns in reads:
        now_ns += apart_ns
        shown = _BOOTED_NS.get(name, 10**10) + now_ns
        run.read(Kind.CLOCK, name, shown // 1000 if name == "datetime.now(tz)" else shown)
    return run.tool("last", {}, 1, takes_ns=now_ns).build()


@given(recorded_reads, events)
def test_no_clock_goes_back_and_no_wait_is_cut(reads, done):
    """Of each clock every value shown is at least the one before, and after a wait at least that much later."""
    recorded = recording(reads)
    real = [0]
    with mock.patch.object(virtual_clock, "_monotonic_ns", lambda: real[0]):
        clock = VirtualClock(recorded, until=0)
        tape = ByArguments(recorded, clock=clock)
        shown = dict.fromkeys(CLOCKS, 0)
        for event in done:
            if event[0] == "passes":
                real[0] += event[1]
            elif event[0] == "sleeps":
                clock.asleep(event[1])()
                shown = {name: value + int(event[1] * 0.99e9) if value else 0 for name, value in shown.items()}
            else:
                _, name, on_record = event
                given_ = tape.read(Kind.CLOCK, name, PLACE, "") if on_record else None
                value = (given_ or clock.read(Kind.CLOCK, name, PLACE, "")).value
                value_ns = value * 1000 if name == "datetime.now(tz)" else value
                assert value_ns >= shown[name] - 1_000  # a datetime has microseconds
                shown[name] = value_ns


@given(recorded_reads)
def test_a_run_that_reads_as_recorded_sees_what_was_recorded(reads):
    """Every value comes from the tape, however long it takes in between; the next one beyond it is not before."""
    recorded = recording(reads)
    real = itertools.count(0, 10**12)
    with mock.patch.object(virtual_clock, "_monotonic_ns", lambda: next(real)):
        clock = VirtualClock(recorded, until=0)
        tape = ByArguments(recorded, clock=clock)
        made = sorted((read for node in recorded.nodes for read in node.reads), key=lambda read: read.sequence)
        for read in made:
            assert tape.read(Kind.CLOCK, read.name, PLACE, read.strand).value == read.value
        for read in made:
            assert clock.read(Kind.CLOCK, read.name, PLACE, "").value >= read.value
