r"""JSON lines (`application/x-ndjson`, `application/stream+json`) from bytes in any chunking.

A line ends with LF; a CR before it is a space of JSON. Bytes are decoded after they were cut into lines, so a chunk
may end inside a character. Blank lines are counted and give nothing. A last line without an end is given out too:
whether it is whole, its JSON tells.

    >>> [line.data for line in lines_of([b'{"a":', b'1}\n{"b":2}'])]
    ['{"a":1}', '{"b":2}']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.stream import NamedObject, Reader

_BOM = b"\xef\xbb\xbf"
_SPACES = b" \t\r"
_MEDIA_TYPES = ("ndjson", "jsonl", "json-lines", "jsonlines", "stream+json", "json-stream")


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line without the spaces around it. `ended` is False for a line that the body left open; `valid` is False
    when its bytes were not UTF-8.
    """

    data: str
    ended: bool = True
    valid: bool = True


class JsonLinesParser:
    """Feed it bytes as they come, then close it: used like `SseParser`. `blank` counts what makes no line."""

    def __init__(self) -> None:
        self.blank = 0
        self._open_line: list[bytes] = []
        self._at_start = True

    def feed(self, chunk: bytes) -> list[JsonLine]:
        """The lines that `chunk` completes."""
        if b"\n" not in chunk:
            if chunk:
                self._open_line.append(chunk)
            return []
        lines = b"".join((*self._open_line, chunk)).split(b"\n")
        rest = lines.pop()
        self._open_line = [rest] if rest else []
        return [line for text in lines if (line := self._line(text, ended=True)) is not None]

    def close(self) -> list[JsonLine]:
        """The line that the end of the body left open, if it holds anything."""
        text, self._open_line = b"".join(self._open_line), []
        line = self._line(text, ended=False) if text else None
        return [line] if line is not None else []

    def _line(self, text: bytes, *, ended: bool) -> JsonLine | None:
        if self._at_start:
            self._at_start = False
            text = text.removeprefix(_BOM)
        text = text.strip(_SPACES)
        if not text:
            self.blank += 1
            return None
        try:
            return JsonLine(text.decode("utf-8"), ended)
        except UnicodeDecodeError:
            return JsonLine(text.decode("utf-8", "replace"), ended, valid=False)


class JsonLines:
    """Lines that are JSON objects; see `ObjectStream`. `read` may put the text of the wire into an object.

    The framing has no end mark: `done` stays False, and the reducer has to know one.
    """

    def __init__(self, read: Reader | None = None) -> None:
        self.done = False
        self.problems: list[str] = []
        self._read = read
        self._parser = JsonLinesParser()
        self._number = 0

    def feed(self, chunk: bytes) -> Iterable[NamedObject]:
        """See `ObjectStream`."""
        lines = self._parser.feed(chunk)
        return self._objects(lines) if lines else ()

    def close(self) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        return self._objects(self._parser.close())

    def _objects(self, lines: list[JsonLine]) -> Iterator[NamedObject]:
        for line in lines:
            self._number += 1
            if not line.valid:
                self.problems.append(f"line {self._number} is not UTF-8")
            value = parse(line.data)
            if isinstance(value, dict):
                yield "message", value if self._read is None else self._read(line.data, value)
            elif not line.ended:
                self.problems.append(f"line {self._number} is cut: {line.data[-60:]!r}")
            else:
                self.problems.append(f"line {self._number} is no JSON object: {line.data[:60]!r}")


def lines_of(chunks: bytes | Iterable[bytes]) -> Iterator[JsonLine]:
    """All lines of a whole body, given as one piece or as its chunks."""
    parser = JsonLinesParser()
    for chunk in (chunks,) if isinstance(chunks, bytes) else chunks:
        yield from parser.feed(chunk)
    yield from parser.close()


def is_json_lines(start: bytes, media_type: str) -> bool:
    """Whether a body is JSON lines: by its media type, but an error in answer to a stream request may be plain JSON."""
    return any(name in media_type for name in _MEDIA_TYPES) and not start.lstrip().startswith((b"{\n", b"{\r\n"))


def ends_of(body: bytes) -> bytes:
    """The first and the last line of `body`: those that hold what is not text."""
    text = body.strip()
    first, _, rest = text.partition(b"\n")
    return first + b"\n" + rest[rest.rfind(b"\n") + 1 :] + b"\n" if rest else text
