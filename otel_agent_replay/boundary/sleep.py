"""Waits of the application: `time.sleep` and `asyncio.sleep` as crossings of kind sleep.

Live they wait; from a tape they take no time, and end in the recorded order. The event loop's timers are
untouched, so nothing hangs. A wait of zero is a yield to others, not a wait, and is left alone. A client's waits
between its tries are not recorded, but nobody waits for them in a replay either. Where a run's time is virtual, the
waits of its libraries take virtual time too.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import inspect
import sys
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.callers import is_application, waits_between_tries
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.outcomes import error_outcome
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    CoverageEntry,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
)
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.payload.failure import rebuild

_getframe = sys._getframe
_time_sleep = time.sleep
_asyncio_sleep = asyncio.sleep
_DONE = Outcome(OutcomeStatus.OK)

hooks = Hooks()


def install() -> list[CoverageEntry]:
    """Replace the two sleeps; return what is covered."""
    if not hooks:
        hooks.replace(time, "sleep", sleep)
        hooks.replace(asyncio, "sleep", sleep_in_task)
        hooks.replace(asyncio.tasks, "sleep", sleep_in_task)
    return [CoverageEntry("sleep", "captured", "time.sleep and asyncio.sleep")]


def uninstall() -> None:
    """Put the sleeps back."""
    hooks.undo()


@looks_like(_time_sleep)
def sleep(seconds: Any, /) -> None:
    """Wait, or in a replay not."""
    here = _session.active() if _session.live_sessions and _is_wait(seconds) else None
    if here is None:
        return _time_sleep(seconds)
    if not is_application(_getframe(1)):
        if here[0].virtual_time is not None:
            return here[0].virtual_time.pass_s(seconds)
        return _time_sleep(0 if _is_instant(here[0], _getframe(1)) else seconds)
    crossing = _begin(here, "time.sleep", seconds)
    if crossing.answer is not None:
        crossing.settle()
        return _serve(crossing)
    over = _asleep(crossing.session, seconds)
    try:
        _time_sleep(_capped(crossing.session, seconds))
    except BaseException as error:
        crossing.finish(error_outcome(crossing.session, error))
        raise
    over()
    crossing.finish(_DONE)
    return None


@looks_like(_asyncio_sleep)
def sleep_in_task(delay: Any, result: Any = None) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that waits, or in a replay only lets others run; who called is known only now."""
    here = _session.active() if _session.live_sessions and _is_wait(delay) else None
    if here is None:
        return _asyncio_sleep(delay, result)
    if is_application(_getframe(1)):
        return _cross(delay, result)
    return _asyncio_sleep(0 if _is_instant(here[0], _getframe(1)) else delay, result)


# What `asyncio.iscoroutinefunction` and, where there is a way, `inspect.iscoroutinefunction` look at.
if sys.version_info >= (3, 12):
    inspect.markcoroutinefunction(sleep_in_task)
else:
    sleep_in_task._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


async def _cross(delay: Any, result: Any) -> Any:
    here = _session.active()
    if here is None:
        return await _asyncio_sleep(delay, result)
    crossing = _begin(here, "asyncio.sleep", delay)
    try:
        if crossing.answer is not None:
            await crossing.settle_async()
        else:
            over = _asleep(crossing.session, delay)
            await _asyncio_sleep(_capped(crossing.session, delay))
            over()
    except (asyncio.CancelledError, GeneratorExit):
        crossing.finish(Outcome(OutcomeStatus.CANCELLED))
        raise
    except BaseException as error:
        crossing.finish(error_outcome(crossing.session, error))
        raise
    if crossing.answer is None:
        crossing.finish(_DONE)
    else:
        _serve(crossing)
    return result


def _is_instant(session: Session, frame: FrameType) -> bool:
    """Whether a library's wait is a client's between two tries of a session that never sleeps live."""
    if session.virtual_time is not None:
        return False  # the loop's own timers are virtual
    never_live = AnswerSource.LIVE not in session.mode.sources(Kind.SLEEP, SideEffect.NONE)
    return never_live and waits_between_tries(frame)


def _asleep(session: Session, seconds: float) -> Callable[[], None]:
    return _nothing if session.asleep is None else session.asleep(seconds)


def _nothing() -> None:
    """Nobody wants to know that a wait is over."""


def _capped(session: Session, seconds: float) -> float:
    most = session.sleeps_at_most_s
    return seconds if most is None else min(seconds, most)


def _is_wait(seconds: Any) -> bool:
    return isinstance(seconds, (int, float)) and seconds > 0


def _begin(here: tuple[Session, Place], name: str, seconds: float) -> Crossing:
    session, place = here
    request = Payload.of(encode({"seconds": seconds}).data, MediaType.VALUE.value)
    return session.begin(Call(Kind.SLEEP, name, SideEffect.NONE, request), place)


def _serve(crossing: Crossing) -> None:
    if crossing.answer is None:
        raise AssertionError("only an answered wait is served")
    outcome = crossing.answer.outcome
    crossing.finish(outcome)
    if outcome.failure is not None:
        raise rebuild(outcome.failure)
