"""Attributes as OTLP's columns have them -> the lake's maps of typed values and its columns of their own.

Whoever has attributes (a span, an event, a link) is their owner here; an element is one attribute of one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList

from otel_agent_replay.imports.plain.request_columns import fields_of, lengths_of, single
from otel_agent_replay.lake.arrays import array_of, struct_array
from otel_agent_replay.lake.attributes import store_value, store_values
from otel_agent_replay.lake.promoted import COLUMN_OF
from otel_agent_replay.lake.schema import VALUE
from otel_agent_replay.model import AttributeValue
from otel_agent_replay.otlp.values import attributes_from_otlp, value_from_otlp

_FIELD_OF = {
    "text": "string_value",
    "integer": "int_value",
    "number": "double_value",
    "boolean": "bool_value",
    "data": "bytes_value",
}
_KIND_OF = {str: "text", int: "integer", float: "number"}


def _list(data: bytes) -> AttributeValue:
    return tuple([value_from_otlp(item) for item in ArrayValue.FromString(data).values])


def _mapping(data: bytes) -> AttributeValue:
    return attributes_from_otlp(KeyValueList.FromString(data).values)


_NESTED = {"array_value": _list, "kvlist_value": _mapping}
"""Fields left as bytes, and what decodes them. Raises DecodeError."""


class AttributeColumns:
    """Attributes of owners, of which an array has one list each."""

    def __init__(self, lists: Any) -> None:
        self.owners = len(lists)
        self._begins = lists.offsets.to_numpy()[:-1].astype(np.int64)
        self._lengths = lengths_of(lists).astype(np.int64)
        element = fields_of(lists.values)
        keys = element["key"].dictionary_encode()
        self.names: list[str] = keys.dictionary.to_pylist()
        self._codes = keys.indices.to_numpy()
        self._values = fields_of(element["value"])
        self._count = len(self._codes)
        self._in_parts: Any = np.zeros(self._count, bool)
        for name in _NESTED:
            self._values[name], in_parts = single(self._values[name])
            self._in_parts |= in_parts
        self._owner: Any = np.repeat(np.arange(self.owners), self._lengths)
        self._said = {
            name: valid_of(values) for name, values in self._values.items() if values.null_count < self._count
        }
        self._promoted = {
            column: (kind, np.flatnonzero((self._codes == self.names.index(name)) & self._said[_FIELD_OF[kind]]))
            for name, (column, kind) in _columns_of(self.names).items()
            if _FIELD_OF[kind] in self._said
        }

    # --- what is odd ---

    def owners_of(self, elements: Any) -> Any:
        """Return which owners have any of the elements, which a mask tells."""
        return np.bincount(self._owner[elements], minlength=self.owners) > 0

    def having(self, wanted: Callable[[str], bool]) -> Any:
        """Return which owners have an attribute of such a name."""
        chosen = np.array([wanted(name) for name in self.names], bool)
        return self.owners_of(chosen[self._codes]) if chosen.any() else np.zeros(self.owners, bool)

    def odd(self) -> Any:
        """Return which owners say something in a way that has no column here.

        That is a name that comes twice, a value with two meanings or of an unknown type, a text that begins with NUL.
        """
        meanings: Any = np.zeros(self._count, np.int8)
        for said in self._said.values():
            meanings += said
        odd = (meanings > 1) | self._in_parts
        if "string_value_strindex" in self._said:
            odd |= self._said["string_value_strindex"]
        first, _ = ends_of(self._values["string_value"])
        odd |= first == 0
        return self.owners_of(odd) | self._with_twins() | self.having(lambda name: name[:1] == "\0")

    def _with_twins(self) -> Any:
        names = len(self.names)
        if not self._count or not names:
            return np.zeros(self.owners, bool)
        places = np.sort(self._owner * names + self._codes)
        return np.bincount(places[1:][places[1:] == places[:-1]] // names, minlength=self.owners) > 0

    def other_than_text(self, name: str) -> Any:
        """Return which owners have an attribute of that name whose value is no text."""
        if name not in self.names:
            return np.zeros(self.owners, bool)
        return self.owners_of((self._codes == self.names.index(name)) & ~valid_of(self._values["string_value"]))

    def texts_at(self, name: str, owners: Any) -> list[str | None]:
        """Return the texts under a name at some owners, None where there is none."""
        at = np.full(self.owners, -1)
        if name in self.names:
            elements = np.flatnonzero(self._codes == self.names.index(name))
            at[self._owner[elements]] = elements
        found: list[str | None] = taken(self._values["string_value"], at[owners]).to_pylist()
        return found

    def cut_json(self) -> Any:
        """Return which owners have a text that may be JSON cut off: it begins like that, and does not end so."""
        first, last = ends_of(self._values["string_value"])
        return self.owners_of(np.isin(first, _JSON_BEGINS) & ~np.isin(last, _JSON_ENDS))

    # --- as the lake has them ---

    def column(self, name: str, owners: Any) -> Any:
        """Return a column of the lake's at some owners; None: no attribute lies there."""
        kind, elements = self._promoted.get(name, ("", ()))
        if not len(elements):
            return None
        at = np.full(self.owners, -1)
        at[self._owner[elements]] = elements
        return taken(self._values[_FIELD_OF[kind]], at[owners])

    @property
    def columns(self) -> list[str]:
        """Names of the lake's columns in which attributes of these owners lie."""
        return list(self._promoted)

    def maps(
        self, owners: Any, *, promoted: bool = False, more: Mapping[str, AttributeValue] | None = None, to: Any = None
    ) -> Any:
        """Return the maps of some owners: an empty one is null.

        With `promoted`, what lies in a column of its own is a null value here. `more` is what those of the owners
        that the mask `to` tells have behind their own.
        """
        begins, lengths = self._begins[owners], self._lengths[owners]
        added = len(more) if more else 0
        if more:
            lengths = lengths + added * to
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        elements = np.repeat(begins - (ends - lengths), lengths) + np.arange(total)
        for number in range(added):
            elements[ends[to] - added + number] = self._count + number
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        codes = self._codes
        names = self.names
        if more:
            codes = np.concatenate([codes, len(names) + np.arange(added, dtype=codes.dtype)])
            names = [*names, *more]
        keys = array_of(names, pa.string()).take(pa.array(codes[elements]))
        nulls = np.concatenate([lengths == 0, [False]])
        return pa.MapArray.from_arrays(
            pa.array(offsets, mask=nulls), keys, self._structs(elements, promoted=promoted, more=more or {})
        )

    def _structs(self, elements: Any, *, promoted: bool, more: Mapping[str, AttributeValue]) -> Any:
        elsewhere: Any = np.zeros(self._count + len(more), bool)
        if promoted:
            for _, places in self._promoted.values():
                elsewhere[places] = True
        mask = elsewhere[elements]
        at = np.where(mask, -1, elements)
        fields = {name: self._values[said] for name, said in _FIELD_OF.items() if said in self._said}
        fields |= self._nested
        if more:
            fields = _with(fields, self._count, store_values(list(more.values())))
        found = {name: taken(values, at) for name, values in fields.items()}
        return struct_array(
            found or {"text": pa.nulls(len(at), pa.string())}, VALUE, pa.array(mask) if mask.any() else None
        )

    @cached_property
    def _nested(self) -> dict[str, Any]:
        """The fields for lists and mappings; what says the same is decoded once."""
        stored: dict[str, dict[int, Any]] = {}
        for said, decode in _NESTED.items():
            if said not in self._said:
                continue
            places = np.flatnonzero(self._said[said])
            encoded = self._values[said].take(pa.array(places)).dictionary_encode()
            known = [store_value(decode(data)) for data in encoded.dictionary.to_pylist()]
            for place, which in zip(places.tolist(), encoded.indices.to_pylist(), strict=True):
                ((name, value),) = known[which].items()
                stored.setdefault(name, {})[place] = value
        return {name: self._sparse(values, VALUE.field(name).type) for name, values in stored.items()}

    def _sparse(self, values: Mapping[int, Any], kind: pa.DataType) -> Any:
        at = np.full(self._count, -1)
        at[list(values)] = np.arange(len(values))
        return taken(pa.array(list(values.values()), kind), at)


