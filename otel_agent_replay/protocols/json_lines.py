r"""JSON lines (`application/x-ndjson`, `application/stream+json`) from bytes in any chunking.

A line ends with LF; a CR before it is a space of JSON. Bytes are decoded after they were cut into lines, so a chunk
may end inside a character. Blank lines give nothing. A last line without an end is given out too: whether it is
whole, its JSON tells.

    >>> stream = JsonLines()
    >>> [value for chunk in (b'{"a":', b'1}\n{"b":2}\n') for _, value in stream.feed(chunk)]
    [{'a': 1}, {'b': 2}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.stream import NamedObject, Reader

_BOM = b"\xef\xbb\xbf"
_MEDIA_TYPES = ("ndjson", "jsonl", "json-lines", "jsonlines", "stream+json", "json-stream")


class _Lines:
    """Bytes as they come -> lines, undecoded, blank ones too."""

    def __init__(self) -> None:
        self._open_line: list[bytes] = []
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes."""
        if b"\n" not in chunk:
            if chunk:
                self._open_line.append(chunk)
            return []
        if self._open_line:
            chunk = b"".join((*self._open_line, chunk))
        lines = chunk.split(b"\n")
        rest = lines.pop()
        self._open_line = [rest] if rest else []
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def close(self) -> list[bytes]:
        """Return the line that the end of the body left open, if there is one."""
        if not self._open_line:
            return []
        text, self._open_line = b"".join(self._open_line), []
        return [text.removeprefix(_BOM) if self._at_start else text]


class JsonLines:
    """Lines that are JSON objects; see `ObjectStream`. `read` may put the text of the wire into an object.

    The framing has no end mark: `done` stays False, and the reducer has to know one.
    """

    def __init__(self, read: Reader | None = None) -> None:
        self.done = False
        self.problems: list[str] = []
        self._read = read
        self._lines = _Lines()
        self._number = 0

    def feed(self, chunk: bytes) -> Iterable[NamedObject]:
        """See `ObjectStream`."""
        lines = self._lines.feed(chunk)
        return self._objects(lines, ended=True) if lines else ()

    def close(self) -> Iterator[NamedObject]:
        """See `ObjectStream`."""
        return self._objects(self._lines.close(), ended=False)

    def _objects(self, lines: list[bytes], *, ended: bool) -> Iterator[NamedObject]:
        for raw in lines:
            self._number += 1
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError:
                text = raw.decode("utf-8", "replace")
                self.problems.append(f"line {self._number} is not UTF-8")
            value = parse(text)
            if isinstance(value, dict):
                yield "message", value if self._read is None else self._read(text, value)
            elif text.strip():
                what = f"is no JSON object: {text[:60]!r}" if ended else f"is cut: {text[-60:]!r}"
                self.problems.append(f"line {self._number} {what}")


def is_json_lines(start: bytes, media_type: str) -> bool:
    """Whether a body is JSON lines: by its media type, but an error in answer to a stream request may be plain JSON."""
    return any(name in media_type for name in _MEDIA_TYPES) and not start.lstrip().startswith((b"{\n", b"{\r\n"))


def ends_of(body: bytes) -> bytes:
    """The first and the last line of `body`: those that hold what is not text."""
    first = body.find(b"\n")
    end = len(body)
    while end and body[end - 1] in b" \t\r\n":
        end -= 1
    last = body.rfind(b"\n", 0, end)
    return body[:end] if first < 0 or last < 0 else body[: first + 1] + body[last + 1 : end]
