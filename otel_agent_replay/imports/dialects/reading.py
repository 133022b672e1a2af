"""One span's attributes, read by the sources of a table (see `dialect`). Pure; nothing here knows a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from otel_agent_replay.imports.dialects.dialect import Dialect, Sources
from otel_agent_replay.imports.dialects.plain_values import plain
from otel_agent_replay.imports.dialects.span_events import EventMessages, messages_of_events
from otel_agent_replay.model import Span
from otel_agent_replay.protocols.json_text import parse

_MEMBER = "::"
_BELOW = ".*"
_DEEPEST = 32  # parts of a name that are taken apart: names are anybody's
_DIGITS = 9  # of a number that is a place in a list
_AS_THEY_ARE = frozenset((str, int, bool))


class Reading:
    """Reads sources of one span; what is parsed is parsed once."""

    __slots__ = ("_events", "_parsed", "_said", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self._parsed: dict[str, Any] = {}
        self._events: EventMessages | None = None
        self._said: Mapping[str, Any] | None = None

    def speaks(self, dialect: Dialect, heads: frozenset[str]) -> bool:
        """Whether the span speaks a dialect. `heads` are the first parts of the names of its attributes."""
        if dialect.scopes and self.span.scope.name.startswith(dialect.scopes):
            return True
        if dialect.span_names and self.span.name.startswith(dialect.span_names):
            return True
        return any(head in heads and self.has(sign) for head, sign in _heads(dialect.signs))

    def has(self, source: str) -> bool:
        """Whether there is anything at a source."""
        attributes = self.span.attributes
        if source[0] == "@":
            return self.raw(source) is not None
        if source.endswith(_BELOW):
            below = source[:-1]
            return any(key.startswith(below) for key in attributes)
        return source in attributes or source in self.said

    def first(self, sources: Sources) -> Any:
        """Return the value of the first source that has one, JSON in a text still as the text; None where none has."""
        for source in sources:
            found = self.raw(source)
            if found is not None:
                return found
        return None

    def every(self, sources: Sources) -> Iterator[Any]:
        """Yield the value of each source that has one, in order."""
        for source in sources:
            found = self.raw(source)
            if found is not None:
                yield found

    def raw(self, source: str) -> Any:
        """Return what lies at one source."""
        found = self.span.attributes.get(source)
        if found is not None:
            return found if type(found) in _AS_THEY_ARE else plain(found)
        if _is_simple(source):
            return plain(self.said.get(source)) if self.span.events else None
        if source[0] == "@":
            return self._special(source)
        key, _, path = source.partition(_MEMBER)
        if path:
            found = self._json(key)
            for name in path.split(_MEMBER):
                found = found.get(name) if isinstance(found, dict) else None
            return found
        return put_together(self.span.attributes, source[:-1])

    @property
    def said(self) -> Mapping[str, Any]:
        """What an event says in the place of the span's attributes."""
        if self._said is None:
            self._said = (self._messages().attributes or {}) if self.span.events else {}
        return self._said

    def _json(self, key: str) -> Any:
        if key not in self._parsed:
            value = self.raw(key)
            self._parsed[key] = parse(value) if isinstance(value, str) else value
        return self._parsed[key]

    def _special(self, source: str) -> Any:
        if source == "@name":
            return self.span.name
        return self._messages().asked if source == "@input" else self._messages().answered

    def _messages(self) -> EventMessages:
        if self._events is None:
            self._events = messages_of_events(self.span)
        return self._events


@lru_cache(maxsize=4096)
def _is_simple(source: str) -> bool:
    """Whether a source is the name of an attribute and nothing more."""
    return source[0] != "@" and _MEMBER not in source and not source.endswith(_BELOW)


@lru_cache(maxsize=256)
def _heads(signs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((sign.partition(".")[0] if sign[0] != "@" else "@", sign) for sign in signs)


def heads_of(span: Span) -> frozenset[str]:
    """Return the first parts of the names of a span's attributes; `@` where events may say something."""
    names = tuple(span.attributes)
    heads = _HEADS_OF.get(names)  # few sets of names are on most spans
    if heads is None:
        heads = frozenset([name.partition(".")[0] for name in names])
        if len(_HEADS_OF) < _MOST_HEADS and sum(map(len, names)) < _LONGEST_NAMES:
            _HEADS_OF[names] = heads
    if span.events or not heads.isdisjoint(("events", "all_messages_events")):
        return heads | {"@", "gen_ai"}
    return heads


_HEADS_OF: dict[tuple[str, ...], frozenset[str]] = {}
_MOST_HEADS = 1024
_LONGEST_NAMES = 4096  # characters of all names of a span: they are anybody's


def put_together(attributes: Mapping[str, Any], below: str) -> Any:
    """Return the attributes whose names begin with `below` as one value: names of numbers are places in a list.

    >>> put_together({"m.0.role": "user", "m.0.content": "hi", "n": 1}, "m.")
    [{'role': 'user', 'content': 'hi'}]
    """
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(below):
            continue
        at = root
        *path, last = key[len(below) :].split(".", _DEEPEST)
        for name in path:
            inner = at.get(name)
            if not isinstance(inner, dict):
                inner = at[name] = {}
            at = inner
        if not isinstance(at.get(last), dict):
            at[last] = plain(value)
    return _lists(root) if root else None


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isascii() and key.isdigit() and len(key) <= _DIGITS for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(item) for key, item in value.items()}
