"""Attribute values <-> Arrow values, both directions beside each other. Pure.

A mapping of attributes is stored as map<text, value>; the order of entries is kept. A value is a struct with one
field a type, all but one null; all null is OTLP's empty value. Sequences of texts are typed lists; other sequences
and mappings are the payload codec's typed JSON. Sequences come back as tuples: OTLP has one word for lists and tuples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.arrays import array_of, offsets_of, struct_array
from otel_agent_replay.lake.columns import Columns, bounds, places_where, values_of
from otel_agent_replay.lake.schema import VALUE
from otel_agent_replay.model import AttributeValue
from otel_agent_replay.payload import codec
from otel_agent_replay.wire.text import text_to_wire as store_text

StoredValue = dict[str, Any]
"""The fields of the value struct that are not null."""

_INT64 = 1 << 63


def store_value(value: AttributeValue) -> StoredValue:
    """Return the value struct of one attribute value."""
    name, stored = _told_as(value)
    if name == "text":
        stored = store_text(stored)
    elif name == "texts":
        stored = [store_text(item) for item in stored]
    return {name: stored} if name else {}


def _told_as(value: AttributeValue) -> tuple[str, Any]:
    """Return the field of the value struct that a value goes into, "" for none, and what goes there."""
    kind = type(value)
    if isinstance(value, str):  # an enum member, say: OTLP knows its text only
        return "text", value if kind is str else str.__str__(value)
    if kind is bool:
        return "boolean", value
    if kind is int and -_INT64 <= value < _INT64:
        return "integer", value
    if kind is float:
        return "number", value
    if value is None:
        return "", None
    if kind is bytes:
        return "data", value
    if kind in (list, tuple) and all(type(item) is str for item in value):
        return "texts", value
    return "nested", store_nested(value)


def store_nested(value: AttributeValue) -> bytes:
    """Return typed JSON for a value that no typed field holds."""
    return codec.encode(_lists(value)).data


def load_nested(data: bytes) -> AttributeValue:
    """Return the value of typed JSON, its sequences as tuples."""
    return _tuples(codec.decode(data))


def _lists(value: AttributeValue) -> AttributeValue:
    # Lists are plain JSON arrays for the codec where tuples would be tagged.
    if isinstance(value, Mapping):
        return {key: _lists(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_lists(item) for item in value]
    return value


def _tuples(value: AttributeValue) -> AttributeValue:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return value


# --- a column of them ---


_FIELD_OF: dict[type[Any] | None, str] = {
    str: "text",
    int: "integer",
    bool: "boolean",
    float: "number",
    bytes: "data",
}


def store_values(values: Sequence[AttributeValue], elsewhere: Sequence[int] = ()) -> Any:
    """Return the array of value structs of values; null at the places `elsewhere`."""
    kinds: list[type[Any] | None] = list(map(type, values))
    for place in elsewhere:
        kinds[place] = None
    fields: dict[str, Any] = {}
    odd: list[int] = []
    for kind in set(kinds) - {None}:
        if kind in _FIELD_OF:
            of_kind = [value if other is kind else None for value, other in zip(values, kinds, strict=True)]
            with contextlib.suppress(
                OverflowError
            ):  # an integer beyond 64 bits, which `_told_as` knows what to do with
                field = _FIELD_OF[kind]
                fields[field] = array_of(of_kind, VALUE.field(field).type)
                continue
        odd += [place for place, other in enumerate(kinds) if other is kind]
    fields |= _odd_fields(values, odd, fields)
    mask = pa.array([kind is None for kind in kinds], pa.bool_()) if elsewhere else None
    return struct_array(fields or {"text": [None] * len(values)}, VALUE, mask)


def _odd_fields(values: Sequence[AttributeValue], odd: Sequence[int], known: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the fields that the values at the places `odd` go into, with what else is known of these fields."""
    fields: dict[str, list[Any]] = {}
    for place in odd:
        name, told = _told_as(values[place])
        if name and name not in fields:
            fields[name] = values_of(known[name]) if name in known else [None] * len(values)
        if name:
            fields[name][place] = told
    return fields


def store_mappings(mappings: Sequence[Mapping[str, AttributeValue]]) -> Any:
    """Return the array of maps of mappings, each in its order; an empty one is null."""
    keys = list(chain.from_iterable(mappings))
    values = list(chain.from_iterable([mapping.values() for mapping in mappings]))
    return map_array(mappings, keys, store_values(values))


def map_array(mappings: Sequence[Mapping[str, AttributeValue]], keys: Sequence[str], values: Any) -> Any:
    """Return the array of maps of mappings whose keys, and the array of whose values, lie side by side."""
    return pa.MapArray.from_arrays(offsets_of(map(len, mappings)), array_of(keys, pa.string()), values)


def load_values(array: Any) -> list[AttributeValue]:
    """Return the attribute values of an array of value structs; OTLP's empty value and null as None."""
    loaded: list[AttributeValue] = [None] * len(array)
    for name, told in _told(array).items():
        values = values_of(told)
        if name == "nested":
            values = [None if value is None else load_nested(value) for value in values]
        if not told.null_count:
            return values
        for place in places_where(kernels.is_valid(told)):
            loaded[place] = values[place]
    return loaded


def load_mappings(columns: Columns, name: str) -> list[dict[str, AttributeValue]]:
    """Return the mappings of a column of maps, each in the order of its entries; null as an empty one."""
    array = columns.array(name)
    if array is None:
        return [{} for _ in range(len(columns))]
    keys, values = values_of(array.keys), load_values(array.items)
    return [dict(zip(keys[first:last], values[first:last], strict=True)) for first, last in bounds(array)]


def load_shared_mappings(columns: Columns, name: str) -> list[dict[str, AttributeValue]]:
    """Return the same, rows that say the same sharing one mapping."""
    array = columns.array(name)
    if array is None:
        return [{}] * len(columns)
    keys, values = values_of(array.keys), load_values(array.items)
    told = [keys, *map(_hashable, _told(array.items).values())]
    known: dict[tuple[Hashable, ...], dict[str, AttributeValue]] = {}
    shared = []
    for first, last in bounds(array):
        entries = tuple([tuple(column[first:last]) for column in told])
        mapping = known.get(entries)
        if mapping is None:
            mapping = known[entries] = dict(zip(keys[first:last], values[first:last], strict=True))
        shared.append(mapping)
    return shared


def _told(array: Any) -> dict[str, Any]:
    """Return the fields of a struct that say anything; where the struct is null, they are."""
    told = zip((field.name for field in array.type), array.flatten(), strict=True)
    return {name: field for name, field in told if field.null_count < len(field)}


def _hashable(field: Any) -> list[Hashable]:
    # Numbers by their bits: 0.0 is not -0.0, and what is not a number equals itself.
    return values_of(field.view(pa.int64()) if pa.types.is_floating(field.type) else field)
