"""Waits with a deadline in threads: events, conditions, semaphores, queues, threads; locks and futures beside.

Hooked at their classes. Only a call of the application's with a deadline, or one that does not wait at all, is more
than a comparison; what became of it is a read (`deadlines`). What libraries wait for keeps its real time.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from otel_agent_replay.boundary import native_waits, pool_waits
from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.deadlines import MISSED, Missed, waited, waiter
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.model import CoverageEntry

_getframe = sys._getframe
_event_wait = threading.Event.wait
_condition_wait = threading.Condition.wait
_condition_wait_for = threading.Condition.wait_for
_semaphore_acquire = threading.Semaphore.acquire
_join = threading.Thread.join
_get = queue.Queue.get
_put = queue.Queue.put

hooks = Hooks()


def install() -> list[CoverageEntry]:
    """Replace the waits; return what is covered."""
    entries = [
        CoverageEntry("waits", "captured", "locks, events, queues, threads and futures waited for with a timeout"),
        CoverageEntry("waits.others", "not_captured", "barriers, processes and sockets take their real time"),
    ]
    if not hooks:
        hooks.replace(threading.Event, "wait", event_wait)
        hooks.replace(threading.Condition, "wait", condition_wait)
        hooks.replace(threading.Condition, "wait_for", condition_wait_for)
        hooks.replace(threading.Semaphore, "acquire", semaphore_acquire)
        hooks.replace(threading.Thread, "join", join)
        hooks.replace(queue.Queue, "get", get)
        hooks.replace(queue.Queue, "get_nowait", get_nowait)
        pool_waits.replace(hooks)
        entries += native_waits.replace(hooks)
    return entries


def uninstall() -> None:
    """Put them back."""
    hooks.undo()


@looks_like(_event_wait)
def event_wait(self: threading.Event, timeout: float | None = None) -> bool:
    """Wait until the event is set, or not in time."""
    here = None if timeout is None or not _session.live_sessions else waiter(_getframe(1), timeout)
    if here is None or timeout is None:
        return _event_wait(self, timeout)
    return waited(here, "event", timeout, lambda seconds: _event_wait(self, seconds) or MISSED) is not MISSED


@looks_like(_semaphore_acquire)
def semaphore_acquire(self: threading.Semaphore, blocking: bool = True, timeout: float | None = None) -> bool:
    """Acquire the semaphore, or not in time."""
    plain = (blocking and timeout is None) or not _session.live_sessions or not (blocking or timeout is None)
    deadline_s = timeout or 0
    here = None if plain else waiter(_getframe(1), deadline_s)
    if here is None:
        return _semaphore_acquire(self, blocking, timeout)
    return (
        waited(here, "semaphore", deadline_s, lambda seconds: _semaphore_acquire(self, True, seconds) or MISSED)
        is not MISSED
    )


@looks_like(_condition_wait)
def condition_wait(self: threading.Condition, timeout: float | None = None) -> bool:
    """Wait until notified, or not in time."""
    here = None if timeout is None or not _session.live_sessions else waiter(_getframe(1), timeout)
    if here is None or timeout is None:
        return _condition_wait(self, timeout)

    def attempt(seconds: float) -> bool | Missed:
        return _condition_wait(self, seconds) or MISSED  # the lock is held between two: no notification is missed

    return waited(here, "condition", timeout, attempt, aside=_released(self)) is not MISSED


@looks_like(_condition_wait_for)
def condition_wait_for(self: threading.Condition, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
    """Wait until the predicate holds, or not in time; return what it says."""
    here = None if timeout is None or not _session.live_sessions else waiter(_getframe(1), timeout)
    if here is None or timeout is None:
        return _condition_wait_for(self, predicate, timeout)
    said: list[Any] = [MISSED]

    def attempt(seconds: float) -> Any:
        said[0] = _condition_wait_for(self, predicate, seconds)
        return said[0] or MISSED

    missed = waited(here, "condition.wait_for", timeout, attempt, aside=_released(self)) is MISSED
    if said[0] is MISSED:
        said[0] = predicate()
    return False if missed and said[0] else said[0]


@contextmanager
def _released(condition: Any) -> Iterator[None]:
    """Let go of a condition's lock, as its waits do."""
    saved = condition._release_save()
    try:
        yield
    finally:
        condition._acquire_restore(saved)


@looks_like(_join)
def join(self: threading.Thread, timeout: float | None = None) -> None:
    """Wait until the thread has ended, or not in time."""
    here = None if timeout is None or not _session.live_sessions else waiter(_getframe(1), timeout)
    if here is None or timeout is None:
        return _join(self, timeout)

    def attempt(seconds: float) -> Missed | None:
        _join(self, seconds)
        return MISSED if self.is_alive() else None

    waited(here, "join", timeout, attempt)
    return None


@looks_like(_get)
def get(self: queue.Queue[Any], block: bool = True, timeout: float | None = None) -> Any:
    """Take an item from the queue, or none in time."""
    return native_waits.take_in_time(_get, self, block, timeout, _getframe(1))


@looks_like(queue.Queue.get_nowait)
def get_nowait(self: queue.Queue[Any]) -> Any:
    """Take an item from the queue if there is one."""
    return native_waits.take_in_time(_get, self, False, None, _getframe(1))


def put_in_time(line: queue.Queue[Any], item: Any, block: bool, timeout: float | None, frame: FrameType) -> None:
    """Put an item on a queue that may be full, as `Queue.put` does."""
    deadline_s = (timeout or 0) if block else 0
    plain = (block and timeout is None) or not _session.live_sessions or deadline_s < 0
    here = None if plain else waiter(frame, deadline_s)
    if here is None:
        return _put(line, item, block, timeout)

    def attempt(seconds: float) -> Missed | None:
        try:
            return _put(line, item, True, seconds)
        except queue.Full:
            return MISSED

    if waited(here, "queue.put", deadline_s, attempt) is MISSED:
        raise queue.Full
    return None
