"""Clocks of a run that left its tape: what was recorded at the same place, else on from there.

Owns what the clocks said last and how far the run has come since, as fast as real time or as a given one; waits are
`virtual_waits`, what a recording tells is `recorded_clocks`. Values have the form in which the boundary's clock hooks
store them. No clock goes back for the code that reads it, and the real date is never told.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from otel_agent_replay.boundary.clock import NUMBERS
from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.errors import CrossingRefused, ReplayInterrupt
from otel_agent_replay.model import THREAD_END, Call, Kind, Read, RecordedRun
from otel_agent_replay.replay.recorded_clocks import CPU, EPOCH, LOCAL, MICROSECOND, WALL, RecordedClocks, family_of
from otel_agent_replay.replay.recorded_clocks import shown_ns as shown_ns_of
from otel_agent_replay.replay.virtual_waits import UP_NS, VirtualWaits

# Bound at import: our own clock reads are never recorded.
_monotonic_ns = time.monotonic_ns
_process_time_ns = time.process_time_ns
_localtime = time.localtime

_SECONDS = frozenset({"time.localtime", "time.gmtime", "time.ctime", "time.strftime", "time.asctime"})
_WITHOUT_DATE = ("monotonic", "perf_counter")
_ROUNDED_NS = 1_000  # a datetime tells less than the number that was read just before it
_SLEWED = 0.999  # a wall clock that is being set runs a little slower than the one that waits go by


@dataclass(frozen=True, slots=True)
class Start:
    """A moment that no recording led to, in Unix nanoseconds; local time is `ahead_s` seconds ahead of UTC."""

    moment_ns: int
    ahead_s: int = 0

    def bases(self) -> dict[str, int]:
        """Return what each family of clocks shows then."""
        return {WALL: self.moment_ns, **dict.fromkeys(_WITHOUT_DATE, UP_NS)}

    def zone_s(self) -> int:
        """Return the seconds by which local time is ahead of UTC."""
        return self.ahead_s


class _Now:
    """The virtual present, in Unix nanoseconds, of all runs that share it. Used under its `lock`.

    `known_ns` is the latest moment that a recording gave, from which it goes on. `shown_ns` is the latest that a clock
    showed by going on by itself: nothing recorded from before that may be shown any more.
    """

    def __init__(self, moment_ns: int, waits: VirtualWaits | None) -> None:
        self.lock = threading.RLock()
        self.known_ns = moment_ns
        self.shown_ns = 0
        self._waits = waits
        self._since: int | None = None

    def start(self) -> None:
        if self._since is None:
            self._since = _monotonic_ns()

    def ns(self) -> int:
        if self._waits is not None:
            return self.known_ns + self._waits.elapsed_ns
        self.start()
        return max(self.known_ns + _monotonic_ns() - (self._since or 0), self.shown_ns)

    def show(self) -> int:
        self.shown_ns = self.ns()
        return self.shown_ns

    def given(self, moment_ns: int) -> None:
        """A recording told that it is this moment: time goes on from here, if it had not come so far."""
        if moment_ns > self.known_ns:
            self.known_ns, self._since = moment_ns, _monotonic_ns()

    def asleep(self, seconds: float) -> Callable[[], None]:
        """A wait begins that takes so long for the code that makes it; the result is called when it is over."""
        with self.lock:
            ends_ns = self.ns() + int(seconds * 1e9)
            at_least_ns = max(self.known_ns, self.shown_ns) + int(seconds * _SLEWED * 1e9)

        def over() -> None:
            with self.lock:
                if self.ns() < ends_ns:
                    self.known_ns, self._since = ends_ns, _monotonic_ns()
                self.shown_ns = max(self.shown_ns, at_least_ns)

        return over


class VirtualClock:
    """Answers reads of kind clock from where `recorded` stopped, or from a given start.

    `until` is the last sequence number of the recording that is past (a fork's point); None: all of it.
    `waits` is a time in which nothing but waits takes any; None: real time since `start`, or since the first read.
    A clock `beside` is that of the run whose code began this one: both show the same time. Thread-safe.
    """

    def __init__(
        self,
        recorded: RecordedRun | Start,
        *,
        until: int | None = None,
        waits: VirtualWaits | None = None,
        beside: VirtualClock | None = None,
    ) -> None:
        past = recorded if isinstance(recorded, Start) else RecordedClocks(recorded, until)
        self._past = None if isinstance(past, Start) else past
        bases = past.bases()
        zone_s = past.zone_s()
        ahead = {family: bases[family] - bases[WALL] for family in _WITHOUT_DATE if family in bases}
        if beside is None:
            ahead = {**dict.fromkeys(_WITHOUT_DATE, UP_NS - bases[WALL]), **ahead}
            self._now = _Now(bases[WALL], waits)
            self._zone_s = zone_s
        else:
            ahead = {**beside._ahead, **ahead}
            self._now = beside._now
            self._zone_s = beside._zone_s if zone_s is None else zone_s
            with self._now.lock:
                self._now.given(bases[WALL])
        self._ahead: dict[str, int] = {**ahead, WALL: 0}  # of the wall clock, by family
        self._waits = waits
        self._cpu = {family: (bases.get(family, 0), 0) for family in CPU}  # what it showed at which time of the process
        self._cpu_shown: dict[str, int] = {}
        self._cpu_begun = False
        self._given: dict[tuple[str, str], int] = {}  # by strand and family: the latest that the tape gave

    def start(self) -> None:
        """Let real time pass from now on: the run leaves its tape."""
        with self._now.lock:
            self._now.start()
            self._begin_cpu()

    def now_ns(self) -> int:
        """Return the virtual Unix nanoseconds."""
        with self._now.lock:
            return self._now.show()

    def asleep(self, seconds: float) -> Callable[[], None]:
        """Tell that a wait begins; call what is returned when it is over: that much time has passed, however short."""
        return self._now.asleep(seconds)

    def answer(self, call: Call, place: Place) -> Answer | None:  # noqa: ARG002 - where a wait is, is no matter
        """Return the end of a wait that takes virtual time; None for other calls, and where time is real."""
        if self._waits is None or call.kind is not Kind.SLEEP:
            return None
        return self._waits.begun(call)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return what the clock `name` says; None for other kinds and for clocks that are not known."""
        if kind is not Kind.CLOCK:
            return None
        with self._now.lock:
            value = self._value(name)
        return None if value is None else Read(kind, name, value, strand, place.next_sequence())

    def takes_up(self, recorded: Read) -> bool:
        """Go on from what a clock showed in the recording, where it can show that again; return whether it can.

        It can where its own thread of control was shown nothing later, and nobody was by a clock off the tape.
        """
        with self._now.lock:
            return self._takes_up(recorded)

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what neither the clock nor any other source answers."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "virtual")

    # --- from the tape ---

    def _takes_up(self, read: Read) -> bool:
        family, shown_ns = family_of(read.name), shown_ns_of(read)
        key = read.strand, family
        if family in CPU:
            return self._takes_up_cpu(key, shown_ns)
        if read.name == "date.today":
            day = self._local(max(self._now.shown_ns, self._given.get(key, 0)) // 1000).date()
            if self._past is None or str(read.value) < day.isoformat():
                return False
            self._now.given(self._past.wall_ns(read))
            return True
        if shown_ns is None:
            if read.name not in LOCAL or self._past is None:
                return False
            shown_ns = self._past.wall_ns(read)
        moment_ns = shown_ns - self._ahead[family]
        if moment_ns < self._now.shown_ns or shown_ns + _ROUNDED_NS < self._given.get(key, 0):
            return False
        self._given[key] = max(shown_ns, self._given.get(key, 0))
        self._now.given(moment_ns)
        return True

    def _takes_up_cpu(self, key: tuple[str, str], shown_ns: int | None) -> bool:
        family = key[1]
        if shown_ns is None or shown_ns < max(self._cpu_shown.get(family, 0), self._given.get(key, 0)):
            return False
        self._given[key] = shown_ns
        if shown_ns > self._cpu[family][0]:
            self._cpu_begun = True
            self._cpu[family] = shown_ns, _process_time_ns()
        return True

    # --- on from there ---

    def _value(self, name: str) -> int | float | str | None:
        if name == THREAD_END:
            # A mark of ours, beside the times of spans: real where those are.
            return None if self._waits is None else self._now.ns()
        if name in _SECONDS:
            return self._now.show() / 1e9
        module, _, function = name.partition(".")
        if module == "time" and function in NUMBERS:
            family = family_of(name)
            value = self._cpu_ns(family) if family in CPU else self._now.show() + self._ahead[family]
            return value if function.endswith("_ns") else value / 1e9
        if name == "datetime.now(tz)":
            return self._now.show() // 1000
        if name == "datetime.utcnow":
            return (EPOCH + self._now.show() // 1000 * MICROSECOND).isoformat()
        if name == "date.today":
            return self._local(self._now.show() // 1000).date().isoformat()
        return self._local(self._now.show() // 1000).isoformat() if name in LOCAL else None

    def _begin_cpu(self) -> None:
        if not self._cpu_begun:
            self._cpu_begun = True
            now_ns = _process_time_ns()
            self._cpu = {family: (shown, now_ns) for family, (shown, _) in self._cpu.items()}

    def _cpu_ns(self, family: str) -> int:
        if self._waits is not None:
            return self._cpu[family][0] + self._waits.elapsed_ns
        self._begin_cpu()
        shown, at_ns = self._cpu[family]
        value = max(shown + _process_time_ns() - at_ns, self._cpu_shown.get(family, 0))
        self._cpu_shown[family] = value
        return value

    def _local(self, microseconds: int) -> dt.datetime:
        offset_s = self._zone_s
        if offset_s is None:
            offset_s = _localtime(microseconds // 1_000_000).tm_gmtoff
        return EPOCH + microseconds * MICROSECOND + dt.timedelta(seconds=offset_s)
