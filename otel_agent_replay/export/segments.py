"""The journal's segments as a reader sees them: which there are, which are closed, what lies in one.

A segment whose lock can be had has no writer: it was ended in order, or its process died. Knows frames and headers;
what the other records mean is the business of `record_index`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from otel_agent_replay.export.journal import READER_VERSION
from otel_agent_replay.export.segment_file import SUFFIX, journal_folder
from otel_agent_replay.wire.frames import Frames, read_frames
from otel_agent_replay.wire.v1 import journal_pb2 as wire


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment on disk. `writer` and `number` are read from its name; `closed` tells that nobody writes it."""

    path: Path
    writer: str
    number: int
    closed: bool

    @property
    def id(self) -> str:
        """The name that the lake's files know it by."""
        return self.path.stem


def list_segments(lake: Path) -> list[Segment]:
    """Return the segments of a lake, each writer's in order; [] when it has no journal."""
    folder = journal_folder(lake)
    closed = {name: is_closed(folder / name) for name in _names(folder)}
    # A writer opens its next segment before it ends one with a run in it. A segment that came meanwhile counts as open,
    # so that such a writer is not taken for dead.
    return [_segment(folder / name, closed=closed.get(name) is True) for name in _names(folder)]


def visible_segments(lake: Path) -> list[Segment]:
    """Return the segments of a lake without asking who writes them: no lock is touched, each counts as open."""
    folder = journal_folder(lake)
    return [_segment(folder / name, closed=False) for name in _names(folder)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix == SUFFIX and path.name[0] != ".")
    except FileNotFoundError:
        return []


def _segment(path: Path, *, closed: bool) -> Segment:
    writer, _, number = path.stem.rpartition("-")
    return Segment(path, writer, int(number) if number.isdigit() else 0, closed)


def is_closed(path: Path) -> bool | None:
    """Return whether nobody writes the segment; None when it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two readers that look at the same time do not take each other for the writer.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


class SegmentData:
    """The records of one segment. `header` is None when there is none to be read; `readable`: we understand it."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        with segment.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A live writer may cut a half-written tail off, and touching a mapped page behind it would be fatal.
            mapped = segment.closed and size > 0
            self.data: bytes | mmap.mmap = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if mapped else file.read()
            )
        self.frames: Frames = read_frames(self.data)
        self.header = self._read_header()

    @property
    def readable(self) -> bool:
        """Whether this reader understands the segment; a segment without a header has nothing to misunderstand."""
        return self.header is None or self.header.reader_version <= READER_VERSION

    def records(self) -> Iterator[tuple[int, int, wire.Record]]:
        """Yield (offset, length, record) of every whole record. A record that does not parse ends the segment."""
        for offset, raw in self.frames:
            try:
                record = wire.Record.FromString(raw)
            except DecodeError:
                self.frames.end = offset - 8
                return
            yield offset, len(raw), record

    def record_at(self, offset: int, length: int) -> wire.Record:
        """Return one record by its place."""
        return wire.Record.FromString(self.data[offset : offset + length])

    def close(self) -> None:
        """Let go of the file."""
        if isinstance(self.data, mmap.mmap):
            self.data.close()

    def _read_header(self) -> wire.SegmentHeader | None:
        for _, _, record in self.records():
            return record.header if record.WhichOneof("record") == "header" else None
        return None
