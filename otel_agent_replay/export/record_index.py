"""Where each attempt's records lie in a set of segments: one pass over them, places kept, contents not.

A record names its run only. It belongs to the attempt that its writer began last; that of a writer which began none (a
forked child, say) to the attempt that had begun by then. Memory grows with the number of records (16 bytes each), never
with the bodies.
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

    def sort(self) -> None:
        """Put the places in the order of segments and offsets."""
        found = sorted(self)
        self._places, self._lengths = array("Q"), array("L")
        for place in found:
            self.add(*place)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        mask = (1 << _OFFSET_BITS) - 1
        for place, length in zip(self._places, self._lengths, strict=True):
            yield place >> _OFFSET_BITS, place & mask, length


class RunKey(NamedTuple):
    """One attempt at a run, by its root span; `span_id` is empty for records whose attempt began elsewhere."""

    run_id: bytes
    span_id: bytes = b""

    @property
    def text(self) -> str:
        """The key as JSON can hold it."""
        return f"{self.run_id.hex()}.{self.span_id.hex()}"

    @classmethod
    def from_text(cls, text: str) -> RunKey:
        """Return the key that `text` says. Raises ValueError."""
        run_id, _, span_id = text.partition(".")
        return cls(bytes.fromhex(run_id), bytes.fromhex(span_id))


class RunIndex:
    """Where one attempt's records lie. `home` is the number of the segment it began in; None: it began elsewhere.

    `attempt` is its number as it was begun, `begun_ns` when that was.
    """

    __slots__ = ("attempt", "begun_ns", "ended", "home", "places", "segments")

    def __init__(self) -> None:
        self.home: int | None = None
        self.attempt = 1
        self.begun_ns = 0
        self.ended = False
        self.places = Places()
        self.segments: set[int] = set()

    def add(self, place: tuple[int, int, int]) -> None:
        """Note a record."""
        self.places.add(*place)
        self.segments.add(place[0])


class _Stray(NamedTuple):
    """A record whose writer began no attempt at its run, and when it was written, as far as that is known."""

    place: tuple[int, int, int]
    time_ns: int
    ends: bool


class Torn(NamedTuple):
    """A segment that ends in bytes which are no whole record; `cut`: they begin one, as a crash leaves it."""

    segment: str
    offset: int
    lost_bytes: int
    cut: bool


class RecordIndex:
    """The records of `segments`, by attempt, in the order in which they are met."""

    def __init__(self, segments: Sequence[SegmentData]) -> None:
        self.segments = segments
        self.runs: dict[RunKey, RunIndex] = {}
        self.bodies = JournalBodies(segments)
        self.without_run: dict[int, Places] = {}  # foreign spans that name no run, by segment
        self.losses: dict[int, list[Loss]] = {}  # losses that name no run, by segment
        self.torn: dict[int, Torn] = {}
        self.records = 0
        self._current: dict[tuple[str, bytes], RunIndex] = {}  # by writer and run: the attempt that it began last
        self._strays: dict[bytes, list[_Stray]] = {}
        for number, segment in enumerate(segments):
            self._scan(number, segment)
        for run_id, strays in self._strays.items():
            self._settle(run_id, strays)

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
        place = (number, offset, length)
        writer = self.segments[number].segment.writer
        if which == "run_begun":
            self._begin(writer, place, record.run_begun)
            return
        run = self._current.get((writer, run_id))
        if run is None:
            strays = self._strays.setdefault(run_id, [])
            strays.append(_Stray(place, self._time_of(place, which, record, strays), which == "run_ended"))
            return
        run.add(place)
        run.ended |= which == "run_ended"

    def _begin(self, writer: str, place: tuple[int, int, int], begun: wire.RunBegun) -> None:
        key = RunKey(begun.run_id, begun.span_id)
        run = self.runs.setdefault(key, RunIndex())
        if run.home is None:
            run.home, run.attempt, run.begun_ns = place[0], begun.attempt or 1, begun.time_ns
        run.add(place)
        self._current[writer, begun.run_id] = run

    def _time_of(self, place: tuple[int, int, int], which: str, record: wire.Record, before: list[_Stray]) -> int:
        time_ns: int = getattr(getattr(record, which), "time_ns", 0)
        if time_ns:
            return time_ns
        if before and before[-1].place[0] == place[0]:
            return before[-1].time_ns
        header = self.segments[place[0]].header
        return 0 if header is None else header.time_ns

    def _settle(self, run_id: bytes, strays: list[_Stray]) -> None:
        """Give each stray record to the attempt that had begun when it was written; to none, if that is not here."""
        attempts = sorted((run.begun_ns, key) for key, run in self.runs.items() if key.run_id == run_id)
        grown: set[RunKey] = set()
        for stray in strays:
            begun = [key for begun_ns, key in attempts if begun_ns <= stray.time_ns]
            first = [key for _, key in attempts if self.runs[key].attempt == 1]
            key = begun[-1] if begun else first[0] if first else RunKey(run_id)
            run = self.runs.setdefault(key, RunIndex())
            run.add(stray.place)
            run.ended |= stray.ends
            grown.add(key)
        for key in grown:
            self.runs[key].places.sort()
