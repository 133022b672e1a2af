"""A span <-> columns of the spans table: the span itself, its attributes, events, links, and who emitted it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.arrays import Lists, array_of, list_array, struct_array
from otel_agent_replay.lake.attributes import (
    load_mappings,
    load_shared_mappings,
    load_values,
    map_array,
    store_mappings,
    store_values,
)
from otel_agent_replay.lake.columns import Columns, Same, bounds, made, places_where, values_of
from otel_agent_replay.lake.promoted import PROMOTED, promote, promote_all, recall
from otel_agent_replay.lake.schema import EVENT, LINK, SPANS
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

_INT64 = 1 << 63


def store_span_columns(spans: Sequence[Span], lists: Lists) -> dict[str, Any]:
    """Fill the plain columns of spans into `lists` and return the arrays of the others.

    What the replay side says must be in `lists` by then: attributes that say the same are not stored again.
    """
    lists["trace_id"] = [span.trace_id for span in spans]
    lists["span_id"] = [span.span_id for span in spans]
    lists["parent_span_id"] = [span.parent_span_id or None for span in spans]
    lists["parent_basis"] = ["recorded" if span.parent_span_id else None for span in spans]
    lists["name"] = [span.name or None for span in spans]
    lists["start_ns"] = _signed([span.start_ns for span in spans])
    lists["end_ns"] = [end_ns or None for end_ns in _signed([span.end_ns for span in spans])]
    lists["span_kind"] = [span.kind for span in spans]
    lists["status_code"] = [span.status_code for span in spans]
    lists["status_message"] = [span.status_message or None for span in spans]
    lists["trace_state"] = [span.trace_state or None for span in spans]
    lists["flags"] = [span.flags or None for span in spans]
    lists["dropped_attributes"] = [span.dropped_attributes or None for span in spans]
    lists["dropped_events"] = [span.dropped_events or None for span in spans]
    lists["dropped_links"] = [span.dropped_links or None for span in spans]
    events = list(chain.from_iterable([span.events for span in spans]))
    links = list(chain.from_iterable([span.links for span in spans]))
    return {
        "attributes": _store_attributes([span.attributes for span in spans], lists),
        **({"events": list_array([span.events for span in spans], _store_events(events))} if events else {}),
        **({"links": list_array([span.links for span in spans], _store_links(links))} if links else {}),
        **_store_origins(spans),
    }


def load_span_columns(columns: Columns, attributes: Sequence[Mapping[str, AttributeValue]] | None = None) -> list[Span]:
    """Return the span of each row; spans that were emitted alike share resource and scope.

    `attributes` are those of the rows where they are not made of `columns`.
    """
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
            "attributes": load_attributes(columns) if attributes is None else attributes,
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


def _signed(times_ns: list[int]) -> list[int]:
    # OTLP times have 64 bits without a sign: a clock in the wrong unit must not make a span unwritable.
    if max(times_ns) < _INT64:
        return times_ns
    return [time_ns - (1 << 64) if time_ns >= _INT64 else time_ns for time_ns in times_ns]


def _unsigned(columns: Columns, name: str) -> Sequence[int]:
    stored = columns.filled(name, 0)
    if min(stored) >= 0:
        return stored
    return [time_ns + (1 << 64) if time_ns < 0 else time_ns for time_ns in stored]


# --- attributes ---


def _store_attributes(of_spans: Sequence[Mapping[str, AttributeValue]], lists: Lists) -> Any:
    keys = list(chain.from_iterable(of_spans))
    values = list(chain.from_iterable([attributes.values() for attributes in of_spans]))
    whole = {
        key
        for key in PROMOTED.intersection(keys)
        if promote_all(lists, key, [attributes.get(key) for attributes in of_spans], keys.count(key))
    }
    elsewhere = [place for place, key in enumerate(keys) if key in whole] if whole else []
    one_by_one = PROMOTED - whole
    if not one_by_one.isdisjoint(keys):
        row, end = 0, len(of_spans[0])
        for place in [place for place, key in enumerate(keys) if key in one_by_one]:
            while end <= place:
                row += 1
                end += len(of_spans[row])
            if promote(lists, row, keys[place], values[place]):
                elsewhere.append(place)
    return map_array(of_spans, keys, store_values(values, elsewhere))


def load_attributes(columns: Columns) -> list[dict[str, AttributeValue]]:
    """Return the attributes of each row, in their order; those with a column of their own are put in their place."""
    array = columns.array("attributes")
    if array is None:
        return [{} for _ in range(len(columns))]
    keys, values = values_of(array.keys), load_values(array.items)
    if array.items.null_count:
        places = places_where(kernels.is_null(array.items))
        recalled = {key: recall(columns, key) for key in {keys[place] for place in places}}
        rows = [0] * len(values)
        for row, (first, last) in enumerate(bounds(array)):
            rows[first:last] = [row] * (last - first)
        for place in places:
            values[place] = recalled[keys[place]][rows[place]]
    return [dict(zip(keys[first:last], values[first:last], strict=True)) for first, last in bounds(array)]


# --- events and links ---


def _lists(array: Any, load: Callable[[Columns], list[_T]]) -> list[tuple[_T, ...]]:
    loaded = load(Columns(array.values))
    return [tuple(loaded[first:last]) for first, last in bounds(array)]


def _store_events(events: Sequence[SpanEvent]) -> Any:
    return struct_array(
        {
            "time_ns": _signed([event.time_ns for event in events]),
            "name": [event.name or None for event in events],
            "attributes": store_mappings([event.attributes for event in events]),
            "dropped_attributes": [event.dropped_attributes or None for event in events],
        },
        EVENT,
    )


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


def _store_links(links: Sequence[SpanLink]) -> Any:
    return struct_array(
        {
            "trace_id": [link.trace_id or None for link in links],
            "span_id": [link.span_id or None for link in links],
            "trace_state": [link.trace_state or None for link in links],
            "flags": [link.flags or None for link in links],
            "attributes": store_mappings([link.attributes for link in links]),
            "dropped_attributes": [link.dropped_attributes or None for link in links],
            "basis": ["recorded"] * len(links),
        },
        LINK,
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


def _store_origins(spans: Sequence[Span]) -> dict[str, Any]:
    resources, resource_places = _distinct([span.resource for span in spans])
    scopes, scope_places = _distinct([span.scope for span in spans])
    return store_origins(resources, resource_places, scopes, scope_places)


def store_origins(
    resources: Sequence[Resource], resource_places: Any, scopes: Sequence[InstrumentationScope], scope_places: Any
) -> dict[str, Any]:
    """Return the columns of who emitted: each resource and scope is stored once, and taken where its spans are."""
    return {
        **_taken(
            resource_places,
            {
                "resource_attributes": store_mappings([resource.attributes for resource in resources]),
                "resource_dropped_attributes": [resource.dropped_attributes or None for resource in resources],
                "resource_schema_url": [resource.schema_url or None for resource in resources],
            },
        ),
        **_taken(
            scope_places,
            {
                "scope_name": [scope.name or None for scope in scopes],
                "scope_version": [scope.version or None for scope in scopes],
                "scope_attributes": store_mappings([scope.attributes for scope in scopes]),
                "scope_dropped_attributes": [scope.dropped_attributes or None for scope in scopes],
                "scope_schema_url": [scope.schema_url or None for scope in scopes],
            },
        ),
    }


def _distinct(origins: Sequence[_T]) -> tuple[list[_T], Any]:
    distinct = list({id(origin): origin for origin in origins}.values())
    place_of = {id(origin): place for place, origin in enumerate(distinct)}
    return distinct, pa.array([place_of[id(origin)] for origin in origins], pa.int32())


def _taken(places: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    columns = {
        name: column if isinstance(column, pa.Array) else array_of(column, SPANS.field(name).type)
        for name, column in stored.items()
    }
    return {name: kernels.taken(column, places) for name, column in columns.items() if column.null_count < len(column)}


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
