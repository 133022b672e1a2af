"""Virtual time at waits with a deadline in threads: `Event.wait`, `Queue.get`, `Future.result`, `Thread.join` ...

Hook: `threading.Condition.wait` and `Thread.join`, where all of them end, and the clocks by which `threading`, `queue`
and `concurrent.futures` reckon what is left of a deadline. Without a deadline nothing changes. `Lock.acquire(timeout=)`
is C code and keeps real time. Installed only where a run's time is virtual, with `virtual_time`.
"""

from __future__ import annotations

import concurrent.futures
import queue
import threading
import time
from typing import Any

from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.virtual_time import VirtualTime

_wait = threading.Condition.wait
_join = threading.Thread.join
_monotonic = time.monotonic

hooks = Hooks()


def install() -> None:
    """Replace the waits and their clocks."""
    if not hooks:
        hooks.replace(threading.Condition, "wait", wait)
        hooks.replace(threading.Thread, "join", join)
        hooks.replace(threading, "_time", monotonic)
        hooks.replace(queue, "time", monotonic)
        hooks.replace(concurrent.futures._base, "time", _Time())


def uninstall() -> None:
    """Put them back."""
    hooks.undo()


def _here() -> VirtualTime | None:
    here = current.get()
    return None if here is None or here[0].closed else here[0].virtual_time


def monotonic() -> float:
    """Return what a deadline is reckoned by, as the running code is to see it."""
    virtual = _here()
    return _monotonic() if virtual is None else virtual.monotonic()


class _Time:
    """Stands where a module has `time`: its `monotonic` is ours, the rest is the real module's."""

    monotonic = staticmethod(monotonic)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@looks_like(_wait)
def wait(self: Any, timeout: float | None = None) -> bool:
    """Wait until notified or until the timeout, in virtual time where the running code lives in it."""
    virtual = _here()
    if virtual is None or timeout is None or timeout <= 0 or not self._is_owned():
        return _wait(self, timeout)
    waiter = threading.Lock()
    waiter.acquire()
    self._waiters.append(waiter)
    saved = self._release_save()
    happened = False
    try:
        happened = virtual.wait_for(lambda real_s: waiter.acquire(timeout=real_s), timeout)
    finally:
        self._acquire_restore(saved)
        # With the lock held again: who notified in the meantime did so for this waiter.
        happened = happened or waiter.acquire(blocking=False)
        if not happened and waiter in self._waiters:
            self._waiters.remove(waiter)
    return happened


@looks_like(_join)
def join(self: threading.Thread, timeout: float | None = None) -> None:
    """Wait until the thread has ended or until the timeout, in virtual time where the running code lives in it."""
    virtual = _here()
    if virtual is None or timeout is None or timeout <= 0 or self is threading.current_thread() or self.ident is None:
        return _join(self, timeout)

    def ended(real_s: float) -> bool:
        _join(self, real_s)
        return not self.is_alive()

    virtual.wait_for(ended, timeout)
    return None
