"""Virtual time: only waits take any, and a wait of thirty minutes is over at once.

Sleeps, answers that take their time, timers of the event loop and events that are to come lie on one line of time.
What is due next happens when everything else has come to rest: no task of the loop is ready, no thread moves. Waits
side by side overlap, and end in the order of their moments, equal ones in the order in which they began. The event loop
is never stopped and never sees its own clock stand. A thread that waits for something real (a lock that nobody frees
soon, a file) is taken to be at rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from otel_agent_replay.boundary.crossing import WholeAnswer
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Call, Outcome, OutcomeStatus
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay.quiet import quiet_threads, threads_are_alone

# Bound at import: our own clock reads and waits are not the application's.
_monotonic = time.monotonic
_wait = threading.Condition.wait
_running_loop = asyncio._get_running_loop
_ident = threading.get_ident
UP_NS = 10_000 * 10**9
"""What clocks without a date show at the start, in nanoseconds: none shows 0, which code may take for "never"."""

_OVER_NS = 1_000
_IDLE_TURNS = 2  # of a loop with nothing ready in a row: the second has asked its sockets
_BLIND_TURNS = 25  # of a loop that does not show what is ready
_PATIENCE_S = 3.0  # real seconds without a turn after which a loop is taken to be stopped by its own thread
_LOOK_S = 0.001
_PAUSE_S = 0.05  # long enough for others to see that this thread rests
_LONG_PAUSE_S = 0.5  # of who is told of each change: a thread that wakes up often looks busy on a busy machine
_MOST_LOOKS = 20  # quarters of a second that threads may take to come to rest
_DONE = Outcome(OutcomeStatus.OK)
_NOBODYS = Context()  # what turns our own callbacks run in: no run's


class _Due:
    """Something that is due at a moment: a wait of a thread or task, a timer, an event."""

    __slots__ = ("dropped", "fire", "handle", "loop", "order", "thread", "wakes_ns")

    def __init__(self, wakes_ns: int, order: int, fire: Callable[[], None]) -> None:
        self.wakes_ns = wakes_ns
        self.order = order
        self.fire = fire
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = 0
        self.handle: asyncio.TimerHandle | None = None
        self.dropped = False

    @property
    def is_event(self) -> bool:
        """Whether nobody in particular waits for it."""
        return self.loop is None and not self.thread


def _nothing() -> None:
    """A thread that waits sees by itself that it may go on."""


class VirtualWaits:
    """The time that has passed, and what is still to come. Thread-safe; implements `boundary.virtual_time.VirtualTime`.

    One per run or per group of runs that share a time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._elapsed_ns = 0
        self._order = itertools.count()
        self._pending: list[_Due] = []
        self._stopped: list[asyncio.AbstractEventLoop | None] = []  # loops whose own threads wait here
        self._beats: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()  # their last turns
        self._turning: WeakKeyDictionary[asyncio.AbstractEventLoop, bool] = WeakKeyDictionary()

    @property
    def elapsed_ns(self) -> int:
        """How many nanoseconds have passed."""
        return self._elapsed_ns

    # --- waits ---

    def begun(self, call: Call) -> Wait:
        """Return the answer to a wait (a call of kind sleep) that begins now."""
        data = call.request.data
        value: Any = None if data is None else decode(data)
        seconds = value.get("seconds") if isinstance(value, dict) else None
        if not isinstance(seconds, (int, float)):
            raise DamagedRecording(f"a wait says how many seconds it takes, not {value!r}")
        return Wait(self, self._elapsed_ns + int(seconds * 1e9))

    def pass_s(self, seconds: float) -> None:
        """Let that many seconds pass, in a plain thread: at once, or when what is due before has happened."""
        self.until(self._elapsed_ns + int(seconds * 1e9))

    def until(self, moment_ns: int) -> None:
        """Let time pass in the running thread until `moment_ns` have passed."""
        with self._standing():
            due = self._add(_Due(moment_ns, next(self._order), _nothing), thread=_ident())
            try:
                while not self._is_next(due):
                    with self._changed:
                        first = self._first()  # again, with the lock: what changes from here on is told
                        if first is not due and not (first is not None and first.is_event):
                            _wait(self._changed, _LONG_PAUSE_S)
            finally:
                self._pass_to(moment_ns)
                self._drop(due)

    def wait_for(self, happened: Callable[[float], bool], seconds: float) -> bool:
        """Wait in the running thread until `happened(real_seconds)` says so, or until that much time has passed.

        The thread looks in between whether its moment has come: it holds nothing that others could wait for.
        """
        with self._standing():
            due = self._add(
                _Due(self._elapsed_ns + int(seconds * 1e9), next(self._order), _nothing),
                thread=_ident(),
            )
            try:
                while not happened(_LOOK_S if self._first() is due else _PAUSE_S):
                    if self._is_next(due) and not happened(_LOOK_S):
                        # A little over, as real waits are: some callers ask again until nothing is left of it.
                        self._pass_to(due.wakes_ns + _OVER_NS)
                        return False
                return True
            finally:
                self._drop(due)

    async def until_async(self, moment_ns: int) -> None:
        """The same for a task: others run on, and what they do comes first."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()

        def fire() -> None:
            if not reached.done():
                reached.set_result(None)

        due = self._add(_Due(moment_ns, next(self._order), fire), loop=loop)
        try:
            await reached
        finally:
            self._drop(due)

    # --- what the event loop asks ---

    def monotonic(self) -> float:
        """Return what the clock of every loop shows: the same as the application's `time.monotonic`."""
        return (UP_NS + self._elapsed_ns) / 1e9

    def timer(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` in `loop` once its clock shows `when`."""
        handle = asyncio.TimerHandle(when, callback, args, loop, context)

        def run() -> None:
            if not handle.cancelled():
                handle._run()

        # To the microsecond: the clock is a float, and equal moments are to be equal.
        microseconds = round((when - self.monotonic()) * 1e6)
        moment_ns = self._elapsed_ns + max(0, microseconds) * 1000
        due = _Due(moment_ns, next(self._order), lambda: _soon(loop, run))
        due.handle = handle
        self._add(due, loop=loop)
        return handle

    # --- events that nobody waits for ---

    def call_after(self, nanoseconds: int, event: Callable[[], None]) -> None:
        """Call `event` that much later, in whatever thread lets the time pass."""
        self._add(_Due(self._elapsed_ns + nanoseconds, next(self._order), event))

    def run_out(self, most: int) -> bool:
        """Let the time pass in which events are still to come; waits and timers that are left are given up.

        Returns False when there are more than `most`: events that lead to further ones may never end.
        """
        for _ in range(most + 1):
            with self._changed:
                events = [due for due in self._pending if due.is_event and not due.dropped]
            if not events:
                return True
            self._release(min(events, key=_moment))
        return False

    # --- inside ---

    def _add(
        self,
        due: _Due,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        thread: int = 0,
    ) -> _Due:
        due.loop, due.thread = loop, thread
        with self._changed:
            self._pending.append(due)
            self._changed.notify_all()
        if loop is not None and loop not in self._turning:
            self._turning[loop] = True
            self._beats[loop] = _monotonic()
            loop.call_soon(self._turn, loop, 0, context=_NOBODYS)
        return due

    def _drop(self, due: _Due) -> None:
        with self._changed:
            due.dropped = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def _standing(self) -> Iterator[None]:
        """Tell that the running thread's loop, if it has one, stands still: what is due in it waits too."""
        loop = _running_loop()
        with self._changed:
            self._stopped.append(loop)
        try:
            yield
        finally:
            with self._changed:
                self._stopped.remove(loop)
                if loop is not None:
                    self._beats[loop] = _monotonic()

    def _first(self) -> _Due | None:
        """Return what is due next, leaving out what belongs to loops that stand still."""
        with self._changed:
            self._pending = [due for due in self._pending if not _is_over(due)]
            return min(
                (due for due in self._pending if self._can_come(due)),
                key=_moment,
                default=None,
            )

    def _can_come(self, due: _Due) -> bool:
        loop = due.loop
        if loop is None:
            return True
        if loop in self._stopped or not loop.is_running():
            return False
        return _monotonic() - self._beats.get(loop, 0.0) < _PATIENCE_S

    def _is_next(self, due: _Due) -> bool:
        """Whether a thread's moment has come; events that nobody waits for and that come before happen here."""
        first = self._first()
        while first is not None and first.is_event:
            self._release(first)
            first = self._first()
        if first is not due:
            return False
        if not threads_are_alone():
            _let_threads_rest()
            return self._first() is due
        return True

    def _release(self, due: _Due) -> None:
        """Let it happen, once: several threads may find the same event due."""
        with self._changed:
            if due.dropped:
                return
            due.dropped = True
        self._pass_to(due.wakes_ns)
        due.fire()

    def _pass_to(self, moment_ns: int) -> None:
        with self._changed:
            self._elapsed_ns = max(self._elapsed_ns, moment_ns)
            self._changed.notify_all()

    def _turn(self, loop: asyncio.AbstractEventLoop, idle: int) -> None:
        """One turn of a loop in which something is due: let the next of it happen when the loop is at rest."""
        self._beats[loop] = _monotonic()
        ready = getattr(loop, "_ready", None)
        if ready or idle < (_BLIND_TURNS if ready is None else _IDLE_TURNS):
            loop.call_soon(self._turn, loop, 0 if ready else idle + 1, context=_NOBODYS)
            return
        first = self._first()
        if not any(due.loop is loop for due in self._pending):
            del self._turning[loop]
        elif first is not None and (first.loop is loop or first.is_event):
            if not threads_are_alone():
                _let_threads_rest()
            if not ready and self._first() is first:
                self._release(first)
            loop.call_soon(self._turn, loop, 0, context=_NOBODYS)
        else:
            loop.call_later(_PAUSE_S, self._turn, loop, 0, context=_NOBODYS)


def _let_threads_rest() -> None:
    """Wait until no other thread moves; outside any run, whose waits would come back to us."""
    for _ in range(_MOST_LOOKS):
        if Context().run(quiet_threads):
            return


def _soon(loop: asyncio.AbstractEventLoop, run: Callable[[], None]) -> None:
    loop.call_soon(run)


def _moment(due: _Due) -> tuple[int, int]:
    return due.wakes_ns, due.order


def _is_over(due: _Due) -> bool:
    left_behind = due.loop is not None and due.loop.is_closed()
    return due.dropped or left_behind or (due.handle is not None and due.handle.cancelled())


class Wait(WholeAnswer):
    """A wait as an answered crossing; implements `crossing.Answer`. `wakes_ns` have passed when it is over."""

    __slots__ = ("_waits", "origin_step", "outcome", "same_request", "wakes_ns")

    def __init__(self, waits: VirtualWaits, wakes_ns: int, outcome: Outcome = _DONE) -> None:
        self._waits = waits
        self.wakes_ns = wakes_ns
        self.outcome = outcome
        self.origin_step: int | None = None
        self.same_request = True

    def settle(self) -> None:
        """Let the time pass, at once."""
        self._waits.until(self.wakes_ns)

    async def settle_async(self) -> None:
        """Let what is due earlier happen first, then let the time pass."""
        await self._waits.until_async(self.wakes_ns)

    def done(self) -> None:
        """Told once the wait is over or was cancelled."""
