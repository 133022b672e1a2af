"""Attribute values <-> Arrow values, both directions beside each other. Pure.

A mapping of attributes is stored as map<text, value>; the order of entries is kept. A value is a struct with one
field a type, all but one null; all null is OTLP's empty value. Sequences of texts are typed lists; other sequences
and mappings are the payload codec's typed JSON. Sequences come back as tuples: OTLP has one word for lists and tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.model import AttributeValue
from otel_agent_replay.payload import codec
from otel_agent_replay.wire.text import text_from_wire as load_text
from otel_agent_replay.wire.text import text_to_wire as store_text

StoredValue = dict[str, Any]
"""The fields of the value struct that are not null."""

_INT64 = 1 << 63


def store_value(value: AttributeValue) -> StoredValue:
    """Return the value struct of one attribute value."""
    kind = type(value)
    if kind is str:
        return {"text": store_text(value)}
    if kind is bool:
        return {"boolean": value}
    if kind is int and -_INT64 <= value < _INT64:
        return {"integer": value}
    if kind is float:
        return {"number": value}
    if value is None:
        return {}
    if kind is bytes:
        return {"data": value}
    if isinstance(value, str):  # an enum member, say: OTLP knows its text only
        return {"text": store_text(str.__str__(value))}
    if kind in (list, tuple) and all(type(item) is str for item in value):
        return {"texts": [store_text(item) for item in value]}
    return {"nested": store_nested(value)}


def load_value(stored: Mapping[str, Any]) -> AttributeValue:
    """Return the attribute value of a value struct."""
    for name in ("text", "integer", "number", "boolean", "data", "texts", "nested"):
        value = stored.get(name)
        if value is not None:
            if name == "text":
                return load_text(value)
            if name == "texts":
                return tuple(load_text(item) for item in value)
            return load_nested(value) if name == "nested" else value
    return None


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


def store_mapping(attributes: Mapping[str, AttributeValue]) -> list[tuple[str, StoredValue | None]]:
    """Return the map entries of a mapping, in its order."""
    return [(store_text(key), store_value(value)) for key, value in attributes.items()]


def load_mapping(entries: Sequence[tuple[str, Mapping[str, Any]]] | None) -> dict[str, AttributeValue]:
    """Return the mapping of map entries, in their order."""
    return {load_text(key): load_value(value) for key, value in entries or ()}
