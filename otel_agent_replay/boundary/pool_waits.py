"""Waits with a deadline for what pools do: `Future.result` and `exception`, `Executor.map`, `wait`.

Hooked at the class and the module. `as_completed` is `set_order`'s, with its deadline asked for here.
"""

from __future__ import annotations

import concurrent.futures
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, Future
from types import FrameType
from typing import TYPE_CHECKING, Any

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.deadlines import (
    MISSED,
    Here,
    Missed,
    come,
    recorded_wait,
    told,
    waited,
    waiter,
)
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.set_order import NumberedFuture
from otel_agent_replay.model import FUTURES_DONE

if TYPE_CHECKING:
    from concurrent.futures._base import DoneAndNotDoneFutures

_getframe = sys._getframe
_result = Future.result
_exception = Future.exception
_wait = concurrent.futures.wait
_POOLS = concurrent.futures._base
_MAP = ("_result_or_cancel", "result_iterator")  # between an `Executor.map` and who goes through it


def replace(hooks: Hooks) -> None:
    """Replace them."""
    hooks.replace(Future, "result", result)
    hooks.replace(Future, "exception", exception)
    hooks.replace(concurrent.futures, "wait", wait)
    hooks.replace(_POOLS, "wait", wait)


@looks_like(_result)
def result(self: Future[Any], timeout: float | None = None) -> Any:
    """Return what the call gave, or raise that it did not in time."""
    if timeout is None or not _session.live_sessions:
        return _result(self, timeout)
    return _waited(self, _result, timeout, _who_asks(_getframe(1)))


@looks_like(_exception)
def exception(self: Future[Any], timeout: float | None = None) -> BaseException | None:
    """Return what the call raised, or raise that it did not end in time."""
    if timeout is None or not _session.live_sessions:
        return _exception(self, timeout)
    error: BaseException | None = _waited(self, _exception, timeout, _getframe(1))
    return error


def _who_asks(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_name in _MAP and frame.f_globals is vars(_POOLS):
        frame = frame.f_back
    return frame


def _waited(future: Future[Any], ask: Callable[..., Any], timeout: float, frame: FrameType | None) -> Any:
    deadline_s = max(timeout, 0)
    here = waiter(frame, deadline_s)
    if here is None:
        return ask(future, timeout)

    def attempt(seconds: float) -> Any:
        try:
            return ask(future, seconds)
        except concurrent.futures.TimeoutError as error:
            if error is future._exception:
                raise  # its own
            return MISSED

    found = waited(here, "future", deadline_s, attempt)
    if found is MISSED:
        raise concurrent.futures.TimeoutError
    return found


@looks_like(_wait)
def wait(
    fs: Iterable[Future[Any]], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> DoneAndNotDoneFutures[Any]:
    """Wait for the futures; which of them are done in time is recorded too."""
    here = None if timeout is None or not _session.live_sessions else waiter(_getframe(1), timeout)
    if here is None or timeout is None:
        return _wait(fs, timeout, return_when)
    futures = list(dict.fromkeys(fs))
    if isinstance(fs, (set, frozenset)) and not all(isinstance(future, NumberedFuture) for future in futures):
        return _wait(futures, timeout, return_when)  # they come out of the set in an order of their own
    recorded = recorded_wait(here, "futures")
    if recorded is None:
        return _wait_live(here, futures, timeout, return_when)
    known = recorded_wait(here, FUTURES_DONE, prefix="")
    if recorded.read.value != 0:
        recorded.settle()
    places = [] if known is None else [int(place) for place in str(known.read.value).split()]
    done = [futures[place] for place in places if place < len(futures)]

    def attempt(seconds: float) -> list[Future[Any]] | Missed:
        return MISSED if _wait(done, seconds).not_done else done

    if come(recorded, timeout, attempt) is MISSED:
        return _wait(futures, 0, return_when)
    return _result_of(futures, done)


def completed_in_time(here: Here, seconds: float, attempt: Callable[[float | None], Any]) -> Any:
    """Return what `attempt` got in so many seconds, as `waited` does; None for nothing."""
    found = waited(here, "as_completed", seconds, lambda some: attempt(some) or MISSED)
    return None if found is MISSED else found


def _wait_live(here: Here, futures: list[Future[Any]], timeout: float, return_when: str) -> DoneAndNotDoneFutures[Any]:
    found = _wait(futures, timeout, return_when)
    done = " ".join(str(place) for place, future in enumerate(futures) if future in found.done)
    told(here[0], "futures", came=_is_met(found, return_when), done=done)
    return found


def _is_met(found: DoneAndNotDoneFutures[Any], return_when: str) -> bool:
    """Whether the wait ended by what was done rather than by its deadline."""
    if return_when == ALL_COMPLETED or not found.not_done:
        return not found.not_done
    if return_when == concurrent.futures.FIRST_COMPLETED:
        return bool(found.done)
    return any(not future.cancelled() and future.exception() is not None for future in found.done)


def _result_of(futures: list[Future[Any]], done: list[Future[Any]]) -> DoneAndNotDoneFutures[Any]:
    return concurrent.futures._base.DoneAndNotDoneFutures(set(done), set(futures) - set(done))
