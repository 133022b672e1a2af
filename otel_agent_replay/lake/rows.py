"""A recorded span <-> a row of the spans table: the two directions of every part stand beside each other. Pure.

A row is a dict of plain values by column name; absent means null. An empty text, a zero count and "no id" are
all stored as null, so that columns that are seldom used cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_agent_replay import semconv
from otel_agent_replay.lake.attributes import (
    store_mapping,
    store_nested,
    store_value,
)
from otel_agent_replay.lake.exchange_column import store_exchange
from otel_agent_replay.lake.path_column import store_path
from otel_agent_replay.lake.promoted import Row, promote
from otel_agent_replay.model import (
    AttributeValue,
    Call,
    InstrumentationScope,
    Node,
    Outcome,
    Payload,
    Read,
    RecordedSpan,
    Resource,
    Run,
    Span,
    SpanEvent,
    SpanLink,
)
from otel_agent_replay.wire.text import text_to_wire as store_text

_INT64 = 1 << 63


Origins = dict[tuple[int, int], tuple[Resource, InstrumentationScope, Row]]
"""What `store_span` remembers of resources and scopes, by their identity: all spans of a process share theirs."""


def store_span(recorded: RecordedSpan, run: Run, position: int, origins: Origins | None = None) -> Row:
    """Return the row of a span; payload numbers and the run's facts are added by the writer."""
    span, node = recorded.span, recorded.node
    row: Row = {
        "run_id": run.run_id or None,
        "attempt": run.attempt if run.run_id else None,
        "position": position,
        "root": bool(run.run_id) and span.span_id == run.root_span_id,
        "agent": store_text(run.agent) or None,
        "service": _service(span, run),
    }
    _store_head(span, row)
    if node is not None:
        _store_node(node, span, row)
    _store_attributes(span.attributes, row)
    row |= _origin(span, {} if origins is None else origins)
    return row


def _signed(nanoseconds: int) -> int:
    # OTLP times have 64 bits without a sign: a clock in the wrong unit must not make a span unwritable.
    return nanoseconds - (1 << 64) if nanoseconds >= _INT64 else nanoseconds


# --- the span itself ---


def _store_head(span: Span, row: Row) -> None:
    row["trace_id"] = span.trace_id
    row["span_id"] = span.span_id
    row["parent_span_id"] = span.parent_span_id or None
    row["parent_basis"] = "recorded" if span.parent_span_id else None
    row["name"] = store_text(span.name) or None
    row["start_ns"] = _signed(span.start_ns)
    row["end_ns"] = _signed(span.end_ns) or None
    row["span_kind"] = span.kind
    row["status_code"] = span.status_code
    row["status_message"] = store_text(span.status_message) or None
    row["trace_state"] = store_text(span.trace_state) or None
    row["flags"] = span.flags or None
    row["dropped_attributes"] = span.dropped_attributes or None
    row["dropped_events"] = span.dropped_events or None
    row["dropped_links"] = span.dropped_links or None
    row["events"] = [_store_event(event) for event in span.events] or None
    row["links"] = [_store_link(link) for link in span.links] or None


def _store_event(event: SpanEvent) -> Row:
    return {
        "time_ns": _signed(event.time_ns),
        "name": store_text(event.name) or None,
        "attributes": store_mapping(event.attributes) or None,
        "dropped_attributes": event.dropped_attributes or None,
    }


def _store_link(link: SpanLink) -> Row:
    return {
        "trace_id": link.trace_id or None,
        "span_id": link.span_id or None,
        "trace_state": store_text(link.trace_state) or None,
        "flags": link.flags or None,
        "attributes": store_mapping(link.attributes) or None,
        "dropped_attributes": link.dropped_attributes or None,
        "basis": "recorded",
    }


# --- attributes ---


def _store_attributes(attributes: Mapping[str, AttributeValue], row: Row) -> None:
    entries = [
        (store_text(key), None if promote(row, key, value) else store_value(value)) for key, value in attributes.items()
    ]
    row["attributes"] = entries or None


# --- who emitted ---


def _service(span: Span, run: Run) -> str | None:
    name = span.resource.attributes.get(semconv.SERVICE_NAME)
    return store_text(name if type(name) is str else run.service) or None


