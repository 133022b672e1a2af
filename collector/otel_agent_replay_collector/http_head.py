"""The head of an HTTP/1.1 request: read strictly, since what two readers take differently can be smuggled. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from otel_agent_replay_collector.refusal import INVALID_ARGUMENT, UNIMPLEMENTED, Refused

MOST_HEAD = 16 << 10
"""Bytes that a head may have."""

_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,4096}) HTTP/1\.([01])\Z")
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_DIGITS = re.compile(rb"[0-9]{1,15}\Z")
_ONCE = frozenset({b"content-length", b"content-type", b"content-encoding", b"transfer-encoding", b"authorization"})


@dataclass(frozen=True, slots=True)
class Head:
    """What a request says of itself. `length` None: its body comes in chunks."""

    method: bytes
    path: bytes
    length: int | None
    content_type: bytes
    encoding: bytes
    authorization: bytes
    keep_alive: bool
    wants_continue: bool


def _bad(why: str) -> Refused:
    return Refused(INVALID_ARGUMENT, 400, f"this is no HTTP request: {why}", reason="http")


def read_head(data: bytes) -> Head:
    """Return a head, given without the empty line that ends it. Raises Refused."""
    lines = data.split(b"\r\n")
    line = _LINE.match(lines[0])
    if line is None:
        raise _bad("its first line is no method, target and version 1.0 or 1.1")
    fields = _fields(lines[1:])
    connection = fields.get(b"connection", b"").lower()
    is_new = line[3] == b"1"
    return Head(
        method=line[1],
        path=line[2].partition(b"?")[0],
        length=_length(fields),
        content_type=fields.get(b"content-type", b"").partition(b";")[0].strip().lower(),
        encoding=fields.get(b"content-encoding", b"").strip().lower(),
        authorization=fields.get(b"authorization", b""),
        keep_alive=b"close" not in connection if is_new else b"keep-alive" in connection,
        wants_continue=fields.get(b"expect", b"").lower() == b"100-continue",
    )


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or _NAME.match(name) is None or b"\n" in value or b"\r" in value or b"\0" in value:
            raise _bad("a header is no name and value")
        name = name.lower()
        if name in _ONCE and name in fields:
            raise _bad(f"{name.decode()} is given twice")
        fields[name] = value.strip(b" \t")
    return fields


def _length(fields: dict[bytes, bytes]) -> int | None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise _bad("both content-length and transfer-encoding are given")
        if coding.lower() != b"chunked":
            raise Refused(UNIMPLEMENTED, 501, "no transfer-encoding but chunked is understood", reason="http")
        return None
    if length is None:
        return 0
    if _DIGITS.match(length) is None:
        raise _bad("content-length is no number")
    return int(length)


class Chunks:
    """A body in chunks, put together as it comes. `done` after the last; `rest` is what came behind it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()  # not yet understood
        self._left = 0  # bytes of the present chunk, with its line end
        self._in_trailer = False
        self.body = bytearray()
        self.done = False

    @property
    def rest(self) -> bytes:
        """Bytes that came behind the body."""
        return bytes(self._data)

    def feed(self, data: bytes | memoryview) -> bool:
        """Take what came. Returns False when the body is too large; raises Refused when it is none."""
        self._data += data
        while not self.done:
            if self._left:
                if not self._take():
                    return True
            elif not self._next_line():
                return True
            if len(self.body) + self._left > self._most + 2:
                return False
        return True

    def _take(self) -> bool:
        """Move what there is of the present chunk; False when more must come."""
        content = min(max(0, self._left - 2), len(self._data))
        self.body += self._data[:content]
        del self._data[:content]
        self._left -= content
        if self._left > 2 or len(self._data) < 2:
            return False
        if self._data[:2] != b"\r\n":
            raise _bad("a chunk is longer than it says")
        del self._data[:2]
        self._left = 0
        return True

    def _next_line(self) -> bool:
        end = self._data.find(b"\r\n")
        if end < 0:
            if len(self._data) > MOST_HEAD:
                raise _bad("a chunk begins without its size")
            return False
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        if self._in_trailer:
            self.done = not line
            return True
        size = line.partition(b";")[0].strip()
        if re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size) is None:
            raise _bad("the size of a chunk is no number")
        length = int(size, 16)
        self._in_trailer = not length
        self._left = length + 2 if length else 0
        return True
