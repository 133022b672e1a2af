"""Where each run's records lie in a set of segments: one pass over them, places kept, contents not.

Memory grows with the number of records (16 bytes each), never with the bodies.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otel_agent_replay.export.journal_bodies import JournalBodies
from otel_agent_replay.export.segments import SegmentData
from otel_agent_replay.model import Loss, LossReason
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_OFFSET_BITS = 40


class Places:
    """Places of records: (number of the segment, offset, length)."""

    __slots__ = ("_lengths", "_places")

    def __init__(self) -> None:
        self._places = array("Q")
        self._lengths = array("L")

    def __len__(self) -> int:
        return len(self._places)

    def add(self, segment: int, offset: int, length: int) -> None:
        """Append a place."""
        self._places.append(segment << _OFFSET_BITS | offset)
        self._lengths.append(length)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        mask = (1 << _OFFSET_BITS) - 1
        for place, length in zip(self._places, self._lengths, strict=True):
            yield place >> _OFFSET_BITS, place & mask, length


class RunIndex:
    """Where one run's records lie. `home` is the number of the segment that it began in; None: it began elsewhere."""

    __slots__ = ("ended", "home", "places", "segments")

    def __init__(self) -> None:
        self.home: int | None = None
        self.ended = False
        self.places = Places()
        self.segments: set[int] = set()


class Torn(NamedTuple):
    """A segment that ends in bytes which are no whole record; `cut`: they begin one, as a crash leaves it."""

    segment: str
    offset: int
    lost_bytes: int
    cut: bool


class RecordIndex:
    """The records of `segments`, by run. Runs come in the order they began in."""

    def __init__(self, segments: Sequence[SegmentData]) -> None:
        self.segments = segments
        self.runs: dict[bytes, RunIndex] = {}
        self.bodies = JournalBodies(segments)
        self.without_run: dict[int, Places] = {}  # foreign spans that name no run, by segment
        self.losses: dict[int, list[Loss]] = {}  # losses that name no run, by segment
        self.torn: dict[int, Torn] = {}
        self.records = 0
        for number, segment in enumerate(segments):
            self._scan(number, segment)

    def record_at(self, place: tuple[int, int, int]) -> wire.Record:
        """Return the record of a place."""
        number, offset, length = place
        return self.segments[number].record_at(offset, length)

    def _scan(self, number: int, segment: SegmentData) -> None:
        for offset, length, record in segment.records():
            self.records += 1
            which = record.WhichOneof("record")
            if which == "body":
                self.bodies.add(record.body, number, offset, length)
            elif which in ("header", "clean_end", None):
                continue
            else:
                if which in {"node_begun", "node_ended"}:
                    self.bodies.add_small(getattr(record, which), number, offset, length)
                self._place(number, offset, length, which, record)
        frames = segment.frames
        # The writer of an open segment may be in the middle of a write: its tail is not torn, it is not there yet.
        if frames.torn and segment.segment.closed:
            self.torn[number] = Torn(segment.segment.id, frames.end, frames.size - frames.end, frames.cut)

    def _place(self, number: int, offset: int, length: int, which: str, record: wire.Record) -> None:
        run_id: bytes = getattr(record, which).run_id
        if not run_id:
            if which == "loss":
                self.losses.setdefault(number, []).append(convert.loss_from_wire(record.loss))
            elif which == "foreign":
                self.without_run.setdefault(number, Places()).add(number, offset, length)
            else:
                loss = Loss(LossReason.INTERNAL, which, 1, "a record that names no run")
                self.losses.setdefault(number, []).append(loss)
            return
        run = self.runs.get(run_id)
        if run is None:
            run = self.runs[run_id] = RunIndex()
        run.places.add(number, offset, length)
        run.segments.add(number)
        if which == "run_begun":
            run.home = number
        elif which == "run_ended":
            run.ended = True
