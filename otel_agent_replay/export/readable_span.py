"""Ended spans of the OpenTelemetry SDK -> journal records. Pure; runs on the host's threads."""

from __future__ import annotations

from functools import lru_cache

from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope as SdkScope
from opentelemetry.trace import SpanContext
from opentelemetry.trace.span import TraceState

from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.otlp.spans import resource_spans_of, resource_to_otlp
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.payload.span_redaction import redacted
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_HAS_IS_REMOTE = 0x100  # OTLP SpanFlags: whether the next bit says anything
_IS_REMOTE = 0x200
_MOST_RESOURCES = 16


def foreign_record(readable: ReadableSpan, run_id: bytes, redaction: Redaction) -> wire.Record:
    """Return the record of a span that another instrumentation emitted; `run_id` empty: it belongs to no run."""
    message = resource_spans_of(redacted(span_of(readable), redaction))
    return wire.Record(foreign=wire.ForeignSpan(run_id=run_id, resource_spans=message.SerializeToString()))


def resource_bytes(resource: SdkResource) -> bytes:
    """Return a resource as a segment's header holds it."""
    return resource_to_otlp(_resource(resource)).SerializeToString()


def span_of(readable: ReadableSpan) -> Span:
    """Return an SDK span as the model has it."""
    context = readable.get_span_context()
    if context is None or readable.start_time is None:
        raise ValueError(f"span {readable.name!r} was never started")
    parent = readable.parent
    return Span(
        trace_id=context.trace_id.to_bytes(16, "big"),
        span_id=context.span_id.to_bytes(8, "big"),
        name=readable.name,
        start_ns=readable.start_time,
        end_ns=readable.end_time or 0,
        parent_span_id=b"" if parent is None else parent.span_id.to_bytes(8, "big"),
        kind=readable.kind.value + 1,  # the SDK counts from INTERNAL = 0, OTLP has UNSPECIFIED = 0
        status_code=readable.status.status_code.value,
        status_message=readable.status.description or "",
        attributes=dict(readable.attributes or {}),
        events=[
            SpanEvent(event.timestamp, event.name, dict(event.attributes or {}), event.dropped_attributes)
            for event in readable.events
        ],
        links=[
            SpanLink(
                link.context.trace_id.to_bytes(16, "big"),
                link.context.span_id.to_bytes(8, "big"),
                _trace_state(link.context.trace_state),
                dict(link.attributes or {}),
                link.dropped_attributes,
                _flags(link.context, link.context),
            )
            for link in readable.links
        ],
        trace_state=_trace_state(context.trace_state),
        flags=_flags(context, parent),
        dropped_attributes=readable.dropped_attributes,
        dropped_events=readable.dropped_events,
        dropped_links=readable.dropped_links,
        resource=_resource(readable.resource),
        scope=InstrumentationScope()
        if readable.instrumentation_scope is None
        else _scope(readable.instrumentation_scope),
    )


def _flags(context: SpanContext, remote: SpanContext | None) -> int:
    flags = int(context.trace_flags) | _HAS_IS_REMOTE
    return flags | _IS_REMOTE if remote is not None and remote.is_remote else flags


def _trace_state(state: TraceState | None) -> str:
    return state.to_header() if state else ""


# By identity: hashing an SDK resource serialises all of it. The resource is kept beside its copy, so that the id holds.
_resources: dict[int, tuple[SdkResource, Resource]] = {}


def _resource(resource: SdkResource) -> Resource:
    known = _resources.get(id(resource))
    if known is not None:
        return known[1]
    copy = Resource(dict(resource.attributes), 0, resource.schema_url)
    if len(_resources) >= _MOST_RESOURCES:
        _resources.clear()
    _resources[id(resource)] = (resource, copy)
    return copy


@lru_cache(maxsize=256)
def _scope(scope: SdkScope) -> InstrumentationScope:
    return InstrumentationScope(
        scope.name, scope.version or "", dict(scope.attributes or {}), 0, scope.schema_url or ""
    )