def _columns_of(names: list[str]) -> dict[str, tuple[str, str]]:
    """Return which of the names have a column of their own: column, and the field of the values that go there."""
    found = {name: COLUMN_OF[name] for name in names if name in COLUMN_OF}
    return {name: (column, _KIND_OF[kind]) for name, (column, kind) in found.items() if kind in _KIND_OF}


def _with(fields: Mapping[str, Any], count: int, more: Any) -> dict[str, Any]:
    """Return the fields of `count` values with those of more values behind."""
    added = fields_of(more)
    return {
        name: pa.concat_arrays([fields.get(name, pa.nulls(count, kind)), added[name]])
        for name, kind in ((field.name, field.type) for field in VALUE)
        if name in fields or added[name].null_count < len(added[name])
    }


def taken(values: Any, places: Any) -> Any:
    """Return the values at places; null for -1."""
    missing = places < 0
    return values.take(pa.array(places, mask=missing) if missing.any() else pa.array(places))


def valid_of(values: Any) -> Any:
    """Return as a mask where an array has a value."""
    return values.is_valid().to_numpy(zero_copy_only=False)


_JSON_BEGINS = np.frombuffer(b"[{ \n", np.uint8)
_JSON_ENDS = np.frombuffer(b"}]", np.uint8)
_NONE = 0x100


def ends_of(texts: Any) -> tuple[Any, Any]:
    """Return the first and the last byte of each text, a number above all bytes for one that is empty."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    there = np.flatnonzero(ends[1:] > ends[:-1])
    first: Any = np.full(len(texts), _NONE, np.int16)
    last: Any = np.full(len(texts), _NONE, np.int16)
    if len(there):
        found = np.frombuffer(data, np.uint8)
        first[there], last[there] = found[ends[there]], found[ends[there + 1] - 1]
    return first, last
