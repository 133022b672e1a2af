"""What is in accepted requests: which traces, and the log records of some of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_agent_replay.imports.dialects import LogRecord
from otel_agent_replay.otlp.values import attributes_from_otlp, value_from_otlp
from otel_agent_replay.wire.v1.otlp_slices_pb2 import RequestSlices
from otel_agent_replay_collector.pending_traces import NO_TRACE
from otel_agent_replay_collector.request_file import TRACES


def traces_in(data: bytes, kind: int) -> dict[bytes, int]:
    """Return how many spans or log records of each trace a request holds."""
    found: dict[bytes, int] = {}
    for trace_id in _trace_ids(data, kind):
        found[trace_id] = found.get(trace_id, 0) + 1
    if kind == TRACES:
        return found
    return {trace_id if any(trace_id) else NO_TRACE: count for trace_id, count in found.items()}


def _trace_ids(data: bytes, kind: int) -> Iterable[bytes]:
    if kind == TRACES:
        # Of repeated fields slices are taken: protobuf's own iteration costs three times as much.
        groups = RequestSlices.FromString(data).resource_spans[:]
        return (span.trace_id for group in groups for scoped in group.scope_spans[:] for span in scoped.spans[:])
    logs = ExportLogsServiceRequest.FromString(data).resource_logs
    return (record.trace_id for group in logs for scoped in group.scope_logs for record in scoped.log_records)


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
