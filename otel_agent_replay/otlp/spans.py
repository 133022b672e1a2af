"""OTLP spans <-> model spans, both directions beside each other. Pure.

Model -> OTLP -> model gives the same span (sequences as tuples), OTLP -> model -> OTLP the same message.
"""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from otel_agent_replay import semconv
from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.otlp.entities import entities_from_otlp, entities_to_otlp, with_entities
from otel_agent_replay.otlp.values import attributes_from_otlp, attributes_to_otlp, text_to_otlp

# --- resource and scope ---


def resource_to_otlp(resource: Resource) -> resource_pb2.Resource:
    """Return the message of a resource; its schema URL lies beside it in OTLP."""
    message = resource_pb2.Resource(dropped_attributes_count=resource.dropped_attributes)
    attributes = resource.attributes
    if semconv.ENTITY_REFS in attributes and entities_to_otlp(attributes[semconv.ENTITY_REFS], message):
        attributes = {name: value for name, value in attributes.items() if name != semconv.ENTITY_REFS}
    attributes_to_otlp(attributes, message.attributes)
    return message


def resource_from_otlp(message: resource_pb2.Resource, schema_url: str = "") -> Resource:
    """Return a resource."""
    attributes = with_entities(attributes_from_otlp(message.attributes), entities_from_otlp(message))
    return Resource(attributes, message.dropped_attributes_count, schema_url)


def _scope_to_otlp(scope: InstrumentationScope, message: common_pb2.InstrumentationScope) -> None:
    message.SetInParent()
    message.name = text_to_otlp(scope.name)
    message.version = text_to_otlp(scope.version)
    attributes_to_otlp(scope.attributes, message.attributes)
    message.dropped_attributes_count = scope.dropped_attributes


def scope_from_otlp(message: common_pb2.InstrumentationScope, schema_url: str = "") -> InstrumentationScope:
    """Return a scope."""
    return InstrumentationScope(
        message.name,
        message.version,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
        schema_url,
    )


# --- events and links ---


def _event_to_otlp(event: SpanEvent, message: trace_pb2.Span.Event) -> None:
    message.time_unix_nano = event.time_ns
    message.name = text_to_otlp(event.name)
    attributes_to_otlp(event.attributes, message.attributes)
    message.dropped_attributes_count = event.dropped_attributes


def event_from_otlp(message: trace_pb2.Span.Event) -> SpanEvent:
    """Return an event."""
    return SpanEvent(
        message.time_unix_nano,
        message.name,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
    )


def _link_to_otlp(link: SpanLink, message: trace_pb2.Span.Link) -> None:
    message.trace_id = link.trace_id
    message.span_id = link.span_id
    message.trace_state = text_to_otlp(link.trace_state)
    attributes_to_otlp(link.attributes, message.attributes)
    message.dropped_attributes_count = link.dropped_attributes
    message.flags = link.flags


def link_from_otlp(message: trace_pb2.Span.Link) -> SpanLink:
    """Return a link."""
    return SpanLink(
        message.trace_id,
        message.span_id,
        message.trace_state,
        attributes_from_otlp(message.attributes),
        message.dropped_attributes_count,
        message.flags,
    )


# --- spans ---


def span_to_otlp(span: Span, message: trace_pb2.Span) -> None:
    """Fill the message of a span; its resource and scope lie around it."""
    message.trace_id = span.trace_id
    message.span_id = span.span_id
    message.trace_state = text_to_otlp(span.trace_state)
    message.parent_span_id = span.parent_span_id
    message.flags = span.flags
    message.name = text_to_otlp(span.name)
    message.kind = trace_pb2.Span.SpanKind.ValueType(span.kind)
    message.start_time_unix_nano = span.start_ns
    message.end_time_unix_nano = span.end_ns
    attributes_to_otlp(span.attributes, message.attributes)
    message.dropped_attributes_count = span.dropped_attributes
    for event in span.events:
        _event_to_otlp(event, message.events.add())
    message.dropped_events_count = span.dropped_events
    for link in span.links:
        _link_to_otlp(link, message.links.add())
    message.dropped_links_count = span.dropped_links
    message.status.SetInParent()
    message.status.code = trace_pb2.Status.StatusCode.ValueType(span.status_code)
    message.status.message = text_to_otlp(span.status_message)


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
        events=tuple(map(event_from_otlp, message.events)),
        links=tuple(map(link_from_otlp, message.links)),
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
    message = trace_pb2.ResourceSpans(schema_url=text_to_otlp(span.resource.schema_url))
    message.resource.CopyFrom(resource_to_otlp(span.resource))
    scope_spans = message.scope_spans.add()
    scope_spans.schema_url = text_to_otlp(span.scope.schema_url)
    _scope_to_otlp(span.scope, scope_spans.scope)
    span_to_otlp(span, scope_spans.spans.add())
    return message


def spans_of(message: trace_pb2.ResourceSpans) -> Iterator[Span]:
    """Yield every span of a message."""
    resource = resource_from_otlp(message.resource, message.schema_url)
    for scope_spans in message.scope_spans:
        scope = scope_from_otlp(scope_spans.scope, scope_spans.schema_url)
        for span in scope_spans.spans:
            yield span_from_otlp(span, resource, scope)
