"""How long each span was at work itself: its time less the time in which any of its children was under way. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay.model import RecordedSpan, Span


def self_times(spans: Sequence[RecordedSpan]) -> list[int | None]:
    """Return the nanoseconds of each span, in their order; None where a span has no whole time of its own.

    Children that overlap count once, and only as far as they lie in their parent: it is never less than nothing.
    """
    below: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    for item in spans:
        span = item.span
        if span.parent_span_id and _has_time(span):
            below.setdefault((span.trace_id, span.parent_span_id), []).append((span.start_ns, span.end_ns))
    return [_own(item.span, below.get((item.span.trace_id, item.span.span_id), [])) for item in spans]


def _has_time(span: Span) -> bool:
    return bool(span.start_ns) and span.end_ns >= span.start_ns


def _own(span: Span, children: list[tuple[int, int]]) -> int | None:
    if not _has_time(span):
        return None
    busy, reached = 0, span.start_ns
    for start, end in sorted(children):
        first, last = max(start, reached), min(end, span.end_ns)
        if last > first:
            busy += last - first
            reached = last
    return span.end_ns - span.start_ns - busy
