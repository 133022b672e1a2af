"""A segment of accepted requests: how it lies on disk, and how it is read back.

A segment is a run of frames. A frame is a header of 64 bytes (little endian) and the request's bytes:

    4  magic "OTRQ"             4  CRC-32 of the header without this field, then of the request's bytes
    4  length of the request    1  what it is (1: ExportTraceServiceRequest, 2: ExportLogsServiceRequest)
    3  zeros                    8  when it was received, Unix nanoseconds
    8  the segment's number     4  spans or log records in it
    28 zeros

Frames that are committed together lie one after the other, each at a multiple of 64; what follows the last of them is
zeros up to a multiple of 4,096, where the next ones begin. The segment's number is drawn at random, so that what an
earlier file left on the disk is not taken for a frame. Its file is called `<writer>-<n>.open` and locked (`flock`)
while it is written, `<writer>-<n>.requests` afterwards.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from otel_agent_replay_collector.fast_zlib import crc32

FOLDER = "received"
OPEN, CLOSED, DAMAGED = ".open", ".requests", ".damaged"
TRACES, LOGS = 1, 2
STATUS_FILE = "sealer-status.json"
"""What the sealer says of itself, beside the segments."""

PAGE = 4096
HEADER = 64
_STRUCT = struct.Struct("<4sIIB3xQQI28x")
_CRC_AT = 8  # the checked part of the header begins behind magic and CRC
_MAGIC = b"OTRQ"


def rounded(size: int, to: int) -> int:
    """Return `size` rounded up to a multiple of `to`, a power of two."""
    return (size + to - 1) & -to


def write_header(into: memoryview, *, kind: int, length: int, time_ns: int, segment: int, items: int) -> None:
    """Write the header of the frame that begins at `into`, whose request stands behind it already."""
    _STRUCT.pack_into(into, 0, _MAGIC, 0, length, kind, time_ns, segment, items)
    checked = crc32(into[HEADER : HEADER + length], crc32(into[_CRC_AT:HEADER], 0))
    into[4:8] = checked.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request lies in its segment, what it is and when it came. `start` and `length` are of its bytes."""

    start: int
    length: int
    kind: int
    time_ns: int
    items: int


@dataclass(slots=True)
class SegmentScan:
    """What a pass over a segment found.

    `torn` are bytes of a write that a crash cut: nothing of it was acknowledged. `damaged` are bytes that stand before
    whole frames and are none: the disk's fault, and acknowledged requests may have been there.
    """

    places: list[Place] = field(default_factory=list)
    torn: int = 0
    damaged: int = 0


class RequestSegment:
    """One segment, mapped for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._data: bytes | mmap.mmap = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self.size = size

    @property
    def id(self) -> str:
        """The name that the lake's files know it by."""
        return self.path.stem

    def scan(self) -> SegmentScan:
        """Read every frame and check it."""
        found = SegmentScan()
        segment: int | None = None
        at = bad_since = 0
        in_doubt = False
        for place, end, number in self._frames():
            if place is None:
                if not in_doubt:
                    in_doubt, bad_since = True, end
                continue
            if segment is None:
                segment = number
            elif number != segment:
                continue
            if in_doubt:
                found.damaged += place.start - HEADER - bad_since
                in_doubt = False
            found.places.append(place)
            at = end
        if in_doubt:
            found.torn = self.size - max(at, bad_since)
        return found

    def _frames(self) -> Iterator[tuple[Place | None, int, int]]:
        """Yield (place, end of the frame, segment's number), and (None, offset, 0) where a frame ought to be."""
        at = 0
        while at + HEADER <= self.size:
            magic, checksum, length, kind, time_ns, number, items = _STRUCT.unpack_from(self._data, at)
            if magic == b"\0\0\0\0" and not any(self._data[at : min(rounded(at + 1, PAGE), self.size)]):
                at = rounded(at + 1, PAGE)  # what fills a page up, or a page that never reached the disk
                continue
            start = at + HEADER
            if magic == _MAGIC and length <= self.size - start and self._is_whole(at, length, checksum):
                at = rounded(start + length, HEADER)
                yield Place(start, length, kind, time_ns, items), at, number
            else:
                yield None, at, 0
                at = rounded(at + 1, PAGE)
        if any(self._data[at:]):
            yield None, at, 0

    def _is_whole(self, at: int, length: int, checksum: int) -> bool:
        with memoryview(self._data) as data:
            checked = crc32(data[at + _CRC_AT : at + HEADER], 0)
            return crc32(data[at + HEADER : at + HEADER + length], checked) == checksum

    def request(self, place: Place) -> bytes:
        """Return the bytes of one request."""
        return self._data[place.start : place.start + place.length]

    def piece(self, start: int, length: int) -> bytes:
        """Return a part of a request by its place in the segment."""
        return self._data[start : start + length]

    def close(self) -> None:
        """Let go of the file."""
        if isinstance(self._data, mmap.mmap):
            self._data.close()


def requests_folder(lake: Path) -> Path:
    """Return the folder of a lake's accepted requests."""
    return lake / FOLDER


def closed_segments(lake: Path) -> list[Path]:
    """Return the segments that nobody writes any more, oldest first; one that a dead writer left is closed."""
    folder = requests_folder(lake)
    if not folder.is_dir():
        return []
    for path in folder.glob("*" + OPEN):
        _close_if_left(path)
    return sorted(folder.glob("*" + CLOSED), key=lambda path: (path.stat().st_mtime_ns, path.name))


def waiting_bytes(lake: Path) -> int:
    """Return the bytes of all segments that are there: what was accepted and is not sealed."""
    total = 0
    try:
        with os.scandir(requests_folder(lake)) as entries:
            for entry in entries:
                if entry.name.endswith((OPEN, CLOSED)):
                    try:
                        total += entry.stat().st_size
                    except FileNotFoundError:  # sealed meanwhile
                        continue
    except FileNotFoundError:
        return 0
    return total


def _close_if_left(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        path.rename(path.with_suffix(CLOSED))
    finally:
        os.close(fd)
