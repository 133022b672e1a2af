"""Serialised messages made by joining parts, so that what never changes is serialised once.

Protobuf allows it: serialised messages of one type, joined, are the message in which they are merged, and a message
inside another is a field like any other. Knows field numbers only where a caller names them.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from otel_agent_replay.model import HttpRequestHead, HttpResponseHead
from otel_agent_replay.wire.text import text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2

_FIXED64, _LENGTH_DELIMITED = 1, 2
_HEADERS = 3  # field number of the headers in both heads
_MOST_CACHED = 2_048
_LONGEST_CACHED = 512  # characters of a header's value


def varint(number: int) -> bytes:
    """Return a number that is not negative in protobuf's base-128 form."""
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


_ONE_BYTE = [bytes((number,)) for number in range(0x80)]


def tag(number: int, data_bytes: int | None = None) -> bytes:
    """Return what stands before a field's data: a number, or `data_bytes` bytes when given."""
    if data_bytes is None:
        return varint(number << 3)
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(data_bytes)


def tag_fixed64(number: int) -> bytes:
    """Return what stands before a field of eight bytes."""
    return varint(number << 3 | _FIXED64)


fixed64 = struct.Struct("<Q").pack
"""The eight bytes of a number that is not negative."""


def field(number: int, data: bytes) -> bytes:
    """Return a field that holds `data`: bytes, text in UTF-8, or a serialised message."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(data)) + data


@lru_cache(_MOST_CACHED)
def _header_once(name: str, value: str) -> bytes:
    return _header(name, value)


def _header(name: str, value: str) -> bytes:
    header = exchange_pb2.Header(name=text_to_wire(name), value=text_to_wire(value))
    return field(_HEADERS, header.SerializeToString())


def _headers(headers: tuple[tuple[str, str], ...]) -> bytes:
    return b"".join(
        [
            _header_once(name, value) if len(value) <= _LONGEST_CACHED else _header(name, value)
            for name, value in headers
        ]
    )


def request_head(head: HttpRequestHead) -> bytes:
    """Return the serialised `HttpRequestHead`."""
    return _request_line(head.method, head.url, head.http_version) + _headers(head.headers)


@lru_cache(256)
def _request_line(method: str, url: str, http_version: str) -> bytes:
    line = exchange_pb2.HttpRequestHead(method=text_to_wire(method), url=text_to_wire(url), http_version=http_version)
    return line.SerializeToString()


def response_head(head: HttpResponseHead) -> bytes:
    """Return the serialised `HttpResponseHead`."""
    return _status_line(head.status, head.reason, head.http_version) + _headers(head.headers)


@lru_cache(256)
def _status_line(status: int, reason: str, http_version: str) -> bytes:
    line = exchange_pb2.HttpResponseHead(status=status, reason=text_to_wire(reason), http_version=http_version)
    return line.SerializeToString()
