"""Streams as JSON objects: what every framing gives, what every reducer takes, and the framing by server-sent events.

The one place that knows `[DONE]`, blank data and broken events.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from otel_agent_replay.protocols.folded import Folded
from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.sse import SseEvent, SseParser, looks_like_sse

DONE = "[DONE]"

NamedObject = tuple[str, dict[str, Any]]
"""One event: its name ("message" where the framing gives none) and its JSON object."""


Reader = Callable[[str, dict[str, Any]], dict[str, Any]]
"""From the text of an object and its value to the object that a reducer gets."""


class ObjectStream(typing.Protocol):
    """A framing: bytes in any chunking -> named objects. `JsonStream` is one.

    After `close`, `done` says that the stream ended by its own account (its end mark came), and `problems` names what
    was no object, was cut or damaged.
    """

    done: bool
    problems: list[str]

    def feed(self, chunk: bytes) -> Iterable[NamedObject]:
        """The objects that `chunk` completes; to be consumed before the next call."""

    def close(self) -> Iterable[NamedObject]:
        """What the end of the body completes."""


class EventReducer(typing.Protocol):
    """The objects of one answer -> one value. Made anew for each answer; nothing raises."""

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take the next event, in order."""

    def result(self, *, ended: bool, problems: Sequence[str]) -> Folded:
        """Fold what came; asked once. `ended` and `problems` are those of the framing."""


def is_stream(body: bytes, media_type: str) -> bool:
    """Whether `body` is an event stream. The bytes decide: an error in answer to a stream request is plain JSON."""
    if body[:1] in (b"{", b"["):
        return False
    return looks_like_sse(body) or "event-stream" in media_type


class JsonStream:
    """Server-sent events whose data are JSON objects; see `ObjectStream`. `read` may put their text into an object."""

    def __init__(self, read: Reader | None = None) -> None:
        self.done = False
        self.problems: list[str] = []
        self._read = read
        self._parser = SseParser()
        self._number = 0

    def feed(self, chunk: bytes) -> Iterable[NamedObject]:
        """See `ObjectStream`."""
        events = self._parser.feed(chunk)
        return self._objects(events) if events else ()

    def close(self) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        return self._objects(self._parser.close())

    def _objects(self, events: list[SseEvent]) -> Iterator[NamedObject]:
        for event in events:
            self._number += 1
            data = event.data.strip()
            if not data:
                continue
            if data == DONE:
                self.done = True
                continue
            if not event.valid:
                self.problems.append(f"event {self._number} is not UTF-8")
            value = parse(data)
            if isinstance(value, dict):
                yield event.type, value if self._read is None else self._read(data, value)
            elif not event.ended:
                self.problems.append(f"event {self._number} is cut: {data[-60:]!r}")
            else:
                self.problems.append(f"event {self._number} is no JSON object: {data[:60]!r}")


def sse_framing(start: bytes, media_type: str) -> JsonStream | None:
    """The framing of a body that is either server-sent events or one JSON value: None for the latter."""
    return JsonStream() if is_stream(start, media_type) else None


def objects_of(stream: ObjectStream, body: bytes) -> Iterator[NamedObject]:
    """Every object of a whole body."""
    yield from stream.feed(body)
    yield from stream.close()
