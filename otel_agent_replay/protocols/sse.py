r"""Server-sent events from bytes in any chunking (WHATWG HTML, section "server-sent events").

Lines end with CR, LF or CRLF and with nothing else: U+0085 and U+2028 are text. Bytes are decoded after they were cut
into lines, so a chunk may end inside a character. Two differences from a browser: events whose data is empty are
given out too (they are part of the recording), and so is the event that the end of the body leaves open.

    >>> [event.data for event in events_of(b"data: a\n\ndata: b\ndata: c\n\n")]
    ['a', 'b\nc']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_new_tuple = tuple.__new__


class SseEvent(NamedTuple):
    """One event. `type` is "message" unless named; `id` is the last id seen; `retry` milliseconds, where it is set.

    `ended` is False for an event that the body left open; `valid` is False when its bytes were not UTF-8. A tuple,
    because a stream has many.
    """

    data: str
    type: str = "message"
    id: str | None = None
    retry: int | None = None
    ended: bool = True
    valid: bool = True


class SseParser:
    """Feed it bytes as they come, then close it. `comments` and `dataless` count what makes no event."""

    def __init__(self) -> None:
        self.comments = 0
        self.dataless = 0
        self._open_line: list[bytes] = []
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._type = b""
        self._id: str | None = None
        self._retry: int | None = None
        self._fields = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\n" not in chunk and b"\r" not in chunk:
            if chunk:
                self._open_line.append(chunk)
            return []
        self._after_cr = chunk.endswith(b"\r")
        if self._open_line:
            chunk = b"".join((*self._open_line, chunk))
        lines = _LINE_END.split(chunk) if b"\r" in chunk else chunk.split(b"\n")
        rest = lines.pop()
        self._open_line = [rest] if rest else []
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        events = []
        for line in lines:
            if not line:
                event = self._dispatch(ended=True) if self._fields else None
                if event is not None:
                    events.append(event)
            elif line.startswith(b"data: "):  # nearly every line of a provider
                self._fields += 1
                self._data.append(line[6:])
            else:
                self._field(line)
        return events

    def close(self) -> list[SseEvent]:
        """The event that the end of the body left open, if it holds data."""
        if self._open_line:
            line, self._open_line = b"".join(self._open_line), []
            line = line.removeprefix(_BOM) if self._at_start else line
            if line:
                self._field(line)
        event = self._dispatch(ended=False) if self._fields else None
        return [event] if event is not None else []

    def _field(self, line: bytes) -> None:
        if line[:1] == b":":
            self.comments += 1
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        self._fields += 1
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self._retry = int(value)

    def _dispatch(self, *, ended: bool) -> SseEvent | None:
        data, name, retry = self._data, self._type, self._retry
        self._data, self._type, self._retry, self._fields = [], b"", None, 0
        if not data:
            self.dataless += 1
            return None
        raw = data[0] if len(data) == 1 else b"\n".join(data)
        try:
            text, valid = raw.decode("utf-8"), True
        except UnicodeDecodeError:
            text, valid = raw.decode("utf-8", "replace"), False
        kind = name.decode("utf-8", "replace") if name else "message"
        return _new_tuple(SseEvent, (text, kind, self._id, retry, ended, valid))  # half of the cost of `SseEvent(...)`


def events_of(chunks: bytes | Iterable[bytes]) -> Iterator[SseEvent]:
    """All events of a whole body, given as one piece or as its chunks."""
    parser = SseParser()
    for chunk in (chunks,) if isinstance(chunks, bytes) else chunks:
        yield from parser.feed(chunk)
    yield from parser.close()


def looks_like_sse(body: bytes) -> bool:
    """Whether `body` starts as an event stream does: decides where a media type is missing or wrong."""
    start = body[:64].removeprefix(_BOM).lstrip(b"\r\n")
    return start.startswith((b"data:", b"event:", b":", b"id:", b"retry:"))


def may_be_malformed(body: bytes) -> bool:
    """Whether some data in an event stream is visibly no JSON object, by its ends alone: for where time is dear.

    True says "read it in full", not more: an object may go over several lines. A line that the end of the body
    left open is not looked at.
    """
    lines = body.split(b"\n")
    left_open = lines.pop()
    if not body.isascii():
        try:
            body[: len(body) - len(left_open)].decode("utf-8")
        except UnicodeDecodeError:
            return True
    odd = [line for line in lines if line[:5] == b"data:" and (line[-1:] != b"}" or line[5:7] != b" {")]
    return any(not _is_object(line[5:].strip()) for line in odd)


def _is_object(data: bytes) -> bool:
    return data in _NO_OBJECTS or (data[:1] == b"{" and data[-1:] == b"}")


_NO_OBJECTS = frozenset((b"", b"[DONE]"))
