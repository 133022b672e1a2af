"""What is in accepted requests: which traces, and the spans and log records of some of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agent_replay.imports.dialects import LogRecord
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.spans import spans_of
from otel_agent_replay.otlp.values import attributes_from_otlp, value_from_otlp
from otel_agent_replay_collector.pending_traces import NO_TRACE
from otel_agent_replay_collector.request_file import TRACES


def traces_in(data: bytes, kind: int) -> dict[bytes, int]:
    """Return how many spans or log records of each trace a request holds."""
    found: dict[bytes, int] = {}
    for item in _items(data, kind):
        trace_id = item.trace_id
        found[trace_id] = found.get(trace_id, 0) + 1
    if kind == TRACES:
        return found
    return {trace_id if any(trace_id) else NO_TRACE: count for trace_id, count in found.items()}


def _items(data: bytes, kind: int) -> Iterable[Any]:
    if kind == TRACES:
        groups = ExportTraceServiceRequest.FromString(data).resource_spans
        return (span for group in groups for scoped in group.scope_spans for span in scoped.spans)
    logs = ExportLogsServiceRequest.FromString(data).resource_logs
    return (record for group in logs for scoped in group.scope_logs for record in scoped.log_records)


def spans_in(data: bytes, trace_ids: Collection[bytes]) -> Iterable[Span]:
    """Yield the spans of these traces out of an ExportTraceServiceRequest."""
    request = ExportTraceServiceRequest.FromString(data)
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            wanted = [span for span in scoped.spans if span.trace_id in trace_ids]
            if len(wanted) != len(scoped.spans):
                del scoped.spans[:]
                scoped.spans.extend(wanted)
        yield from spans_of(group)


def records_in(data: bytes, trace_ids: Collection[bytes]) -> Iterable[LogRecord]:
    """Yield the log records of these traces (NO_TRACE: of none) out of an ExportLogsServiceRequest."""
    for group in ExportLogsServiceRequest.FromString(data).resource_logs:
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                key = record.trace_id if any(record.trace_id) else NO_TRACE
                if key in trace_ids:
                    yield LogRecord(
                        record.trace_id,
                        record.span_id,
                        record.time_unix_nano or record.observed_time_unix_nano,
                        record.event_name,
                        value_from_otlp(record.body) if record.HasField("body") else None,
                        attributes_from_otlp(record.attributes),
                    )
