"""Serialised messages made by joining parts, so that what never changes is serialised once.

Protobuf allows it: serialised messages of one type, joined, are the message in which they are merged, and a message
inside another is a field like any other. Knows field numbers only where a caller names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from otel_agent_replay.model import Chunk, HttpRequestHead, HttpResponseHead
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.text import text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2

_FIXED64, _LENGTH_DELIMITED = 1, 2
_HEADERS = 3  # field number of the headers in both heads
_MOST_CACHED = 2_048
_LONGEST_CACHED = 512  # characters of a header's value


_CONTINUED = [bytes((digit | 0x80,)) for digit in range(0x80)]


class _Varints(dict[int, bytes]):
    """Numbers in protobuf's base-128 form; those of up to two bytes are kept: lengths and counts come again."""

    def __missing__(self, number: int) -> bytes:
        if number < 0x80:
            found = self[number] = bytes((number,))
            return found
        found = _CONTINUED[number & 0x7F] + self[number >> 7]
        if number < 0x4000:
            self[number] = found
        return found


varint: Callable[[int], bytes] = _Varints().__getitem__
"""Return a number that is not negative in protobuf's base-128 form. A look-up in C: a record asks for a dozen."""


def tag(number: int, data_bytes: int | None = None) -> bytes:
    """Return what stands before a field's data: a number, or `data_bytes` bytes when given."""
    if data_bytes is None:
        return varint(number << 3)
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(data_bytes)


def tag_fixed64(number: int) -> bytes:
    """Return what stands before a field of eight bytes."""
    return varint(number << 3 | _FIXED64)


_SIZES, _AFTER = (tag(number, 0)[:-1] for number in (1, 2))  # of the two packed lists of a Chunking


def field(number: int, data: bytes) -> bytes:
    """Return a field that holds `data`: bytes, text in UTF-8, or a serialised message."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(data)) + data


class _Headers(dict[tuple[str, str], bytes]):
    """Headers as they lie in both heads: most come again with every call."""

    def __missing__(self, header: tuple[str, str]) -> bytes:
        name, value = header
        message = exchange_pb2.Header(name=text_to_wire(name), value=text_to_wire(value))
        data = field(_HEADERS, message.SerializeToString())
        if len(value) <= _LONGEST_CACHED:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[header] = data
        return data


_header = _Headers().__getitem__  # a look-up in C


def request_head(head: HttpRequestHead) -> bytes:
    """Return the serialised `HttpRequestHead`."""
    return b"".join((_request_line(head.method, head.url, head.http_version), *map(_header, head.headers)))


@lru_cache(256)
def _request_line(method: str, url: str, http_version: str) -> bytes:
    line = exchange_pb2.HttpRequestHead(method=text_to_wire(method), url=text_to_wire(url), http_version=http_version)
    return line.SerializeToString()


def response_head(head: HttpResponseHead) -> bytes:
    """Return the serialised `HttpResponseHead`."""
    return b"".join((_status_line(head.status, head.reason, head.http_version), *map(_header, head.headers)))


def chunking(chunks: Sequence[Chunk]) -> bytes:
    """Return the serialised `Chunking` of chunk sizes and times."""
    if len(chunks) == 1:
        size, after_ns = chunks[0]
        size_digits, after_digits = varint(size), varint(max(after_ns, 0))
        return b"".join(
            (_SIZES, varint(len(size_digits)), size_digits, _AFTER, varint(len(after_digits)), after_digits)
        )
    return convert.chunking_to_wire(chunks).SerializeToString()


@lru_cache(256)
def _status_line(status: int, reason: str, http_version: str) -> bytes:
    line = exchange_pb2.HttpResponseHead(status=status, reason=text_to_wire(reason), http_version=http_version)
    return line.SerializeToString()
