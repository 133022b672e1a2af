"""Runs of a lake -> the spans to send: what came from others as it came, our own with all that was recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_agent_replay import semconv
from otel_agent_replay.lake.catalog import Lake, StoredAttempt
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.facts import without_facts
from otel_agent_replay.otlp.runs import spans_of_run


def runs_to_send(lake: Lake, asked: Sequence[bytes]) -> list[bytes]:
    """Return the runs to send for those asked: each once, before it what it was forked from or repeats.

    Runs of the same trace (agents that it called) belong to it. An origin that is not in the lake is left out.
    """
    found: dict[bytes, None] = {}

    def add(run_id: bytes, above: frozenset[bytes]) -> None:
        if run_id in found or run_id in above:
            return
        for attempt in lake.stored_attempts(run_id):
            origin = attempt.run.origin_run_id
            if origin and lake.has(origin):
                add(origin, above | {run_id})
        found[run_id] = None

    for run_id in asked:
        add(run_id, frozenset())
        for attempt in lake.stored_attempts(run_id):
            trace_id = attempt.run.trace_id
            for other in sorted(lake.between("trace_id", trace_id, trace_id)):
                add(other, frozenset())
    return list(found)


def spans_to_send(lake: Lake, run_ids: Sequence[bytes]) -> Iterator[Span]:
    """Yield the spans of runs. Raises RunNotFound, DamagedRecording."""
    for run_id in run_ids:
        for attempt in lake.stored_attempts(run_id):
            if _came_as_spans(attempt):
                yield from (without_facts(recorded.span) for recorded in attempt.spans)
            else:
                yield from spans_of_run(attempt)


def _came_as_spans(attempt: StoredAttempt) -> bool:
    """Whether it is a trace that came in as spans; of other files (trajectories) the spans alone tell too little."""
    root = next((item.span for item in attempt.spans if item.span.span_id == attempt.run.root_span_id), None)
    return attempt.run.mode == "import" and (root is None or semconv.IMPORT_FORMAT not in root.attributes)
