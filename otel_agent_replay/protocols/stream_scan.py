"""A cheap look over a stream: the few events that carry facts are found by their text, the rest is never parsed."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from otel_agent_replay.protocols.json_text import parse_object
from otel_agent_replay.protocols.stream import DONE, JsonStream, objects_of

EVERYTHING: Final = (b"data:",)
"""Markers for `scan` that every event holds."""

_LINE_END = re.compile(rb"\r\n|\r")
_DONE = DONE.encode()


class Scan(NamedTuple):
    """What the look found: the stream's first object, the marked objects in order, whether the end mark came."""

    first: dict[str, Any]
    marked: list[dict[str, Any]]
    done: bool


def scan(body: bytes, markers: tuple[bytes, ...]) -> Scan:
    """The first object of a stream and every object in whose text one of `markers` occurs.

    Reads lines, not events; where an event is spread over several `data` lines it reads the events instead.
    """
    if b"\r" in body:
        body = _LINE_END.sub(b"\n", body)
    values = {}
    for start, end in sorted(_marked_lines(body, markers).items()):
        text = _data(body, start, end)
        if text in (None, b"", _DONE):
            continue
        values[start] = parse_object(text)
        if values[start] is None:
            return _scan_events(body)
    start, end = _first_line(body)
    first = values[start] if start in values else parse_object(body[start + 5 : end]) if end else {}
    if first is None:
        return _scan_events(body)
    return Scan(first, [value for value in values.values() if value is not None], _has_end_mark(body))


def _marked_lines(body: bytes, markers: tuple[bytes, ...]) -> dict[int, int]:
    """Where the lines that hold a marker start, and where they end."""
    lines = {}
    for mark in markers:
        at = body.find(mark)
        while at >= 0:
            start = body.rfind(b"\n", 0, at) + 1
            end = lines[start] = _line_end(body, at)
            at = body.find(mark, end)
    return lines


def _first_line(body: bytes) -> tuple[int, int]:
    """Start and end of the first line with data, both 0 where there is none."""
    start = 0
    while start < len(body):
        end = _line_end(body, start)
        if _data(body, start, end) not in (None, b"", _DONE):
            return start, end
        start = end + 1
    return 0, 0


def _has_end_mark(body: bytes) -> bool:
    at = body.rfind(_DONE)
    return at >= 0 and _data(body, body.rfind(b"\n", 0, at) + 1, _line_end(body, at)) == _DONE


def _line_end(body: bytes, at: int) -> int:
    end = body.find(b"\n", at)
    return len(body) if end < 0 else end


def _data(body: bytes, start: int, end: int) -> bytes | None:
    return body[start + 5 : end].strip() if body.startswith(b"data:", start) else None


def _scan_events(body: bytes) -> Scan:
    stream = JsonStream()
    objects = [value for _, value in objects_of(stream, body)]
    return Scan(objects[0] if objects else {}, objects, stream.done)
