"""A recorded span <-> a row of the spans table: the two directions of every part stand beside each other. Pure.

A row is a dict of plain values by column name; absent means null. An empty text, a zero count and "no id" are
all stored as null, so that columns that are seldom used cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.lake.attributes import (
    load_mapping,
    load_nested,
    load_value,
    store_mapping,
    store_nested,
    store_value,
)
from otel_agent_replay.lake.exchange_column import load_exchange, store_exchange
from otel_agent_replay.lake.promoted import Row, promote, recall
from otel_agent_replay.model import (
    AnswerSource,
    AttributeValue,
    Call,
    Fidelity,
    InstrumentationScope,
    Kind,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedSpan,
    Resource,
    Run,
    SideEffect,
    Span,
    SpanEvent,
    SpanLink,
    make_node,
    make_span,
)
from otel_agent_replay.wire.convert import call_from_wire, outcome_from_wire
from otel_agent_replay.wire.text import text_from_wire as load_text
from otel_agent_replay.wire.text import text_to_wire as store_text
from otel_agent_replay.wire.v1.exchange_pb2 import Exchange

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


_EMITTED_BY = (
    "resource_attributes",
    "resource_dropped_attributes",
    "resource_schema_url",
    "scope_name",
    "scope_version",
    "scope_attributes",
    "scope_dropped_attributes",
    "scope_schema_url",
)
# Looking a word up costs a fifth of making its enumeration member; an unknown one still raises there.
_KINDS: dict[str, Kind] = {kind.value: kind for kind in Kind}
_SIDE_EFFECTS: dict[str, SideEffect] = {effect.value: effect for effect in SideEffect}
_SOURCES: dict[str, AnswerSource] = {source.value: source for source in AnswerSource}
_FIDELITIES: dict[str, Fidelity] = {fidelity.value: fidelity for fidelity in Fidelity}
_STATUSES: dict[str, OutcomeStatus] = {status.value: status for status in OutcomeStatus}


def load_span(row: Mapping[str, Any], like: tuple[Mapping[str, Any], Span] | None = None) -> RecordedSpan:
    """Return the recorded span of a row. Its payloads come with digests only.

    `like` is another row and its span: who emitted both is then one object, where it is the same.
    """
    attributes = _load_attributes(row)
    if like is not None and all(row[column] == like[0][column] for column in _EMITTED_BY):
        resource, scope = like[1].resource, like[1].scope
    else:
        resource, scope = _load_resource(row), _load_scope(row)
    span = make_span(**_load_head(row), attributes=attributes, resource=resource, scope=scope)
    return RecordedSpan(span, None if row["kind"] is None else _load_node(row, attributes))


def load_spans(rows: Iterable[Mapping[str, Any]]) -> list[RecordedSpan]:
    """Return the recorded spans of rows."""
    found: list[RecordedSpan] = []
    like: tuple[Mapping[str, Any], Span] | None = None
    for row in rows:
        recorded = load_span(row, like)
        like = row, recorded.span
        found.append(recorded)
    return found


def _text(row: Mapping[str, Any], column: str) -> str:
    stored = row[column]
    return "" if stored is None else load_text(stored)


def _signed(nanoseconds: int) -> int:
    # OTLP times have 64 bits without a sign: a clock in the wrong unit must not make a span unwritable.
    return nanoseconds - (1 << 64) if nanoseconds >= _INT64 else nanoseconds


def _unsigned(stored: int) -> int:
    return stored + (1 << 64) if stored < 0 else stored


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


def _load_head(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": row["trace_id"],
        "span_id": row["span_id"],
        "parent_span_id": row["parent_span_id"] or b"",
        "name": _text(row, "name"),
        "start_ns": _unsigned(row["start_ns"]),
        "end_ns": _unsigned(row["end_ns"] or 0),
        "kind": row["span_kind"],
        "status_code": row["status_code"],
        "status_message": _text(row, "status_message"),
        "trace_state": _text(row, "trace_state"),
        "flags": row["flags"] or 0,
        "dropped_attributes": row["dropped_attributes"] or 0,
        "dropped_events": row["dropped_events"] or 0,
        "dropped_links": row["dropped_links"] or 0,
        "events": tuple(_load_event(event) for event in row["events"] or ()),
        "links": tuple(_load_link(link) for link in row["links"] or ()),
    }


def _store_event(event: SpanEvent) -> Row:
    return {
        "time_ns": _signed(event.time_ns),
        "name": store_text(event.name) or None,
        "attributes": store_mapping(event.attributes) or None,
        "dropped_attributes": event.dropped_attributes or None,
    }


def _load_event(stored: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        _unsigned(stored["time_ns"]),
        _text(stored, "name"),
        load_mapping(stored["attributes"]),
        stored["dropped_attributes"] or 0,
    )


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


def _load_link(stored: Mapping[str, Any]) -> SpanLink:
    return SpanLink(
        stored["trace_id"] or b"",
        stored["span_id"] or b"",
        _text(stored, "trace_state"),
        load_mapping(stored["attributes"]),
        stored["dropped_attributes"] or 0,
        stored["flags"] or 0,
    )


# --- attributes ---


def _store_attributes(attributes: Mapping[str, AttributeValue], row: Row) -> None:
    entries = [
        (store_text(key), None if promote(row, key, value) else store_value(value)) for key, value in attributes.items()
    ]
    row["attributes"] = entries or None


def _load_attributes(row: Mapping[str, Any]) -> dict[str, AttributeValue]:
    attributes = {}
    for stored_key, stored in row["attributes"] or ():
        key = load_text(stored_key)
        attributes[key] = recall(row, key) if stored is None else load_value(stored)
    return attributes


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


def _load_resource(row: Mapping[str, Any]) -> Resource:
    return Resource(
        load_mapping(row["resource_attributes"]),
        row["resource_dropped_attributes"] or 0,
        _text(row, "resource_schema_url"),
    )


def _load_scope(row: Mapping[str, Any]) -> InstrumentationScope:
    return InstrumentationScope(
        _text(row, "scope_name"),
        _text(row, "scope_version"),
        load_mapping(row["scope_attributes"]),
        row["scope_dropped_attributes"] or 0,
        _text(row, "scope_schema_url"),
    )


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


def _load_node(row: Mapping[str, Any], attributes: Mapping[str, AttributeValue]) -> Node:
    exchange = load_exchange(row["exchange"], idempotency_key=row["idempotency_key"])
    return make_node(
        run_id=row["run_id"] or b"",
        kind=_KINDS.get(row["kind"]) or Kind(row["kind"]),
        name=_text(row, "node_name"),
        path=load_path(row["path"]),
        sequence=row["sequence"],
        end_sequence=row["end_sequence"] or 0,
        step=row["step"],
        side_effect=_SIDE_EFFECTS.get(row["side_effect"]) or SideEffect(row["side_effect"]),
        source=_SOURCES.get(row["source"]) or AnswerSource(row["source"]),
        fidelity=_FIDELITIES.get(row["fidelity"]) or Fidelity(row["fidelity"]),
        call=_load_call(row, attributes, exchange),
        outcome=_load_outcome(row, attributes, exchange),
        reads=tuple(_load_read(read) for read in row["reads"] or ()),
        strand=_text(row, "strand"),
        origin_step=row["origin_step"],
        key_id=_text(row, "key_id"),
    )


def store_path(path: Sequence[str]) -> str:
    """Return a logical place as one text; see the column's meaning."""
    return store_text("/".join(part.replace("%", "%25").replace("/", "%2F") for part in path))


