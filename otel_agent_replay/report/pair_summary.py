"""A comparison in six keys, for scripts that want counts and names rather than the whole document."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.compare import Added, Changed, Comparison, Moved, NodeRef, Removed, Verdict
from otel_agent_replay.model import RecordedRun


def pair_summary(comparison: Comparison, a: RecordedRun, b: RecordedRun) -> dict[str, Any]:
    """Return `equal`, `added`, `removed`, `changed`, `moved` and `matched` (pairs, the runs themselves among them).

    Spans are named as they are in the trace, with the name of the span above; `below` counts what came with one.
    """
    names_a, names_b = _Names(a), _Names(b)
    return {
        "equal": comparison.verdict in (Verdict.IDENTICAL, Verdict.REORDERED),
        "added": [names_b.entry(one.b, one.below) for one in comparison.changes if isinstance(one, Added)],
        "removed": [names_a.entry(one.a, one.below) for one in comparison.changes if isinstance(one, Removed)],
        "changed": [
            {**names_a.entry(one.a), "fields": [item.field.value for item in one.fields]}
            for one in comparison.changes
            if isinstance(one, Changed)
        ],
        "moved": [names_a.entry(one.a) for one in comparison.changes if isinstance(one, Moved)],
        "matched": len(comparison.alignment.pairs),
    }


class _Names:
    """The names of a run's spans by id."""

    def __init__(self, run: RecordedRun) -> None:
        self._spans = {item.span.span_id: item.span for item in run.spans}

    def entry(self, node: NodeRef, below: int = 0) -> dict[str, Any]:
        span = self._spans.get(node.span_id)
        parent = None if span is None else self._spans.get(span.parent_span_id)
        found: dict[str, Any] = {"name": node.name if span is None else span.name}
        found["under"] = "" if parent is None else parent.name
        return {**found, "below": below} if below else found
