"""The text that a stream of events spells out piece by piece, and where each piece stands.

A model's answer comes as many small events; what must be masked may begin in one and end in another. Owns the
finding of `data:` lines and of the pieces that belong together; it must know no rule.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from otel_agent_replay.patterns import late
from otel_agent_replay.payload.json_text import places, unescaped, walk

_NAMES = (
    "content",
    "text",
    "partial_json",
    "arguments",
    "delta",
    "thinking",
    "reasoning_content",
    "reasoning",
    "refusal",
    "response",  # Ollama
    "tool_plan",  # Cohere
    "parameters",
    "value",  # Writer
    "completion",  # Anthropic's older API
    "input",  # Bedrock
    "generation",
    "outputText",
    "stringValue",  # Gemini
)
PIECE_NAMES = frozenset(_NAMES)
"""Fields in which providers send pieces of text."""

_INDEX_NAMES = frozenset({"index", "output_index", "content_index", "item_id", "summary_index", "contentBlockIndex"})
_LINE = late(r"[^\r\n]+")


def data_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the range of what follows `data:` on each such line of an event stream; lines of NDJSON whole."""
    for line in _LINE.finditer(text):
        start, end = line.span()
        if text.startswith("data:", start):
            start += 6 if text.startswith(" ", start + 5) else 5
        elif text[start] not in "{[":
            continue
        if start < end:
            yield start, end


@dataclass
class Spelled:
    """One text made of pieces: its meaning, and for each piece where it stands in the stream."""

    meaning: str = ""
    starts: list[int] = field(default_factory=list)  # of each piece in `meaning`
    raws: list[tuple[int, str]] = field(default_factory=list)  # position in the stream, and the raw piece

    def add(self, position: int, raw: str) -> None:
        """Append a piece."""
        self.starts.append(len(self.meaning))
        self.raws.append((position, raw))
        self.meaning += unescaped(raw)

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the stream that spell `meaning[start:end]`."""
        found = []
        number = bisect.bisect_right(self.starts, start) - 1
        while number < len(self.raws) and self.starts[number] < end:
            position, raw = self.raws[number]
            place = places(raw)
            base = self.starts[number]
            size = (self.starts[number + 1] if number + 1 < len(self.starts) else len(self.meaning)) - base
            low, high = max(0, start - base), min(size, end - base)
            if low < high:
                found.append((position + place(low), position + place(high)))
            number += 1
        return found


def is_array_stream(data: bytes) -> bool:
    """Return whether a JSON body is Gemini's stream without events: an array of answers, each a piece of the text."""
    return data[:1] == b"[" and b'"candidates"' in data[:256]


def array_elements(text: str) -> Iterator[tuple[int, int]]:
    """Yield the range of each object in a JSON array."""
    for found in walk(text):
        if found.kind == "container" and len(found.path) == 1:
            yield found.start, found.end


def spelled(text: str, ranges: Iterable[tuple[int, int]] | None = None) -> list[Spelled]:
    """Return the texts that the events of a stream, or the objects at `ranges`, spell out in more than one piece."""
    texts: dict[tuple[object, ...], Spelled] = {}
    for start, end in data_lines(text) if ranges is None else ranges:
        if text[start] != "{":
            continue
        pieces: list[tuple[tuple[str | int, ...], int, str]] = []
        indexes: list[str] = []
        event = text[start:end]
        for found in walk(event):
            name = found.path[-1] if found.path else None
            if found.kind == "text" and name in PIECE_NAMES:
                pieces.append((found.path, start + found.start, event[found.start : found.end]))
            elif name in _INDEX_NAMES and found.kind in ("bare", "text"):
                indexes.append(event[found.start : found.end])
        for path, position, raw in pieces:
            texts.setdefault((path, *indexes), Spelled()).add(position, raw)
    return [one for one in texts.values() if len(one.raws) > 1]


_PIECES = tuple(
    (b'"%s":' % name, late(rb'"%s":\s*"([^"\\]*(?:\\.[^"\\]*)*)"' % name, re.DOTALL))
    for name in (each.encode() for each in _NAMES)
)


def rough(data: bytes) -> list[bytes]:
    """Return, fast and roughly, what the pieces of each name spell together, still escaped.

    Enough to see whether anything may be hidden between the pieces; parallel texts are run together.
    """
    texts = []
    for name, piece in _PIECES:
        if name in data:
            pieces = piece.findall(data)
            if len(pieces) > 1:
                texts.append(b"".join(pieces))
    return texts
