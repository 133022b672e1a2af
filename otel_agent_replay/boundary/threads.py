"""Threads and tasks of the application carry the session, and a label each.

`threading.Thread.start` and `ThreadPoolExecutor.submit` (which `run_in_executor` and `to_thread` use) hand the
caller's session and place to the new thread for as long as the application's function runs there; a pool's worker
keeps nothing afterwards. When the function ends is told to the session: which of two threads was done first may
be what the agent goes by. Tasks carry their context by themselves and get their label here, at their making.
Threads that a library starts for its own ends (an exporter's, a pool's) get nothing. Process pools are untouched.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.callers import starts_for_application
from otel_agent_replay.boundary.crossing import Place, current, handing_over, new_strand, within_strand
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CoverageEntry

_getframe = sys._getframe
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit
_create_task = asyncio.BaseEventLoop.create_task

hooks = Hooks()

_pause: Callable[[], None] | None = None


def set_pause(pause: Callable[[], None] | None) -> None:
    """Set what a thread does right after it has started another or handed a task to a pool; None: nothing."""
    global _pause
    _pause = pause


def install() -> list[CoverageEntry]:
    """Replace the ways to start a thread or task; return what is covered."""
    if not hooks:
        hooks.replace(threading.Thread, "start", start)
        hooks.replace(ThreadPoolExecutor, "submit", submit)
        hooks.replace(asyncio.BaseEventLoop, "create_task", create_task)
    return [
        CoverageEntry("threads", "captured", "threading.Thread, ThreadPoolExecutor, run_in_executor, to_thread"),
        CoverageEntry("tasks", "captured", "asyncio's; under uvloop they are labelled when they first ask"),
        CoverageEntry("threads.low_level", "not_captured", "_thread.start_new_thread, multiprocessing.pool.ThreadPool"),
        CoverageEntry("processes", "not_captured", "child processes and process pools"),
    ]


def uninstall() -> None:
    """Put the originals back; threads that run keep their session."""
    hooks.undo()


class _Carried:
    """A function that is to run elsewhere under the session, place and strand of whoever handed it over."""

    __slots__ = ("_function", "_here", "_strand")

    def __init__(self, function: Callable[..., Any], here: tuple[Session, Place]) -> None:
        self._function = function
        self._here = here
        self._strand = new_strand()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session, place = self._here
        token = current.set(self._here)
        try:
            with within_strand(self._strand), session.observer.inside(place):
                try:
                    return self._function(*args, **kwargs)
                finally:
                    session.thread_ends(place)
        finally:
            current.reset(token)


def _carrying() -> tuple[Session, Place] | None:
    """Return what the caller's caller hands over, or None."""
    here = _session.active()
    return here if here is not None and starts_for_application(_getframe(2)) else None


@looks_like(_start)
def start(self: threading.Thread) -> None:
    """Start the thread; it carries the session when the application starts it."""
    here = _carrying() if _session.live_sessions else None
    if here is None or self.ident is not None:
        return _begin(self)
    run = _Carried(self.run, here)

    def carried_run() -> None:
        del self.run  # the class's own again: no cycle is left behind
        run()

    self.run = carried_run  # type: ignore[method-assign]
    try:
        _begin(self)
    except BaseException:
        vars(self).pop("run", None)
        raise
    return None


def _begin(thread: threading.Thread) -> None:
    _start(thread)
    if _pause is not None:
        _pause()


@looks_like(_submit)
def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Submit the function; it runs under the session when the application submits it."""
    here = _carrying() if _session.live_sessions else None
    future = _submit(self, fn if here is None else _Carried(fn, here), *args, **kwargs)
    if _pause is not None:
        _pause()
    return future


@looks_like(_create_task)
def create_task(self: asyncio.BaseEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make the task; when the application makes it, its label is given now, not when it first asks."""
    if _session.live_sessions and _carrying() is not None:
        return handing_over(new_strand(), lambda: _create_task(self, coro, **options), options.get("context"))
    return _create_task(self, coro, **options)
