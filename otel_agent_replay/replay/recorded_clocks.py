"""What a recording tells of its clocks: what each showed, and how far the run had come then.

Pure. Times are nanoseconds; values have the form in which the boundary's clock hooks store them.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable

from otel_agent_replay.model import Read, RecordedRun

WALL = "wall"
CPU = frozenset({"process_time", "thread_time"})
LOCAL = frozenset({"datetime.now", "datetime.today"})
"""Names of reads that show a local time and no zone."""

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
_QUARTER_S = 900  # offsets of time zones are whole quarters of an hour
_FOLD = " fold=1"


class RecordedClocks:
    """The clocks of `recorded` at its end, or where `until` (the last sequence number that counts) was made.

    How far the run had come is told by its spans. Those that a fork shares with its origin are of another day, so only
    the time within one run counts.
    """

    def __init__(self, recorded: RecordedRun, until: int | None) -> None:
        self._run = recorded.run
        known: list[tuple[int, int, bytes]] = []
        reads: list[Read] = []
        for item in recorded.spans:
            node = item.node
            if node is None:
                continue
            known.append((node.sequence, item.span.start_ns, node.run_id))
            if node.end_sequence and item.span.end_ns:
                known.append((node.end_sequence, item.span.end_ns, node.run_id))
            reads += [read for read in node.reads if read.shows_time]
        self._sequences: list[int] = []
        self._came: list[int] = []  # nanoseconds of the run up to there
        self._end_ns = self._come_along(known, until)
        self._at_end = self._came[-1] if until is None and self._came else self._came_by(until or 0)
        self._reads = sorted(reads, key=lambda read: read.sequence)
        self._until = until
        self._shown = self._bases()

    def _come_along(self, known: Iterable[tuple[int, int, bytes]], until: int | None) -> int:
        """Go through the spans; return the latest Unix nanoseconds that they tell up to `until`."""
        came, latest, of, end = 0, 0, b"", self._run.started_ns
        for sequence, moment, run_id in sorted(known):
            if run_id != of:
                latest, of = moment, run_id
            came += max(0, moment - latest)
            latest = max(latest, moment)
            self._sequences.append(sequence)
            self._came.append(came)
            if until is None or sequence <= until:
                end = latest
        return end

    def _came_by(self, sequence: int) -> int:
        """Return how far the run is known to have come at that point."""
        place = bisect_right(self._sequences, sequence)
        return self._came[place - 1] if place else 0

    def _bases(self) -> dict[str, int]:
        latest: dict[str, int] = {}
        before: dict[str, int] = {}
        after: dict[str, int] = {}  # of use for clocks that were not read before
        for read in self._reads:
            shown = shown_ns(read)
            if shown is None:
                continue
            family = family_of(read.name)
            # The run went on after this read, at most as long as its spans tell: they may end before it was made.
            at_end = shown + self._at_end - self._came_by(read.sequence)
            is_past = self._until is None or read.sequence <= self._until
            told = before if is_past else after
            told[family] = min(told.get(family, at_end), max(at_end, 0))
            if is_past:
                latest[family] = max(latest.get(family, 0), shown)
        return {WALL: self._end_ns, **after, **{family: max(before[family], latest[family]) for family in before}}

    def bases(self) -> dict[str, int]:
        """Return for each family of clocks the nanoseconds that it shows at the end of this past."""
        return dict(self._shown)

    def zone_s(self) -> int | None:
        """Return the seconds by which the recorded local time was ahead of UTC, None when no read tells."""
        told = [read for read in self._reads if read.name in LOCAL and isinstance(read.value, str)]
        past = [read for read in told if self._until is None or read.sequence <= self._until]
        return self._ahead_s((past or told)[-1]) if told else None

    def wall_ns(self, read: Read) -> int:
        """Return the Unix nanoseconds that a read of local time or day showed; of a day, no more than is known."""
        if read.name in LOCAL and isinstance(read.value, str):
            return _since_epoch_ns(read.value) - self._ahead_s(read) * 10**9
        return self._wall_by_spans(read)

    def _ahead_s(self, read: Read) -> int:
        ahead_s = (_since_epoch_ns(str(read.value)) - self._wall_by_spans(read)) / 1e9
        return round(ahead_s / _QUARTER_S) * _QUARTER_S

    def _wall_by_spans(self, read: Read) -> int:
        return self._shown[WALL] + self._came_by(read.sequence) - self._at_end


def family_of(name: str) -> str:
    """Return what clocks that show the same time have in common."""
    function = name.removeprefix("time.").removesuffix("_ns")
    return function if function in ("monotonic", "perf_counter", *CPU) else WALL


def shown_ns(read: Read) -> int | None:
    """Return the nanoseconds that a recorded read showed; None for local times, whose zone it does not tell."""
    name, value = read.name, read.value
    if name == "datetime.utcnow" and isinstance(value, str):
        return _since_epoch_ns(value)
    if not isinstance(value, (int, float)):
        return None
    if name == "datetime.now(tz)":
        return int(value) * 1000
    return int(value) if name.endswith("_ns") else int(value * 1e9)


def _since_epoch_ns(text: str) -> int:
    return (dt.datetime.fromisoformat(text.removesuffix(_FOLD)) - EPOCH) // MICROSECOND * 1000
