"""Virtual time: only waits take any, and a wait of thirty minutes is over at once.

Sleeps, answers that take their time, timers of the event loop and events that are to come lie on one line of time.
What is due next happens when everything else has come to rest: no task of the loop is ready, no thread moves. Waits
side by side overlap, and end in the order of their moments, equal ones in the order in which they began. The event loop
is never stopped and never sees its own clock stand. A thread that waits for something real (a lock that nobody frees
soon, a file) is taken to be at rest.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Call, Outcome, OutcomeStatus
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay.quiet import quiet_threads, threads_are_alone

# Bound at import: our own clock reads and waits are not the application's.
_monotonic = time.monotonic
_running_loop = asyncio._get_running_loop
_ident = threading.get_ident
UP_NS = 10_000 * 10**9
"""What clocks without a date show at the start, in nanoseconds: none shows 0, which code may take for "never"."""

_IDLE_TURNS = 2  # of a loop with nothing ready in a row: the second has asked its sockets
_BLIND_TURNS = 25  # of a loop that does not show what is ready
_PATIENCE_S = 0.5  # real seconds that somebody else's earlier moment may take to come
_LOOK_S = 0.001
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
        own = _running_loop()  # it stands still while its thread waits here
        due = self._add(_Due(moment_ns, next(self._order), _nothing), thread=_ident())
        began = _monotonic()
        try:
            while True:
                first = self._first(without=own)
                if first is due:
                    if not threads_are_alone():
                        quiet_threads()
                        if self._first(without=own) is not due:
                            continue
                    return
                if first is not None and first.is_event:
                    self._release(first)
                elif _monotonic() - began > _PATIENCE_S:
                    return
                else:
                    with self._changed:
                        self._changed.wait(_PATIENCE_S / 10)
        finally:
            self._pass_to(moment_ns)
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

    def loop_time(self, loop: asyncio.AbstractEventLoop) -> float:
        """Return what the clock of every loop shows: the same as the application's `time.monotonic`."""
        del loop
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
        microseconds = round((when - self.loop_time(loop)) * 1e6)
        moment_ns = self._elapsed_ns + max(0, microseconds) * 1000
        due = _Due(moment_ns, next(self._order), lambda: _soon(loop, run))
        due.handle = handle
        self._add(due, loop=loop)
        return handle

    # --- events that nobody waits for ---

    def call_after(self, nanoseconds: int, event: Callable[[], None]) -> None:
        """Call `event` that much later, in whatever thread lets the time pass."""
        self._add(_Due(self._elapsed_ns + nanoseconds, next(self._order), event))

    def run_out(self) -> None:
        """Let the time pass in which events are still to come; waits and timers that are left are given up."""
        while True:
            with self._changed:
                events = [due for due in self._pending if due.is_event and not due.dropped]
            if not events:
                return
            self._release(min(events, key=_moment))

    # --- inside ---

    def _add(self, due: _Due, *, loop: asyncio.AbstractEventLoop | None = None, thread: int = 0) -> _Due:
        due.loop, due.thread = loop, thread
        with self._changed:
            self._pending.append(due)
            self._changed.notify_all()
        if loop is not None and loop not in self._turning:
            self._turning[loop] = True
            loop.call_soon(self._turn, loop, 0, _monotonic(), context=_NOBODYS)
        return due

    def _drop(self, due: _Due) -> None:
        with self._changed:
            due.dropped = True
            self._changed.notify_all()

    def _first(self, *, without: asyncio.AbstractEventLoop | None = None) -> _Due | None:
        """Return what is due next, leaving out what belongs to the loop `without`."""
        with self._changed:
            self._pending = [due for due in self._pending if not _is_over(due)]
            known = (due for due in self._pending if without is None or due.loop is not without)
            return min(known, key=_moment, default=None)

    def _release(self, due: _Due) -> None:
        self._pass_to(due.wakes_ns)
        self._drop(due)
        due.fire()

    def _pass_to(self, moment_ns: int) -> None:
        with self._changed:
            self._elapsed_ns = max(self._elapsed_ns, moment_ns)
            self._changed.notify_all()

    def _turn(self, loop: asyncio.AbstractEventLoop, idle: int, since: float) -> None:
        """One turn of a loop in which something is due: let the next of it happen when the loop is at rest."""
        ready = getattr(loop, "_ready", None)
        if ready or idle < (_BLIND_TURNS if ready is None else _IDLE_TURNS):
            loop.call_soon(self._turn, loop, 0 if ready else idle + 1, since, context=_NOBODYS)
            return
        first = self._first()
        if first is None or not any(due.loop is loop for due in self._pending):
            del self._turning[loop]
            return
        if first.loop is loop or first.is_event or _monotonic() - since > _PATIENCE_S:
            if not threads_are_alone():
                quiet_threads()
            if not ready and self._first() is first:
                if first.loop is loop or first.is_event:
                    self._release(first)
                else:  # whoever is to come first does not come
                    self._release(min((due for due in self._pending if due.loop is loop), key=_moment))
            loop.call_soon(self._turn, loop, 0, _monotonic(), context=_NOBODYS)
        else:
            loop.call_later(_LOOK_S, self._turn, loop, 0, since, context=_NOBODYS)


def _soon(loop: asyncio.AbstractEventLoop, run: Callable[[], None]) -> None:
    loop.call_soon(run)


def _moment(due: _Due) -> tuple[int, int]:
    return due.wakes_ns, due.order


def _is_over(due: _Due) -> bool:
    return due.dropped or (due.handle is not None and due.handle.cancelled())


class Wait:
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
