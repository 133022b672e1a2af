"""AWS event streams (`application/vnd.amazon.eventstream`) from bytes in any chunking, checksums checked.

A frame is: its length, the length of its headers and a CRC-32 of these eight bytes (the prelude); headers; a payload;
a CRC-32 of all before it. A frame whose own checksum is wrong is given out with `problem` set and reading goes on,
since its length was proved by the prelude. A wrong prelude proves no length: what follows cannot be cut into frames,
so it comes out as one frame with a problem, when the body ends. Nothing raises for any bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"

HeaderValue = bool | int | bytes | str

PRELUDE: Final = 12
"""Bytes before a frame's headers."""
CRC: Final = 4
"""Bytes after its payload."""

_LEAST = PRELUDE + CRC
_MOST = 24 << 20  # bytes of a frame; AWS's own clients take no longer ones (16 MiB, then 24 MiB)

# Type of a header's value -> how many bytes it has, or where the number of them is told by the two before.
_NUMBERS: Final = {2: ">b", 3: ">h", 4: ">i", 5: ">q", 8: ">q"}
_COUNTED: Final = (6, 7)
_UUID: Final = 9


_NO_HEADERS: Final[Mapping[str, HeaderValue]] = MappingProxyType({})
_unpack_prelude = struct.Struct(">III").unpack_from
_unpack_crc = struct.Struct(">I").unpack_from
_crc32 = zlib.crc32


class Frame(NamedTuple):
    """One message: `data` are all its bytes, `payload` those between headers and checksum.

    `problem` says why it must not be believed: then it has neither headers nor payload. `cut` says that the body ended
    within it. A tuple, because a stream has many.
    """

    data: bytes
    headers: Mapping[str, HeaderValue] = _NO_HEADERS
    payload: bytes = b""
    problem: str | None = None
    cut: bool = False

    def text(self, name: str) -> str:
        """The text of a header, "" where it is absent or no text."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


class EventStreamParser:
    """Feed it bytes as they come, then close it: used like `SseParser`."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._wanted = PRELUDE
        self._lost: str | None = None
        self._number = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes."""
        self._held.append(chunk)
        self._size += len(chunk)
        if self._size < self._wanted or self._lost is not None:
            return []
        data = b"".join(self._held) if len(self._held) > 1 else chunk
        frames, at, size = [], 0, len(data)
        self._wanted = PRELUDE
        while size - at >= PRELUDE:
            length, headers, checksum = _unpack_prelude(data, at)
            if _crc32(data[at : at + 8]) != checksum or not headers + _LEAST <= length <= _MOST:
                self._lose(data[at : at + PRELUDE])
                break
            end = at + length
            if end > size:
                self._wanted = length
                break
            self._number += 1
            frames.append(_frame(data[at:end], PRELUDE + headers, self._number))
            at = end
        rest = data[at:] if at else data
        self._held, self._size = [rest] if rest else [], size - at
        return frames

    def close(self) -> list[Frame]:
        """What the end of the body left over, as one frame with a problem."""
        rest, self._held, self._size = b"".join(self._held), [], 0
        if not rest:
            return []
        problem = self._lost or f"frame {self._number + 1} is cut: {len(rest)} bytes of it came"
        return [Frame(rest, problem=problem, cut=self._lost is None)]

    def _lose(self, prelude: bytes) -> None:
        """Say why nothing can be read from here on."""
        length, headers, checksum = _unpack_prelude(prelude, 0)
        what = f"frame {self._number + 1} and all after it cannot be read"
        if _crc32(prelude[:8]) != checksum:
            self._lost = f"{what}: the checksum of its prelude is wrong"
        else:
            self._lost = f"{what}: its length is {length} bytes with {headers} bytes of headers"


def frames_of(chunks: bytes | Iterable[bytes]) -> Iterator[Frame]:
    """All frames of a whole body, given as one piece or as its chunks."""
    parser = EventStreamParser()
    for chunk in (chunks,) if isinstance(chunks, bytes) else chunks:
        yield from parser.feed(chunk)
    yield from parser.close()


def looks_like_event_stream(start: bytes) -> bool:
    """Whether a body that begins so is an AWS event stream: its first prelude proves it."""
    return len(start) >= PRELUDE and zlib.crc32(start[:8]) == int.from_bytes(start[8:PRELUDE], "big")


def with_payload(frame: Frame, payload: bytes) -> bytes:
    """The bytes of `frame` with another payload: same headers, lengths and checksums made anew."""
    end = PRELUDE + int.from_bytes(frame.data[4:8], "big")
    return _sealed(frame.data[PRELUDE:end], payload)


def written_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """The bytes of a frame whose headers are texts, as all those of Bedrock's events are."""
    written = b""
    for name, value in headers.items():
        key, text = name.encode(), value.encode()
        written += struct.pack(">B", len(key)) + key + struct.pack(">BH", 7, len(text)) + text
    return _sealed(written, payload)


def _sealed(headers: bytes, payload: bytes) -> bytes:
    lengths = struct.pack(">II", _LEAST + len(headers) + len(payload), len(headers))
    data = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return data + struct.pack(">I", zlib.crc32(data))


def _frame(data: bytes, end: int, number: int) -> Frame:
    """The frame of `data`, whose headers end at `end`."""
    if _crc32(data[:-CRC]) != _unpack_crc(data, len(data) - CRC)[0]:
        return Frame(data, problem=f"the checksum of frame {number} is wrong")
    headers = _known_headers(data[PRELUDE:end])
    if headers is None:
        return Frame(data, problem=f"the headers of frame {number} cannot be read")
    return Frame(data, headers, data[end:-CRC])


@lru_cache(maxsize=256)
def _known_headers(data: bytes) -> Mapping[str, HeaderValue] | None:
    """The headers in `data`, None where they cannot be read. Kept, since those of a stream repeat."""
    try:
        return MappingProxyType(dict(_headers(data)))
    except (ValueError, struct.error, IndexError):
        return None


def _headers(data: bytes) -> Iterator[tuple[str, HeaderValue]]:
    at, end = 0, len(data)
    while at < end:
        size = data[at]
        name = data[at + 1 : at + 1 + size].decode("utf-8")
        kind = data[at + 1 + size]
        at += size + 2
        value: HeaderValue
        if kind in (0, 1):
            value, size = kind == 0, 0
        elif kind in _NUMBERS:
            size = struct.calcsize(_NUMBERS[kind])
            value = struct.unpack_from(_NUMBERS[kind], data, at)[0]
        elif kind in _COUNTED or kind == _UUID:
            if kind != _UUID:
                size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
            else:
                size = 16
            value = data[at : at + size]
            if kind == 7:
                value = value.decode("utf-8")
        else:
            raise ValueError(f"no header type {kind}")
        at += size
        if at > end:
            raise ValueError("a header ends outside the headers")
        yield name, value
