"""Model spans -> OTLP JSON, the other direction of `json_spans`. Pure.

Ids are hexadecimal, 64-bit integers are texts, bytes are base64, infinities and NaN are words, as the format says. Text
is exact: half a character is an escape, which JSON can hold and protobuf cannot.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.model import AttributeValue, InstrumentationScope, Resource, Span, SpanEvent, SpanLink

_INT64 = 1 << 63


def document_of(spans: Iterable[Span]) -> dict[str, Any]:
    """Return the document of spans, in their order; what was emitted by the same as the span before lies beside it."""
    groups: list[dict[str, Any]] = []
    last: Span | None = None
    for span in spans:
        if last is None or (last.resource is not span.resource and last.resource != span.resource):
            groups.append(_resource(span.resource))
            last = None
        scopes = groups[-1]["scopeSpans"]
        if last is None or (last.scope is not span.scope and last.scope != span.scope):
            scopes.append(_scope(span.scope))
        scopes[-1]["spans"].append(_span(span))
        last = span
    return {"resourceSpans": groups}


def _resource(resource: Resource) -> dict[str, Any]:
    attributes = dict(resource.attributes)
    entities = attributes.get(semconv.ENTITY_REFS)
    inner: dict[str, Any] = {}
    if isinstance(entities, (list, tuple)) and entities and all(isinstance(one, Mapping) for one in entities):
        del attributes[semconv.ENTITY_REFS]
        inner["entityRefs"] = [
            _told(
                schemaUrl=one.get("schema_url"),
                type=one.get("type"),
                idKeys=list(one.get("id_keys", ())),
                descriptionKeys=list(one.get("description_keys", ())),
            )
            for one in entities
        ]
    inner = _told(attributes=_pairs(attributes), droppedAttributesCount=resource.dropped_attributes, **inner)
    return _told(resource=inner, schemaUrl=resource.schema_url) | {"scopeSpans": []}


def _scope(scope: InstrumentationScope) -> dict[str, Any]:
    inner = _told(
        name=scope.name,
        version=scope.version,
        attributes=_pairs(scope.attributes),
        droppedAttributesCount=scope.dropped_attributes,
    )
    return _told(scope=inner, schemaUrl=scope.schema_url) | {"spans": []}


def _span(span: Span) -> dict[str, Any]:
    status = _told(code=span.status_code, message=span.status_message)
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **_told(
            traceState=span.trace_state,
            parentSpanId=span.parent_span_id.hex(),
            flags=span.flags,
            name=span.name,
            kind=span.kind,
        ),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        **_told(
            attributes=_pairs(span.attributes),
            droppedAttributesCount=span.dropped_attributes,
            events=[_event(one) for one in span.events],
            droppedEventsCount=span.dropped_events,
            links=[_link(one) for one in span.links],
            droppedLinksCount=span.dropped_links,
            status=status,
        ),
    }


def _event(event: SpanEvent) -> dict[str, Any]:
    return _told(
        timeUnixNano=str(event.time_ns),
        name=event.name,
        attributes=_pairs(event.attributes),
        droppedAttributesCount=event.dropped_attributes,
    )


def _link(link: SpanLink) -> dict[str, Any]:
    return _told(
        traceId=link.trace_id.hex(),
        spanId=link.span_id.hex(),
        traceState=link.trace_state,
        attributes=_pairs(link.attributes),
        droppedAttributesCount=link.dropped_attributes,
        flags=link.flags,
    )


def _told(**members: Any) -> dict[str, Any]:
    """Return the members that say something: empty texts and lists, zeros and nothing are what absence means."""
    return {name: value for name, value in members.items() if value}


def _pairs(attributes: Mapping[str, AttributeValue]) -> list[dict[str, Any]]:
    return [{"key": str(name), "value": _value(value)} for name, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": str.__str__(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(int(value))} if -_INT64 <= value < _INT64 else {"stringValue": str(int(value))}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _word(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytesValue": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _pairs(value)}}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
