"""The same requests landed by both ways, as columns and as objects, and what either left in its lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_agent_replay.imports.landing import land
from otel_agent_replay.imports.plain.landing import PlainLander
from otel_agent_replay.lake.layout import LOSSES, SPANS, all_files
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.span_reader import SpanReader
from otel_agent_replay.otlp.spans import resource_spans_of

SOURCE = "otlp"
_OF_FILES = ("pack", "request_payload", "result_payload")
"""What depends on the runs that lie in a file together."""


def requests_of(spans, size):
    """Spans in requests of at most `size`, each with its resource and scope."""
    return [
        TracesData(resource_spans=[resource_spans_of(span) for span in spans[first : first + size]]).SerializeToString()
        for first in range(0, len(spans), size)
    ]


def spans_in(requests) -> list[Span]:
    reader = SpanReader()
    return [span for request in requests for span in reader.spans(request)]


def land_as_objects(lake: Path, requests, but=()):
    spans = [span for span in spans_in(requests) if span.trace_id not in but]
    return land(lake, spans, source=SOURCE, segments=["one"])


def land_plain(lake: Path, requests, **options):
    """Land what is plain as columns and the rest as objects; returns what was taken as plain."""
    trace_ids = {span.trace_id for span in spans_in(requests)}
    landed = PlainLander(lake, SOURCE).land(requests, trace_ids, segments=["one"], **options)
    land_as_objects(lake, requests, but={*landed.kept, *landed.left_out})
    return landed


def rows_of(lake: Path):
    """All rows of spans and losses, in an order that tells nothing of files. Numbers by their bits: NaN is NaN."""
    spans = _rows(lake, SPANS, SPANS_SCHEMA).drop_columns(list(_OF_FILES))
    told = [repr(row) for row in spans.sort_by([("run_id", "ascending"), ("position", "ascending")]).to_pylist()]
    return told, sorted(map(repr, _rows(lake, LOSSES, LOSSES_SCHEMA).to_pylist()))


def _rows(lake: Path, table: str, schema: pa.Schema) -> pa.Table:
    files = [pq.read_table(file.path, partitioning=None) for file in all_files(lake, table)]
    return pa.concat_tables([schema.empty_table(), *(file.cast(schema) for file in files)])
