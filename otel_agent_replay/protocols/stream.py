"""A provider's event stream as JSON objects: the one place that knows `[DONE]`, blank data and broken events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from otel_agent_replay.protocols.json_text import parse, parse_object
from otel_agent_replay.protocols.sse import events_of, looks_like_sse

DONE = "[DONE]"
EVERYTHING = (b"",)
"""Markers for `scan` that every object holds."""

_LONGEST_DONE = 20
_LINE_END = re.compile(rb"\r\n|\r|\n")


def is_stream(body: bytes, media_type: str) -> bool:
    """Whether `body` is an event stream. The bytes decide: an error in answer to a stream request is plain JSON."""
    if body[:1] in (b"{", b"["):
        return False
    return looks_like_sse(body) or "event-stream" in media_type


class JsonStream:
    """Iterate for `(event type, object)`. Afterwards `done` tells of the end mark, `problems` of what was no object."""

    def __init__(self, body: bytes) -> None:
        self.done = False
        self.problems: list[str] = []
        self._body = body

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, event in enumerate(events_of(self._body), 1):
            data = event.data.strip()
            if not data:
                continue
            if data == DONE:
                self.done = True
                continue
            if not event.valid:
                self.problems.append(f"event {number} is not UTF-8")
            value = parse(data)
            if isinstance(value, dict):
                yield event.type, value
            elif not event.ended:
                self.problems.append(f"event {number} is cut: {data[-60:]!r}")
            else:
                self.problems.append(f"event {number} is no JSON object: {data[:60]!r}")


class Scan(NamedTuple):
    """What a look over a stream found: its first object, the marked objects, whether the end mark came."""

    first: dict[str, Any]
    marked: list[dict[str, Any]]
    done: bool


def scan(body: bytes, markers: tuple[bytes, ...]) -> Scan:
    """The first object of a stream and every object in whose text one of `markers` occurs, without parsing the rest.

    A much cheaper look than `JsonStream`: it reads lines, not events. Where an event is spread over several `data`
    lines it reads the events instead.
    """
    first: dict[str, Any] | None = None
    marked: list[dict[str, Any]] = []
    done = False
    for line in _LINE_END.split(body) if b"\r" in body else body.split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        wanted = any(mark in line for mark in markers)
        if not wanted and first is not None and len(line) > _LONGEST_DONE:
            continue
        text = line[5:].strip()
        if text in (b"", b"[DONE]"):
            done = done or bool(text)
            continue
        value = parse_object(text)
        if value is None:
            return _scan_events(body)
        if first is None:
            first = value
        if wanted:
            marked.append(value)
    return Scan(first or {}, marked, done)


def _scan_events(body: bytes) -> Scan:
    stream = JsonStream(body)
    objects = [value for _, value in stream]
    return Scan(objects[0] if objects else {}, objects, stream.done)
