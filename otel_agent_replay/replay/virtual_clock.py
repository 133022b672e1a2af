"""Clocks beyond the tape: each goes on from where its recording stopped, as fast as real time or as a given one.

Owns what the clocks said last and how far the run had come since; waits are `virtual_waits`. Values have the form in
which the boundary's clock hooks store them. Time never goes back, and the real date is never told.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from otel_agent_replay.boundary.clock import NUMBERS
from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.errors import CrossingRefused, ReplayInterrupt
from otel_agent_replay.model import THREAD_END, Call, Kind, Read, RecordedRun
from otel_agent_replay.replay.virtual_waits import UP_NS, VirtualWaits

# Bound at import: our own clock reads are never recorded.
_monotonic_ns = time.monotonic_ns
_process_time_ns = time.process_time_ns
_localtime = time.localtime

_WALL = "wall"
_SECONDS = frozenset({"time.localtime", "time.gmtime", "time.ctime", "time.strftime", "time.asctime"})
_CPU = frozenset({"process_time", "thread_time"})
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_QUARTER_S = 900  # offsets of time zones are whole quarters of an hour
_FOLD = " fold=1"


@dataclass(frozen=True, slots=True)
class Start:
    """A moment that no recording led to, in Unix nanoseconds; local time is `ahead_s` seconds ahead of UTC."""

    moment_ns: int
    ahead_s: int = 0

    def bases(self) -> dict[str, int]:
        """Return what each family of clocks shows then."""
        return {_WALL: self.moment_ns, "monotonic": UP_NS, "perf_counter": UP_NS}

    def zone_s(self) -> int:
        """Return the seconds by which local time is ahead of UTC."""
        return self.ahead_s


class VirtualClock:
    """Answers reads of kind clock from where `recorded` stopped, or from a given start.

    `until` is the last sequence number of the recording that still counts (a fork's point); None: all of it.
    `waits` is a time in which nothing but waits takes any; None: real time since `start`, or since the first read.
    Thread-safe.
    """

    def __init__(
        self, recorded: RecordedRun | Start, *, until: int | None = None, waits: VirtualWaits | None = None
    ) -> None:
        past = recorded if isinstance(recorded, Start) else _Past(recorded, until)
        self._bases = past.bases()
        self._zone_s = past.zone_s()
        self._waits = waits
        self._lock = threading.Lock()
        self._began: tuple[int, int] | None = None

    def start(self) -> None:
        """Let real time pass from now on: the run leaves its tape."""
        with self._lock:
            if self._began is None:
                self._began = _monotonic_ns(), _process_time_ns()

    def now_ns(self) -> int:
        """Return the virtual Unix nanoseconds."""
        return self._ns(_WALL)

    def answer(self, call: Call, place: Place) -> Answer | None:  # noqa: ARG002 - where a wait is, is no matter
        """Return the end of a wait that takes virtual time; None for other calls, and where time is real."""
        if self._waits is None or call.kind is not Kind.SLEEP:
            return None
        return self._waits.begun(call)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return what the clock `name` says; None for other kinds and for clocks that are not known."""
        value = self._value(name) if kind is Kind.CLOCK else None
        return None if value is None else Read(kind, name, value, strand, place.next_sequence())

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what neither the clock nor any other source answers."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "virtual")

    def _value(self, name: str) -> int | float | str | None:
        if name == THREAD_END:
            return self._ns(_WALL)
        if name in _SECONDS:
            return self._ns(_WALL) / 1e9
        module, _, function = name.partition(".")
        if module == "time" and function in NUMBERS:
            value = self._ns(_family(name))
            return value if function.endswith("_ns") else value / 1e9
        microseconds = self._ns(_WALL) // 1000
        if name == "datetime.now(tz)":
            return microseconds
        if name == "datetime.utcnow":
            return (_EPOCH + microseconds * _MICROSECOND).isoformat()
        if name in ("datetime.now", "datetime.today", "date.today"):
            local = self._local(microseconds)
            return local.date().isoformat() if name == "date.today" else local.isoformat()
        return None

    def _ns(self, family: str) -> int:
        return self._bases.get(family, 0) + self._passed(family)

    def _passed(self, family: str) -> int:
        if self._waits is not None:
            return self._waits.elapsed_ns
        began = self._began
        if began is None:
            self.start()
            return 0
        return _process_time_ns() - began[1] if family in _CPU else _monotonic_ns() - began[0]

    def _local(self, microseconds: int) -> dt.datetime:
        offset_s = self._zone_s
        if offset_s is None:
            offset_s = _localtime(microseconds // 1_000_000).tm_gmtoff
        return _EPOCH + microseconds * _MICROSECOND + dt.timedelta(seconds=offset_s)


class _Past:
    """What a recording tells of its clocks up to some point."""

    def __init__(self, recorded: RecordedRun, until: int | None) -> None:
        self._run = recorded.run
        known: list[tuple[int, int]] = []
        reads: list[Read] = []
        for item in recorded.spans:
            node = item.node
            if node is None:
                continue
            known.append((node.sequence, item.span.start_ns))
            if node.end_sequence and item.span.end_ns:
                known.append((node.end_sequence, item.span.end_ns))
            reads += [read for read in node.reads if read.kind is Kind.CLOCK]
        self._known = sorted(one for one in known if until is None or one[0] <= until)
        self._reads = sorted(_before(reads, until), key=lambda read: read.sequence)
        latest = 0
        self._moments = []
        for _, moment in self._known:
            latest = max(latest, moment)
            self._moments.append(latest)
        self._sequences = [sequence for sequence, _ in self._known]

    def bases(self) -> dict[str, int]:
        """Return for each family of clocks the nanoseconds that it shows at the end of this past."""
        end = self._moments[-1] if self._moments else self._run.started_ns
        bases = {_WALL: end}
        for read in self._reads:
            shown = _shown_ns(read)
            if shown is not None:
                # The run went on after this read; how long, its spans tell.
                at_end = shown + max(0, end - self._moment(read.sequence))
                family = _family(read.name)
                bases[family] = max(bases.get(family, 0), at_end)
        return bases

    def zone_s(self) -> int | None:
        """Return the seconds by which the recorded local time was ahead of UTC, None when no read tells."""
        for read in reversed(self._reads):
            if read.name in ("datetime.now", "datetime.today") and isinstance(read.value, str):
                local = dt.datetime.fromisoformat(read.value.removesuffix(_FOLD))
                ahead_s = (local - _EPOCH).total_seconds() - self._moment(read.sequence) / 1e9
                return round(ahead_s / _QUARTER_S) * _QUARTER_S
        return None

    def _moment(self, sequence: int) -> int:
        """Return the latest Unix nanoseconds known to lie before that point of the run."""
        place = bisect_right(self._sequences, sequence)
        return self._moments[place - 1] if place else self._run.started_ns


def _before(reads: Iterable[Read], until: int | None) -> list[Read]:
    return [read for read in reads if until is None or read.sequence <= until]


def _family(name: str) -> str:
    """Return what clocks that show the same time have in common."""
    function = name.removeprefix("time.").removesuffix("_ns")
    return function if function in ("monotonic", "perf_counter", *_CPU) else _WALL


def _shown_ns(read: Read) -> int | None:
    """Return the nanoseconds that a recorded read showed; None for local times, whose zone it does not tell."""
    name, value = read.name, read.value
    if name == "datetime.utcnow" and isinstance(value, str):
        return (dt.datetime.fromisoformat(value.removesuffix(_FOLD)) - _EPOCH) // _MICROSECOND * 1000
    if not isinstance(value, (int, float)):
        return None
    if name == "datetime.now(tz)":
        return int(value) * 1000
    if name.endswith("_ns") or name == THREAD_END:
        return int(value)
    return int(value * 1e9)
