"""Frames: how records lie in a journal segment.

A frame is the record's length (u32, little endian), its CRC-32 (u32, little endian) and the record. One that is
cut, empty or whose CRC fails ends the segment: what stands after it is not trusted. Knows no record's meaning.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from zlib import crc32

_PREFIX = struct.Struct("<II")
FRAME_OVERHEAD = _PREFIX.size
"""Bytes that a frame adds to its record."""

_pack = _PREFIX.pack
_unpack_from = _PREFIX.unpack_from


def frame(record: bytes) -> bytes:
    """Return `record` framed. An empty record is refused (ValueError): a hole of zeros in a file would read as one."""
    if not record:
        raise ValueError("an empty record cannot be framed: zeros left by a power loss would look like it")
    return _pack(len(record), crc32(record)) + record


class Frames:
    """The records of one segment, in order; after iteration `end` and `torn` say how it ended.

    Iterating yields `(offset of the record, the record)`. `end` is the offset after the last good frame; `torn`
    tells that bytes stand behind it, `size - end` of them. May be iterated again; each pass starts anew.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self.size = len(data)
        self.end = 0

    @property
    def torn(self) -> bool:
        """Whether the last pass stopped before the end of the data."""
        return self.end != self.size

    @property
    def cut(self) -> bool:
        """Whether what stands behind `end` is the beginning of a frame, as a crash in mid-write leaves it."""
        left = self.size - self.end
        if left < FRAME_OVERHEAD:
            return left > 0
        return bool(_unpack_from(self._data, self.end)[0] > left - FRAME_OVERHEAD)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        data, size = self._data, self.size
        self.end = at = 0
        while at + FRAME_OVERHEAD <= size:
            length, checksum = _unpack_from(data, at)
            start = at + FRAME_OVERHEAD
            if not length or start + length > size:
                return
            record = data[start : start + length]
            if crc32(record) != checksum:
                return
            self.end = at = start + length
            yield start, record


def read_frames(data: bytes | mmap.mmap) -> Frames:
    """Return the records of a segment's bytes (read, or mapped into memory)."""
    return Frames(data)
