"""Where the values of a JSON text begin and end: exact slices, at the speed of the standard parser.

Only the containers that a caller asks about are walked here; each value inside is jumped over by one parser call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


class Span(NamedTuple):
    """A value in a text: `text[start:end]`, with the value itself. `key` is empty for an element of an array.

    `begin` is where a member's key begins; for an element it is `start`.
    """

    key: str
    start: int
    end: int
    value: Any
    begin: int


def members(text: str, start: int = 0) -> Iterator[Span]:
    """The members of the object that begins at `start` (spaces allowed before it). ValueError if there is none."""
    return _members(text, _opening(text, start, "{"))


def more_members(text: str, end: int) -> Iterator[Span]:
    """The members after the value that ends at `end`, a member's of an object. ValueError where it does not go on."""
    return _members(text, _next(text, end, "}"))


def _members(text: str, at: int) -> Iterator[Span]:
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise ValueError(f"no key at character {at}")
        first = at
        key, at = _raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"no colon at character {at}")
        begin = _skip(text, at + 1)
        value, end = _raw_decode(text, begin)
        yield Span(key, begin, end, value, first)
        at = _next(text, end, "}")


def elements(text: str, start: int = 0) -> Iterator[Span]:
    """The elements of the array that begins at `start` (spaces allowed before it). ValueError if there is none."""
    return _elements(text, _opening(text, start, "["))


def more_elements(text: str, end: int) -> Iterator[Span]:
    """The elements after the one that ends at `end`, of an array. ValueError where it does not go on."""
    return _elements(text, _next(text, end, "]"))


def _elements(text: str, at: int) -> Iterator[Span]:
    while text[at : at + 1] != "]":
        value, end = _raw_decode(text, at)
        yield Span("", at, end, value, at)
        at = _next(text, end, "]")


def member(text: str, start: int, key: str) -> Span | None:
    """The last member named `key` of the object at `start`: of repeated keys parsers take the last."""
    found = None
    for span in members(text, start):
        if span.key == key:
            found = span
    return found


def _raw_decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decode(text, at)
    except RecursionError as error:
        raise ValueError(f"nested too deeply at character {at}") from error


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _opening(text: str, start: int, mark: str) -> int:
    at = _skip(text, start)
    if text[at : at + 1] != mark:
        raise ValueError(f"no {mark} at character {at}")
    return _skip(text, at + 1)


def _next(text: str, end: int, closing: str) -> int:
    at = _skip(text, end)
    found = text[at : at + 1]
    if found == ",":
        return _skip(text, at + 1)
    if found == closing:
        return at
    raise ValueError(f"neither comma nor {closing} at character {at}")
