"""Bedrock's answer streams as named JSON objects: the framing by AWS event streams, and the failures that it carries.

An event frame gives its `:event-type` and its payload. A failure is an event too: an `exception` frame, an `error`
frame, and a frame whose checksum is wrong or whose payload is no JSON each give an object with `:message-type` in it,
which no event has; `stream_error` reads them. `done` never comes: these streams have no end mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from otel_agent_replay.protocols.event_stream import MEDIA_TYPE, EventStreamParser, Frame, looks_like_event_stream
from otel_agent_replay.protocols.folded import ProviderError
from otel_agent_replay.protocols.json_text import as_count, as_text, parse
from otel_agent_replay.protocols.provider_error import MALFORMED
from otel_agent_replay.protocols.stream import JsonStream, NamedObject, ObjectStream, is_stream

MESSAGE_TYPE: Final = ":message-type"
DAMAGED: Final = "damaged"
"""The `:message-type` of what could not be read; no server sends it."""


class FrameStream:
    """Binary frames whose payloads are JSON objects; see `stream.ObjectStream`. `without` names events to leave out."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self.done = False
        self.problems: list[str] = []
        self._without = without
        self._parser = EventStreamParser()
        self._number = 0

    def feed(self, chunk: bytes) -> Iterable[NamedObject]:
        """See `ObjectStream`."""
        frames = self._parser.feed(chunk)
        return self._objects(frames) if frames else ()

    def close(self) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        return self._objects(self._parser.close())

    def _objects(self, frames: list[Frame]) -> Iterator[NamedObject]:
        for frame in frames:
            self._number += 1
            if frame.problem is None:
                headers = frame.headers
                name = headers.get(":event-type")
                if name in self._without:
                    continue
                if isinstance(name, str) and headers.get(MESSAGE_TYPE) == "event":
                    value = _object(frame.payload)
                    yield (name, value) if value is not None else self._no_object(frame)
                else:
                    yield self._failure(frame)
            elif frame.cut:
                self.problems.append(frame.problem)
            else:
                yield self._damage(frame.problem)

    def _failure(self, frame: Frame) -> NamedObject:
        """What is no event: the service gave up, or sent something that nobody has written down."""
        kind = frame.text(MESSAGE_TYPE)
        value = _object(frame.payload)
        if kind == "error":
            return frame.text(":error-code") or kind, {MESSAGE_TYPE: kind, "message": frame.text(":error-message")}
        if kind == "exception":
            found = {"message": frame.payload.decode("utf-8", "replace")} if value is None else value
            return frame.text(":exception-type") or kind, {**found, MESSAGE_TYPE: kind}
        return (frame.text(":event-type"), value) if value is not None else self._no_object(frame)

    def _no_object(self, frame: Frame) -> NamedObject:
        return self._damage(f"frame {self._number} is no JSON object: {frame.payload[:60]!r}")

    def _damage(self, problem: str) -> NamedObject:
        self.problems.append(problem)
        return DAMAGED, {MESSAGE_TYPE: DAMAGED, "message": problem}


def _object(payload: bytes) -> dict[str, Any] | None:
    """The JSON object of a payload, an empty one for an empty payload, None where it is none."""
    try:
        value = parse(payload.decode("utf-8")) if payload else {}
    except UnicodeDecodeError:
        return None
    return value if isinstance(value, dict) else None


def is_aws_stream(start: bytes, media_type: str) -> bool:
    """Whether an answer that begins so is an AWS event stream. As with `is_stream` the bytes decide where they can."""
    if start[:1] in (b"{", b"["):
        return looks_like_event_stream(start)
    return looks_like_event_stream(start) or media_type == MEDIA_TYPE


def aws_framing(start: bytes, media_type: str) -> ObjectStream | None:
    """The framing of a Bedrock answer. Server-sent events are taken too: some recordings and gateways write those."""
    if is_aws_stream(start, media_type):
        return FrameStream()
    return JsonStream() if is_stream(start, media_type) else None


def stream_error(name: str, value: dict[str, Any], status: int) -> ProviderError | None:
    """The failure that an object of these streams tells, None for an event."""
    kind = value.get(MESSAGE_TYPE)
    if kind is None:
        return None
    found = MALFORMED if kind == DAMAGED else name
    return ProviderError(found, as_text(value.get("message")), as_count(value.get("originalStatusCode")), status)
