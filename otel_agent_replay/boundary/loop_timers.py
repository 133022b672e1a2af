"""Timers of an event loop that the application sets, by way of asyncio or not: whether they went off is a read.

Hook: `BaseEventLoop.call_at`, where `wait_for`, `timeout`, `asyncio.wait`, `call_later` and anyio's scopes all end. A
timer of the application is numbered in its thread of control; when it goes off or is cancelled, that is told
(`wait.timer 3`). In a replay one that went off does so at its turn in the run's order and in no time; the clock of its
loop then jumps ahead to its moment, because code asks that clock whether its deadline has passed, and whatever is set
later counts from there. One that was cancelled waits longer than it says, as long as anything moves. Timers of other
libraries, and those that no recording knows, are real ones. uvloop has timers of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, cast

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.callers import sets_timer_for_application
from otel_agent_replay.boundary.crossing import Place, current, strand_label
from otel_agent_replay.boundary.deadlines import RecordedWait, recorded_wait
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import TIMER, CoverageEntry, Kind, Read

_getframe = sys._getframe
_call_at = asyncio.BaseEventLoop.call_at
_loop_time = asyncio.BaseEventLoop.time
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_TICK_S = 0.05  # between two looks whether a timer is still to be waited for
_ROUNDED_S = 1e-6  # sums of times are rounded
_numbering = threading.Lock()
_some_are_ahead = False  # whether any loop's clock is
_AHEAD = "_agent_replay_ahead"

hooks = Hooks()
_numbers: weakref.WeakKeyDictionary[Session, dict[tuple[tuple[str, ...], str], Iterator[int]]] = (
    weakref.WeakKeyDictionary()
)


def install() -> list[CoverageEntry]:
    """Replace the loop's timers; return what is covered."""
    if not hooks:
        hooks.replace(asyncio.BaseEventLoop, "call_at", call_at)
    return [
        CoverageEntry("timers", "captured", "set by the application through asyncio: wait_for, timeout, call_later"),
        CoverageEntry("timers.uvloop", "not_captured", "uvloop's timers take their real time"),
    ]


def uninstall() -> None:
    """Put them back; loops whose clock is ahead stay so."""
    hooks.undo()


@looks_like(_call_at)
def call_at(
    self: asyncio.BaseEventLoop,
    when: float,
    callback: Callable[..., object],
    *args: Any,
    context: Context | None = None,
) -> asyncio.TimerHandle:
    """Call the callback at `when`."""
    here = current.get() if _session.live_sessions else None
    if (
        here is None
        or here[0].closed
        or here[0].virtual_time is not None
        or not sets_timer_for_application(_getframe(1))
    ):
        return _call_at(self, when - vars(self).get(_AHEAD, 0.0), callback, *args, context=context)
    session, place = here
    strand = strand_label()
    name = f"{TIMER}{_next_number(session, place, strand)}"
    recorded = recorded_wait(here, name, prefix="")
    if recorded is not None and recorded.read.value != 0:
        self._check_closed()  # type: ignore[attr-defined]
        return recorded.timer(self, lambda: _go_off(self, when, callback, args), (), context)
    real_when = when - vars(self).get(_AHEAD, 0.0)
    if recorded is not None:
        patient = Patient(recorded, self, callback)
        handle = patient.handle = _call_at(self, real_when, patient, *args, context=context)
        return handle
    told = _Told(session, place, strand, name, callback)
    handle = _call_at(self, real_when, told, *args, context=context)
    handle.__class__ = _ToldHandle
    return handle


def _go_off(loop: asyncio.BaseEventLoop, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    _put_ahead(loop, when)
    callback(*args)


def _next_number(session: Session, place: Place, strand: str) -> int:
    numbers = _numbers.get(session)
    if numbers is None:
        with _numbering:  # loops of several threads may share a run
            numbers = _numbers.setdefault(session, {})
    return next(numbers.setdefault((place.path, strand), itertools.count(1)))


class _Told:
    """A timer's callback that tells that it is called, or that the timer is cancelled."""

    __slots__ = ("_callback", "_is_over", "_name", "_place", "_session", "_strand")

    def __init__(self, session: Session, place: Place, strand: str, name: str, callback: Callable[..., object]) -> None:
        self._session = session
        self._place = place
        self._strand = strand
        self._name = name
        self._callback = callback
        self._is_over = False

    def __call__(self, *args: Any) -> None:
        """The timer goes off."""
        self._tell(_time_ns())
        if not self._session.closed:
            self._place.counters.ticker.ended()  # the event loop's turns count from here
        self._callback(*args)

    def cancelled(self) -> None:
        """The timer will not go off, if it has not yet."""
        if not self._is_over:
            self._tell(0)

    def _tell(self, value: int) -> None:
        self._is_over = True
        session, place = self._session, self._place
        if not session.closed:
            session.observer.read(place, Read(Kind.CLOCK, self._name, value, self._strand, place.next_sequence()))


class _ToldHandle(asyncio.TimerHandle):
    """What cancels such a timer."""

    __slots__ = ()

    def cancel(self) -> None:
        """Do not go off."""
        callback = self._callback  # type: ignore[attr-defined]
        if isinstance(callback, _Told):
            callback.cancelled()
        super().cancel()


class Patient:
    """The callback of a timer that was cancelled in the recording: it is called when nothing moves any more."""

    __slots__ = ("_callback", "_loop", "_may_come", "_recorded", "handle")

    def __init__(self, recorded: RecordedWait, loop: asyncio.BaseEventLoop, callback: Callable[..., object]) -> None:
        self._recorded = recorded
        self._loop = loop
        self._callback = callback
        self._may_come: Callable[[], bool] | None = None
        self.handle: asyncio.TimerHandle | None = None  # what the code that set the timer cancels

    def __call__(self, *args: Any) -> None:
        """The timer is due: wait on, or call."""
        if self.handle is not None and self.handle.cancelled():
            return
        if self._may_come is None:
            self._may_come = self._recorded.patience(0, _TICK_S, self._loop)
        try:
            again = self._may_come()
        except ReplayInterrupt:
            again = False  # a replay that has stopped is over soon, whatever the deadline
        if again:
            _call_at(self._loop, _loop_time(self._loop) + _TICK_S, self, *args)
        else:
            self._callback(*args)


def _put_ahead(loop: asyncio.BaseEventLoop, when: float) -> None:
    """Let the loop's clock show at least `when` from now on, to all but the loop's own turns."""
    global _some_are_ahead
    _some_are_ahead = True
    ahead = max(vars(loop).get(_AHEAD, 0.0), when - _loop_time(loop) + _ROUNDED_S)
    if ahead <= 0:
        return
    if _AHEAD not in vars(loop):
        own = weakref.ref(loop)

        def shown() -> float:
            it = own()
            if it is None:
                raise AssertionError("a loop that is gone has no clock")
            now = _loop_time(it)
            return now if _getframe(1).f_code is _RUN_ONCE else now + cast("float", vars(it)[_AHEAD])

        loop.time = shown  # type: ignore[method-assign]
    setattr(loop, _AHEAD, ahead)