def load_path(stored: str) -> tuple[str, ...]:
    """Return the parts of a logical place."""
    return tuple(part.replace("%2F", "/").replace("%25", "%") for part in load_text(stored).split("/"))


def _store_call(call: Call, node: Node, span: Span, row: Row) -> None:
    if (call.kind, call.name, call.side_effect) != (node.kind, node.name, node.side_effect):
        raise ValueError(f"the call and its node disagree on kind, name or side effect: {call.name!r}, {node.name!r}")
    _store_payload(call.request, "request", row)
    row["idempotency_key"] = store_text(call.idempotency_key) or None
    row["call_attributes"] = _store_beside(call.attributes, span.attributes)


def _load_call(row: Mapping[str, Any], attributes: Mapping[str, AttributeValue], exchange: Exchange) -> Call | None:
    request = _load_payload(row, "request")
    if request is None:
        return None
    return call_from_wire(
        exchange,
        kind=_KINDS.get(row["kind"]) or Kind(row["kind"]),
        name=_text(row, "node_name"),
        side_effect=_SIDE_EFFECTS.get(row["side_effect"]) or SideEffect(row["side_effect"]),
        request=request,
        attributes=_load_beside(row["call_attributes"], attributes),
    )


def _store_outcome(outcome: Outcome, span: Span, row: Row) -> None:
    row["outcome"] = str(outcome.status)
    if outcome.result is not None:
        _store_payload(outcome.result, "result", row)
    row["outcome_attributes"] = _store_beside(outcome.attributes, span.attributes)


def _load_outcome(
    row: Mapping[str, Any], attributes: Mapping[str, AttributeValue], exchange: Exchange
) -> Outcome | None:
    if row["outcome"] is None:
        return None
    return outcome_from_wire(
        exchange,
        status=_STATUSES.get(row["outcome"]) or OutcomeStatus(row["outcome"]),
        result=_load_payload(row, "result"),
        attributes=_load_beside(row["outcome_attributes"], attributes),
    )


def _store_payload(payload: Payload, side: str, row: Row) -> None:
    row[f"{side}_digest"] = payload.digest
    row[f"{side}_size"] = payload.size
    row[f"{side}_media_type"] = store_text(str(payload.media_type)) or None


def _load_payload(row: Mapping[str, Any], side: str) -> Payload | None:
    digest = row[f"{side}_digest"]
    if digest is None:
        return None
    return Payload(digest, None, _text(row, f"{side}_media_type"), row[f"{side}_size"])


def _store_beside(attributes: Mapping[str, AttributeValue], of_span: Mapping[str, AttributeValue]) -> list[Row] | None:
    # Nearly all of them are on the span too: their names are enough.
    return [
        {"name": store_text(key), "value": None if _is_same(of_span.get(key), value) else store_nested(value)}
        for key, value in attributes.items()
    ] or None


def _load_beside(
    stored: Sequence[Mapping[str, Any]] | None, of_span: Mapping[str, AttributeValue]
) -> dict[str, AttributeValue]:
    attributes = {}
    for entry in stored or ():
        key = load_text(entry["name"])
        attributes[key] = of_span[key] if entry["value"] is None else load_nested(entry["value"])
    return attributes


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


def _load_read(stored: Mapping[str, Any]) -> Read:
    value: int | float | str | bytes | None = None
    for field in ("integer", "number", "text", "data", "nested"):
        if stored[field] is not None:
            value = stored[field]
            if field == "text":
                value = load_text(stored[field])
            elif field == "nested":
                value = load_nested(stored[field])
    return Read(
        kind=Kind(stored["kind"]),
        name=load_text(stored["name"]),
        value=value,
        strand=_text(stored, "strand"),
        sequence=stored["sequence"] or 0,
        masked=bool(stored["masked"]),
    )
