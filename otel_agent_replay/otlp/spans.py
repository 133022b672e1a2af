"""OTLP spans <-> model spans, both directions beside each other. Pure.

Model -> OTLP -> model gives the same span (sequences as tuples), OTLP -> model -> OTLP the same message, but for entity
references of a resource, which the model does not have.
"""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.otlp.values import attributes_from_otlp, attributes_to_otlp, text_to_otlp

# --- resource and scope ---


def resource_to_otlp(resource: Resource) -> resource_pb2.Resource:
    """Return the message of a resource; its schema URL lies beside it in OTLP."""
    return resource_pb2.Resource(
        attributes=attributes_to_otlp(resource.attributes), dropped_attributes_count=resource.dropped_attributes
    )


def resource_from_otlp(message: resource_pb2.Resource, schema_url: str = "") -> Resource:
    """Return a resource."""
    return Resource(attributes_from_otlp(message.attributes), message.dropped_attributes_count, schema_url)


def _scope_to_otlp(scope: InstrumentationScope) -> common_pb2.InstrumentationScope:
    return common_pb2.InstrumentationScope(
        name=text_to_otlp(scope.name),
        version=text_to_otlp(scope.version),
        attributes=attributes_to_otlp(scope.attributes),
        dropped_attributes_count=scope.dropped_attributes,
    )


def _scope_from_otlp(message: common_pb2.InstrumentationScope, schema_url: str) -> InstrumentationScope:
    return InstrumentationScope(
        message.name,
        message.version,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
        schema_url,
    )


# --- events and links ---


def _event_to_otlp(event: SpanEvent) -> trace_pb2.Span.Event:
    return trace_pb2.Span.Event(
        time_unix_nano=event.time_ns,
        name=text_to_otlp(event.name),
        attributes=attributes_to_otlp(event.attributes),
        dropped_attributes_count=event.dropped_attributes,
    )


def _event_from_otlp(message: trace_pb2.Span.Event) -> SpanEvent:
    return SpanEvent(
        message.time_unix_nano,
        message.name,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
    )


def _link_to_otlp(link: SpanLink) -> trace_pb2.Span.Link:
    return trace_pb2.Span.Link(
        trace_id=link.trace_id,
        span_id=link.span_id,
        trace_state=text_to_otlp(link.trace_state),
        attributes=attributes_to_otlp(link.attributes),
        dropped_attributes_count=link.dropped_attributes,
        flags=link.flags,
    )


def _link_from_otlp(message: trace_pb2.Span.Link) -> SpanLink:
    return SpanLink(
        message.trace_id,
        message.span_id,
        message.trace_state,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
        message.flags,
    )


# --- spans ---


def span_to_otlp(span: Span) -> trace_pb2.Span:
    """Return the message of a span without its resource and scope."""
    return trace_pb2.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        trace_state=text_to_otlp(span.trace_state),
        parent_span_id=span.parent_span_id,
        flags=span.flags,
        name=text_to_otlp(span.name),
        kind=trace_pb2.Span.SpanKind.ValueType(span.kind),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=attributes_to_otlp(span.attributes),
        dropped_attributes_count=span.dropped_attributes,
        events=[_event_to_otlp(event) for event in span.events],
        dropped_events_count=span.dropped_events,
        links=[_link_to_otlp(link) for link in span.links],
        dropped_links_count=span.dropped_links,
        status=trace_pb2.Status(
            code=trace_pb2.Status.StatusCode.ValueType(span.status_code), message=text_to_otlp(span.status_message)
        ),
    )


def span_from_otlp(
    message: trace_pb2.Span, resource: Resource | None = None, scope: InstrumentationScope | None = None
) -> Span:
    """Return a span."""
    return Span(
        trace_id=message.trace_id,
        span_id=message.span_id,
        name=message.name,
        start_ns=message.start_time_unix_nano,
        end_ns=message.end_time_unix_nano,
        parent_span_id=message.parent_span_id,
        kind=message.kind,
        status_code=message.status.code,
        status_message=message.status.message,
        attributes=attributes_from_otlp(message.attributes),
        events=tuple(map(_event_from_otlp, message.events)),
        links=tuple(map(_link_from_otlp, message.links)),
        trace_state=message.trace_state,
        flags=message.flags,
        dropped_attributes=message.dropped_attributes_count,
        dropped_events=message.dropped_events_count,
        dropped_links=message.dropped_links_count,
        resource=resource or Resource(),
        scope=scope or InstrumentationScope(),
    )


def resource_spans_of(span: Span) -> trace_pb2.ResourceSpans:
    """Return the message of one span with its resource and scope."""
    scope_spans = trace_pb2.ScopeSpans(
        scope=_scope_to_otlp(span.scope), spans=[span_to_otlp(span)], schema_url=text_to_otlp(span.scope.schema_url)
    )
    return trace_pb2.ResourceSpans(
        resource=resource_to_otlp(span.resource),
        scope_spans=[scope_spans],
        schema_url=text_to_otlp(span.resource.schema_url),
    )


def spans_of(message: trace_pb2.ResourceSpans) -> Iterator[Span]:
    """Yield every span of a message."""
    resource = resource_from_otlp(message.resource, message.schema_url)
    for scope_spans in message.scope_spans:
        scope = _scope_from_otlp(scope_spans.scope, scope_spans.schema_url)
        for span in scope_spans.spans:
            yield span_from_otlp(span, resource, scope)
