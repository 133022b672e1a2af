"""Waits with a deadline at what is written in C: locks and `queue.SimpleQueue`.

Hooked in the dicts of their types, as nothing else reaches a lock that exists; `with lock` never looks there. The
originals are taken at import, and a type whose dict is out of reach keeps its real time.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.deadlines import MISSED, waited, waiter
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.model import CoverageEntry

_getframe = sys._getframe
_SIMPLE: type = queue.SimpleQueue
_simple_get = vars(_SIMPLE)["get"]
_LOCKS: tuple[type, ...] = (type(threading.Lock()), type(threading.RLock()))


def replace(hooks: Hooks) -> list[CoverageEntry]:
    """Replace them; return what cannot be."""
    try:
        for kind, hook in zip(_LOCKS, _acquires, strict=True):
            hooks.replace_in_type(kind, "acquire", hook)
        hooks.replace_in_type(_SIMPLE, "get", get)
        hooks.replace_in_type(_SIMPLE, "get_nowait", get_nowait)
    except RuntimeError as error:
        return [CoverageEntry("waits.native", "not_captured", str(error))]
    return []


def _acquire_of(real: Callable[..., bool]) -> Callable[..., bool]:
    @looks_like(real)
    def acquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
        if (timeout == -1 and blocking) or not _session.live_sessions:
            return real(self, blocking, timeout)
        deadline_s = timeout if blocking else 0
        is_valid = timeout >= 0 if blocking else timeout == -1
        here = waiter(_getframe(1), deadline_s) if is_valid else None
        if here is None:
            return real(self, blocking, timeout)
        return waited(here, "lock", deadline_s, lambda seconds: real(self, True, seconds) or MISSED) is not MISSED

    return acquire


_originals: dict[type, Any] = {kind: vars(kind)["acquire"] for kind in _LOCKS}


def plain_acquire(lock: Any) -> Callable[..., bool]:
    """Return the lock's own `acquire`, past the hook: for locks of ours that every step takes."""
    own: Callable[..., bool] = _originals[type(lock)].__get__(lock)
    return own


_acquires = [_acquire_of(_originals[kind]) for kind in _LOCKS]


@looks_like(_simple_get)
def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    """Take an item from the queue, or none in time."""
    if (block and timeout is None) or not _session.live_sessions:
        return _simple_get(self, block, timeout)
    return take_in_time(_simple_get, self, block, timeout, _getframe(1))


@looks_like(vars(_SIMPLE)["get_nowait"])
def get_nowait(self: Any) -> Any:
    """Take an item from the queue if there is one."""
    if not _session.live_sessions:
        return _simple_get(self, False)
    return take_in_time(_simple_get, self, False, None, _getframe(1))


def take_in_time(get: Callable[..., Any], line: Any, block: bool, timeout: float | None, frame: FrameType) -> Any:
    """Take an item from a queue of any kind with its own `get`, or raise queue.Empty, for the code in `frame`."""
    deadline_s = (timeout or 0) if block else 0
    plain = (block and timeout is None) or not _session.live_sessions or deadline_s < 0
    here = None if plain else waiter(frame, deadline_s)
    if here is None:
        return get(line, block, timeout)

    def attempt(seconds: float) -> Any:
        try:
            return get(line, True, seconds)
        except queue.Empty:
            return MISSED

    found = waited(here, "queue.get", deadline_s, attempt)
    if found is MISSED:
        raise queue.Empty
    return found
