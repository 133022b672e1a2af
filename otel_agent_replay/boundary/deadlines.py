"""Whether what the application waited for came before its deadline: one recorded read a wait, of kind clock.

Live the wait is made and told. From a tape a wait that was given up is given up again, at its turn in the run's order
and in no time; one that came is made without its deadline, so that a replay's threads may take longer than the
recording's. A wait that no tape knows is made as it stands. Which functions are waits is `waits`' business.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from types import FrameType
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

from otel_agent_replay.boundary import collector
from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.callers import waits_as_application
from otel_agent_replay.boundary.crossing import Place, current, strand_label
from otel_agent_replay.boundary.one_ending import at_once
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import FUTURES_DONE, WAIT, Kind, Read, SideEffect

_T = TypeVar("_T")
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_running_loop = asyncio._get_running_loop
_TIMER = threading.Timer.run.__code__
_TICK_S = 0.05  # between two looks whether what is waited for may still come


class Missed:
    """What an attempt gives that did not get what it waited for."""


MISSED: Final = Missed()
Here = tuple[Session, Place]


class RecordedWait(Protocol):
    """What became of a wait in a recording. Implemented outside `boundary`."""

    read: Read

    def settle(self) -> None:
        """Block until it is its turn to be given up. Raises the interrupt of a stopped replay."""

    def patience(
        self, deadline_s: float, tick_s: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> Callable[[], bool]:
        """Return what tells, each `tick_s` seconds, whether what came may still come. It raises as `settle` does.

        With `loop` it is asked by a timer of that loop, which otherwise goes on.
        """

    def timer(
        self,
        loop: asyncio.AbstractEventLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` in `loop` at the turn of a timer, and return what cancels that."""


@runtime_checkable
class _KnowsWaits(Protocol):
    def recorded_wait(self, name: str, place: Place, strand: str) -> RecordedWait | None:
        """Return what became of the next wait of that name there, or None."""


def waiter(frame: FrameType | None, deadline_s: float) -> Here | None:
    """Return the session and place of the application's code in `frame`, which waits; None for all other code.

    Also None where time is virtual, and for a task that only looks: a loop's order is that of its turns. Code that goes
    on after its run's end is nobody's. `threading.Timer` waits for whoever started it.
    """
    if frame is None or not (frame.f_code is _TIMER or waits_as_application(frame)):
        return None
    if collector.collecting and collector.runs_this():
        return None
    here = current.get()
    if here is None:
        here = _session.active()
    elif here[0].closed:
        return None
    if here is None or here[0].virtual_time is not None:
        return None
    return None if deadline_s <= 0 and _running_loop() is not None else here


def waited(
    here: Here,
    name: str,
    deadline_s: float,
    attempt: Callable[[float], _T | Missed],
    *,
    aside: AbstractContextManager[object] | None = None,
) -> _T | Missed:
    """Return what `attempt(seconds)` got, or MISSED: it waits that long at most. Raises what it raises: that came too.

    `aside` is entered while the running thread waits for its turn to give up: it lets go of what others need.
    """
    session = here[0]
    recorded = recorded_wait(here, name)
    if recorded is None:
        try:
            found = attempt(deadline_s)
        except Exception:
            told(session, name, came=True)
            raise
        told(session, name, came=found is not MISSED)
        return found
    if recorded.read.value == 0:
        return come(recorded, deadline_s, attempt)
    with aside or nullcontext():
        recorded.settle()
    return MISSED


def come(recorded: RecordedWait, deadline_s: float, attempt: Callable[[float], _T | Missed]) -> _T | Missed:
    """Return what comes, as it did in the recording; MISSED when nothing moves any more and it did not."""
    found = attempt(0)
    if found is MISSED:
        may_come = recorded.patience(deadline_s, _TICK_S)
        while (found := attempt(_TICK_S)) is MISSED and may_come():
            pass
    return found


def recorded_wait(here: Here, name: str, prefix: str = WAIT) -> RecordedWait | None:
    """Return what became of this wait in a recording that the run goes by, or None: it is to be made live."""
    session, place = here
    if session.reads_live:
        return None
    for giver in _givers(session):
        recorded = giver.recorded_wait(prefix + name, place, strand_label())
        if recorded is not None:
            if not session.mode.continues:
                session.observer.read(place, recorded.read)
            return recorded
    return None


def _givers(session: Session) -> Iterator[_KnowsWaits]:
    """Yield who tells of waits: those whom a run's shared part goes by, and those who answer sleeps."""
    sources = session.mode.sources(Kind.SLEEP, SideEffect.NONE)
    found = [*session.prefix.values(), *(session.answerers.get(source) for source in sources)]
    return (cast("_KnowsWaits", giver) for giver in found if isinstance(giver, _KnowsWaits))


def told(session: Session, name: str, *, came: bool, done: str | None = None) -> None:
    """Tell of a wait that was made; `done` are the futures that it found done, by their places."""
    if session.closed:
        return
    if came:
        session.observe_read(Kind.CLOCK, WAIT + name, 0)
    else:
        with at_once():  # a thread that is just ending is done for who looks now
            session.observe_read(Kind.CLOCK, WAIT + name, _time_ns())
    if done is not None:
        session.observe_read(Kind.CLOCK, FUTURES_DONE, done)
