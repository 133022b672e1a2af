"""Rows of the spans table -> recorded spans, all of them at once: one list a column, then one call a span. Pure."""

from __future__ import annotations

import pyarrow as pa

from otel_agent_replay.lake.columns import Columns
from otel_agent_replay.lake.node_columns import load_nodes
from otel_agent_replay.lake.span_columns import load_span_columns
from otel_agent_replay.model import RecordedSpan


def load_spans(table: pa.Table) -> list[RecordedSpan]:
    """Return the recorded span of each row, in order. Their payloads come with digests only."""
    if not len(table):
        return []
    spans = load_span_columns(Columns(table))
    ours = table.column("kind").is_valid()
    whose = ours.to_pylist()
    if not any(whose):
        return list(map(RecordedSpan, spans))
    with_node = table if all(whose) else table.filter(ours)
    of_node = [span for span, is_ours in zip(spans, whose, strict=True) if is_ours]
    nodes = iter(load_nodes(Columns(with_node), of_node))
    return [RecordedSpan(span, next(nodes) if is_ours else None) for span, is_ours in zip(spans, whose, strict=True)]
