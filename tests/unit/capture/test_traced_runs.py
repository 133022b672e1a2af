"""Which open run a span of ours belongs to."""

from __future__ import annotations

from otel_agent_replay.capture.traced_runs import TracedRuns

TRACE = 7


class OpenRun:
    """Stands for a recorder: a run of the trace with one open span."""

    trace_id = TRACE.to_bytes(16, "big")

    def __init__(self, span_id: int) -> None:
        self._span_id = span_id.to_bytes(8, "big")

    def has_open(self, span_id: bytes) -> bool:
        return span_id == self._span_id


def test_each_run_of_a_trace_knows_its_own_spans():
    """Of two runs in one trace a span belongs to the one that has it open, and to none in another trace."""
    runs = TracedRuns()
    runs.add(TRACE, OpenRun(1), (b"one", ""))
    runs.add(TRACE, OpenRun(2), (b"two", "exact"))
    assert runs.run_of(TRACE, 1) == (b"one", "")
    assert runs.run_of(TRACE, 2) == (b"two", "exact")
    assert runs.run_of(TRACE, 3) == runs.run_of(TRACE + 1, 1) == (b"", "")


def test_a_run_that_has_ended_is_forgotten():
    """What has ended has no spans any more, the other run of its trace has; nothing is kept of a trace without runs."""
    runs, one, two = TracedRuns(), OpenRun(1), OpenRun(2)
    runs.add(TRACE, one, (b"one", ""))
    runs.add(TRACE, two, (b"two", ""))
    runs.discard(one)
    runs.discard(one)
    assert (runs.run_of(TRACE, 1), runs.run_of(TRACE, 2)) == ((b"", ""), (b"two", ""))
    runs.discard(two)
    assert not runs._by_trace
