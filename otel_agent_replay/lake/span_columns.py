"""A span <-> columns of the spans table: the span itself, its attributes, events, links, and who emitted it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from otel_agent_replay.lake.attributes import load_mappings, load_shared_mappings, load_values
from otel_agent_replay.lake.columns import Columns, Same, bounds, made, places_where, values_of
from otel_agent_replay.lake.promoted import recall
from otel_agent_replay.model import (
    AttributeValue,
    InstrumentationScope,
    Resource,
    Span,
    SpanEvent,
    SpanLink,
    make_span,
)

_T = TypeVar("_T")


def load_span_columns(columns: Columns) -> list[Span]:
    """Return the span of each row; spans that were emitted alike share resource and scope."""
    events, links = columns.array("events"), columns.array("links")
    return made(
        make_span,
        len(columns),
        {
            "trace_id": columns.values("trace_id"),
            "span_id": columns.values("span_id"),
            "name": columns.texts("name"),
            "start_ns": _unsigned(columns, "start_ns"),
            "end_ns": _unsigned(columns, "end_ns"),
            "parent_span_id": columns.filled("parent_span_id", b""),
            "kind": columns.values("span_kind"),
            "status_code": columns.values("status_code"),
            "status_message": columns.texts("status_message"),
            "attributes": load_attributes(columns),
            "events": Same((), len(columns)) if events is None else _lists(events, _load_events),
            "links": Same((), len(columns)) if links is None else _lists(links, _load_links),
            "trace_state": columns.texts("trace_state"),
            "flags": columns.filled("flags", 0),
            "dropped_attributes": columns.filled("dropped_attributes", 0),
            "dropped_events": columns.filled("dropped_events", 0),
            "dropped_links": columns.filled("dropped_links", 0),
            "resource": _load_resources(columns),
            "scope": _load_scopes(columns),
        },
    )


def _unsigned(columns: Columns, name: str) -> Sequence[int]:
    # OTLP times have 64 bits without a sign: those beyond int64 are stored as negative numbers.
    stored = columns.filled(name, 0)
    if min(stored) >= 0:
        return stored
    return [time_ns + (1 << 64) if time_ns < 0 else time_ns for time_ns in stored]


# --- attributes ---


def load_attributes(columns: Columns) -> list[dict[str, AttributeValue]]:
    """Return the attributes of each row, in their order; those with a column of their own are put in their place."""
    array = columns.array("attributes")
    if array is None:
        return [{} for _ in range(len(columns))]
    keys, values = values_of(array.keys), load_values(array.items)
    if array.items.null_count:
        recalled: dict[str, list[AttributeValue]] = {}
        ends = array.offsets.to_pylist()
        row = 0
        for place in places_where(array.items.is_null()):
            while ends[row + 1] <= place:
                row += 1
            key = keys[place]
            if key not in recalled:
                recalled[key] = recall(columns, key)
            values[place] = recalled[key][row]
    return [dict(zip(keys[first:last], values[first:last], strict=True)) for first, last in bounds(array)]


# --- events and links ---


def _lists(array: Any, load: Callable[[Columns], list[_T]]) -> list[tuple[_T, ...]]:
    loaded = load(Columns(array.values))
    return [tuple(loaded[first:last]) for first, last in bounds(array)]


def _load_events(columns: Columns) -> list[SpanEvent]:
    return made(
        SpanEvent,
        len(columns),
        {
            "time_ns": _unsigned(columns, "time_ns"),
            "name": columns.texts("name"),
            "attributes": load_mappings(columns, "attributes"),
            "dropped_attributes": columns.filled("dropped_attributes", 0),
        },
    )


def _load_links(columns: Columns) -> list[SpanLink]:
    return made(
        SpanLink,
        len(columns),
        {
            "trace_id": columns.filled("trace_id", b""),
            "span_id": columns.filled("span_id", b""),
            "trace_state": columns.texts("trace_state"),
            "attributes": load_mappings(columns, "attributes"),
            "dropped_attributes": columns.filled("dropped_attributes", 0),
            "flags": columns.filled("flags", 0),
        },
    )


# --- who emitted ---


def _load_resources(columns: Columns) -> list[Resource]:
    return _shared(
        Resource,
        load_shared_mappings(columns, "resource_attributes"),
        columns.filled("resource_dropped_attributes", 0),
        columns.texts("resource_schema_url"),
    )


def _load_scopes(columns: Columns) -> list[InstrumentationScope]:
    return _shared(
        lambda attributes, *rest: InstrumentationScope(rest[0], rest[1], attributes, *rest[2:]),
        load_shared_mappings(columns, "scope_attributes"),
        columns.texts("scope_name"),
        columns.texts("scope_version"),
        columns.filled("scope_dropped_attributes", 0),
        columns.texts("scope_schema_url"),
    )


def _shared(
    make: Callable[..., _T], mappings: Sequence[Mapping[str, AttributeValue]], *columns: Sequence[Hashable]
) -> list[_T]:
    """Return what `make` makes of each row, one object for rows that say the same."""
    known: dict[tuple[Hashable, ...], _T] = {}
    shared = []
    for row in zip(mappings, *columns, strict=True):
        key = id(row[0]), *row[1:]
        if key not in known:
            known[key] = make(*row)
        shared.append(known[key])
    return shared