def _origin(span: Span, origins: Origins) -> Row:
    key = id(span.resource), id(span.scope)
    known = origins.get(key)
    if known is None:
        # The objects are kept beside the row: as long as they live, no other can have their identity.
        known = origins[key] = span.resource, span.scope, _store_origin(span.resource, span.scope)
    return known[2]


def _store_origin(resource: Resource, scope: InstrumentationScope) -> Row:
    return {
        "resource_attributes": store_mapping(resource.attributes) or None,
        "resource_dropped_attributes": resource.dropped_attributes or None,
        "resource_schema_url": store_text(resource.schema_url) or None,
        "scope_name": store_text(scope.name) or None,
        "scope_version": store_text(scope.version) or None,
        "scope_attributes": store_mapping(scope.attributes) or None,
        "scope_dropped_attributes": scope.dropped_attributes or None,
        "scope_schema_url": store_text(scope.schema_url) or None,
    }


# --- the replay side ---


def _store_node(node: Node, span: Span, row: Row) -> None:
    row["kind"] = str(node.kind)
    row["node_name"] = store_text(node.name) or None
    row["path"] = store_path(node.path)
    row["step"] = node.step
    row["sequence"] = node.sequence
    row["end_sequence"] = node.end_sequence or None
    row["side_effect"] = str(node.side_effect)
    row["source"] = str(node.source)
    row["fidelity"] = str(node.fidelity)
    row["strand"] = store_text(node.strand) or None
    row["origin_step"] = node.origin_step
    row["key_id"] = store_text(node.key_id) or None
    row["reads"] = [_store_read(read) for read in node.reads] or None
    row["exchange"] = store_exchange(node.call, node.outcome)
    if node.call is not None:
        _store_call(node.call, node, span, row)
    if node.outcome is not None:
        _store_outcome(node.outcome, span, row)
    if node.call is not None or node.outcome is not None:
        row["round_trips"] = (node.call is None or node.call.round_trips) and (
            node.outcome is None or node.outcome.round_trips
        )


def _store_call(call: Call, node: Node, span: Span, row: Row) -> None:
    if (call.kind, call.name, call.side_effect) != (node.kind, node.name, node.side_effect):
        raise ValueError(f"the call and its node disagree on kind, name or side effect: {call.name!r}, {node.name!r}")
    _store_payload(call.request, "request", row)
    row["idempotency_key"] = store_text(call.idempotency_key) or None
    row["call_attributes"] = _store_beside(call.attributes, span.attributes)


def _store_outcome(outcome: Outcome, span: Span, row: Row) -> None:
    row["outcome"] = str(outcome.status)
    if outcome.result is not None:
        _store_payload(outcome.result, "result", row)
    row["outcome_attributes"] = _store_beside(outcome.attributes, span.attributes)


def _store_payload(payload: Payload, side: str, row: Row) -> None:
    row[f"{side}_digest"] = payload.digest
    row[f"{side}_size"] = payload.size
    row[f"{side}_media_type"] = store_text(str(payload.media_type)) or None


def _store_beside(attributes: Mapping[str, AttributeValue], of_span: Mapping[str, AttributeValue]) -> list[Row] | None:
    # Nearly all of them are on the span too: their names are enough.
    return [
        {"name": store_text(key), "value": None if _is_same(of_span.get(key), value) else store_nested(value)}
        for key, value in attributes.items()
    ] or None


def _is_same(one: AttributeValue, other: AttributeValue) -> bool:
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            type(left) is str and type(right) is str and left == right for left, right in zip(one, other, strict=True)
        )
    return one is not None and type(one) is type(other) and type(one) in (str, bool, int, float, bytes) and one == other


def _store_read(read: Read) -> Row:
    stored: Row = {
        "kind": str(read.kind),
        "name": store_text(read.name),
        "strand": store_text(read.strand) or None,
        "sequence": read.sequence or None,
        "masked": read.masked or None,
    }
    value = read.value
    if type(value) is int and -_INT64 <= value < _INT64:
        stored["integer"] = value
    elif type(value) is float:
        stored["number"] = value
    elif type(value) is str:
        stored["text"] = store_text(value)
    elif type(value) is bytes:
        stored["data"] = value
    elif value is not None:
        stored["nested"] = store_nested(value)
    return stored
