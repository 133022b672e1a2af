"""Values to the tree that JSON can hold: the slow, complete path of the codec.

Owns the walk: order of kinds, bounds, cycles, notes. What a tag holds is its own module's business.
"""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from otel_agent_replay.payload import arrays, containers, http_objects, moments, scalars
from otel_agent_replay.payload.classes import class_name
from otel_agent_replay.payload.exceptions import write_exception
from otel_agent_replay.payload.kept import KeptAsText
from otel_agent_replay.payload.objects import write_object
from otel_agent_replay.payload.where import Where, show

MAX_DEPTH = 100  # levels of nesting
MAX_VALUES = 200_000  # containers and objects in one encoded value, where it is not plain JSON
MAX_TEXT = 1_000  # characters of the text that stands for what could not be kept

_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1  # what is written as a number: all that orjson does

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
"""JSON text of a tree that `Encoder` made, no spaces: any depth, and any surrogate in it is told by its encoding."""


class TooLarge(Exception):
    """The value has more parts than are kept."""


_ONLY_TEXT = frozenset({str})
AS_THEY_ARE = frozenset({str, int, bool, type(None)})
"""Classes whose values are JSON as they are; integers and texts that are not, orjson refuses."""


def is_plain(value: Any, seen: set[int] | None = None, depth: int = MAX_DEPTH) -> bool:
    """Return whether a dict or list is JSON exactly as it is: exact classes only, nothing twice, not too deep.

    Integers beyond 64 bits and halves of surrogate pairs are left to orjson to refuse.
    A container at two places may be a cycle or double the size at each level: the slow path counts those. `seen` are
    the identities of the containers met so far, itself included; None: it is the first. `depth` levels may follow.
    """
    items: Iterable[Any] = value
    if type(value) is dict:
        if not _ONLY_TEXT.issuperset(map(type, value)) or "$type" in value:
            return False
        items = value.values()
    if AS_THEY_ARE.issuperset(map(type, items)):
        return True
    for item in items:
        kind = type(item)
        if kind is float:
            if item - item != 0.0:  # NaN or an infinity
                return False
        elif kind is dict or kind is list:
            if seen is None:
                seen = {id(value)}
            if depth <= 1 or id(item) in seen:
                return False
            seen.add(id(item))
            if not is_plain(item, seen, depth - 1):
                return False
        elif kind not in AS_THEY_ARE:
            return False
    return True


class Encoder:
    """One encoding: collects notes, knows what is open above, stops at the bounds."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._open: set[int] = set()
        self._left = MAX_VALUES
        self.dump = dump

    def value(self, value: Any, where: Where) -> Any:
        """Return the tree of `value`, which lies at `where`."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self.text(value)
        if kind is int and _SMALLEST_INT <= value <= _LARGEST_INT:
            return value
        if kind is float and value - value == 0.0:
            return value
        self._left -= 1
        if self._left < 0:
            raise TooLarge
        identity = id(value)
        if identity in self._open:
            return self.kept_as_text(value, where, "refers back to what contains it; cut there", text="<cycle>")
        if len(self._open) >= MAX_DEPTH:
            return self.kept_as_text(value, where, f"nested more than {MAX_DEPTH} deep; cut there", text="<too deep>")
        self._open.add(identity)
        try:
            return self._writer(kind, value)(value, self, where)
        finally:
            self._open.discard(identity)

    def _writer(self, kind: type, value: Any) -> Callable[[Any, Encoder, Where], Any]:
        writer = _WRITERS.get(kind)
        if writer is not None:
            return writer
        if isinstance(value, BaseException):
            return write_exception
        if arrays.is_numpy(value):
            return arrays.write_numpy
        if moments.is_zoneinfo(value):
            return moments.write_zoneinfo
        for parent, known in _PARENTS:
            if isinstance(value, parent):
                return _as_parent(parent, known)
        return http_objects.write_http if http_objects.is_http(kind) else write_object

    def text(self, text: str) -> Any:
        """Return `text`, or its tag when it holds lone surrogates."""
        return text if self.is_text(text) else {"$type": "text", **scalars.text_fields(text)}

    @staticmethod
    def is_text(text: str) -> bool:
        """Return whether `text` has a UTF-8 form."""
        if text.isascii():
            return True
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def items(self, values: Iterable[Any], where: Where) -> list[Any]:
        """Return the trees of a sequence's items."""
        return [self.value(item, (where, index)) for index, item in enumerate(list(values))]

    def pairs(self, pairs: Iterable[tuple[Any, Any]], where: Where) -> list[Any]:
        """Return the trees of keys and values, `[key, value]` each."""
        return [[self.value(key, where), self.value(item, (where, str(key)))] for key, item in pairs]

    def note(self, where: Where, text: str) -> None:
        """Say that what lies at `where` does not come back as it is."""
        place = show(where)
        self.notes.append(f"{place}: {text}" if place else text)

    def kept_as_text(self, value: Any, where: Where, why: str, fields: Any = None, *, text: str | None = None) -> Any:
        """Return the tag that stands for a value that cannot be kept, and note why."""
        self.note(where, why)
        tag = {"$type": "text_only", "class": class_name(type(value)), "text": self.text(text or bounded_repr(value))}
        return tag if fields is None else {**tag, "fields": fields}


def bounded_repr(value: Any) -> str:
    """Return the repr of any object: at most MAX_TEXT characters, memory addresses left out. Never raises."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{class_name(type(value))}, whose repr raised {type(error).__name__}>"
    text = _ADDRESS.sub("", text)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."


def _as_parent(parent: type, write: Callable[[Any, Encoder, Where], Any]) -> Callable[[Any, Encoder, Where], Any]:
    def written(value: Any, encoder: Encoder, where: Where) -> Any:
        encoder.note(where, f"{class_name(type(value))} kept as {parent.__name__}")
        return write(value, encoder, where)

    return written


def _write_kept(value: KeptAsText, encoder: Encoder, where: Where) -> Any:
    tag = {"$type": "text_only", "class": value.type, "text": encoder.text(value.text)}
    return tag if value.fields is None else {**tag, "fields": encoder.value(value.fields, where)}


def _scalar_writer(tag: str, write: Callable[[Any], dict[str, Any]]) -> Callable[[Any, Encoder, Where], Any]:
    return lambda value, _encoder, _where: {"$type": tag, **write(value)}


_WRITERS: dict[type, Callable[[Any, Encoder, Where], Any]] = {
    **{scalar.cls: _scalar_writer(scalar.tag, scalar.write) for scalar in scalars.SCALARS},
    **moments.WRITERS,
    **containers.WRITERS,
    KeptAsText: _write_kept,
}

_PARENTS: tuple[tuple[type, Callable[[Any, Encoder, Where], Any]], ...] = (
    (dt.datetime, moments.write_datetime),
    (pathlib.PurePath, _scalar_writer("path", scalars.write_path)),
)
