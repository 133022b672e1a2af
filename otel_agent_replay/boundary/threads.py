"""Threads and tasks of the application carry the session, and a label each.

`threading.Thread.start` and `ThreadPoolExecutor.submit` (which `run_in_executor` and `to_thread` use) hand the
caller's session and place to the new thread for as long as the application's function runs there; a pool's worker
keeps nothing afterwards. When the function ends is told to the session: which of two threads was done first may
be what the agent goes by. Tasks carry their context by themselves and get their label here, at their
making; by it they, and a pool's futures, come out of sets in the same order again (`set_order`).
Threads that a library starts for its own ends (an exporter's, a pool's) get nothing. Process pools are untouched.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import FrameType
from typing import Any

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.callers import is_application, starts_for_application
from otel_agent_replay.boundary.crossing import Place, current, handing_over, label_of, new_strand, within_strand
from otel_agent_replay.boundary.deadlines import waiter
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.one_ending import announce_ending, at_once, begin_ending, in_its_turn
from otel_agent_replay.boundary.pool_waits import completed_in_time
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.boundary.set_order import InOrder, completed, number_future, numbered_like, task
from otel_agent_replay.boundary.waits import put_in_time
from otel_agent_replay.model import QUEUE_PUT, THREAD_END, CoverageEntry

_getframe = sys._getframe
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit
_create_task = asyncio.BaseEventLoop.create_task
_put = queue.Queue.put
_put_nowait = queue.Queue.put_nowait
_SIMPLE: type = queue.SimpleQueue
_simple_put: Callable[..., None] = vars(_SIMPLE)["put"]
_shutdown: Callable[..., None] | None = getattr(queue.Queue, "shutdown", None)  # since Python 3.13
_wrap_future = asyncio.futures.wrap_future
_as_completed = asyncio.as_completed
_futures_as_completed = concurrent.futures.as_completed

hooks = Hooks()

_LONGEST_HANDOVER_S = 1.0  # between a pool's taking a task and our numbering it, in a thread that may be starved

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
        hooks.replace(queue.Queue, "put", put)
        hooks.replace(queue.Queue, "put_nowait", put_nowait)
        with suppress(RuntimeError):  # where types written in C cannot be hooked, `waits` says so
            hooks.replace_in_type(_SIMPLE, "put", simple_put)
            hooks.replace_in_type(_SIMPLE, "put_nowait", simple_put_nowait)
        if _shutdown is not None:
            hooks.replace(queue.Queue, "shutdown", _shut_down_in_order(_shutdown))
        hooks.replace(asyncio.BaseEventLoop, "create_task", create_task)
        hooks.replace(asyncio.futures, "wrap_future", wrap_future)
        hooks.replace(asyncio, "as_completed", as_completed)
        hooks.replace(asyncio.tasks, "as_completed", as_completed)
        hooks.replace(concurrent.futures, "as_completed", futures_as_completed)
        hooks.replace(concurrent.futures._base, "as_completed", futures_as_completed)
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

    @property
    def label(self) -> str:
        """The label of the thread of control that it will be."""
        return label_of(self._strand)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session, place = self._here
        token = current.set(self._here)
        try:
            with within_strand(self._strand), session.observer.inside(place):
                try:
                    return self._function(*args, **kwargs)
                finally:
                    self._ends(session)
                    session.mark(place, THREAD_END)
        finally:
            current.reset(token)

    def _ends(self, session: Session) -> None:
        """Prepare for the end of the function in the run's order."""


class _InPool(_Carried):
    """The same for a pool's task: it ends once its future is known, and in one with what that says."""

    __slots__ = ("_handed_over", "_numbered")

    def __init__(self, function: Callable[..., Any], here: tuple[Session, Place]) -> None:
        super().__init__(function, here)
        self._handed_over = threading.Event()
        self._numbered = False

    def handed_over(self, future: Future[Any]) -> None:
        """Take the future that the pool gave for it; the task may have run by now."""
        self._numbered = number_future(future, self.label)
        self._handed_over.set()

    def _ends(self, session: Session) -> None:
        if self._handed_over.wait(_LONGEST_HANDOVER_S) and self._numbered:
            if session.reads_live:
                begin_ending()
            else:
                announce_ending()


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
    carried = fn if here is None else _InPool(fn, here)
    future = _submit(self, carried, *args, **kwargs)
    if isinstance(carried, _InPool):
        carried.handed_over(future)
    if _pause is not None:
        _pause()
    return future


@looks_like(_put)
def put(self: queue.Queue[Any], item: Any, block: bool = True, timeout: float | None = None) -> None:
    """Put the item on the queue; that of the application's thread has its place in the run's order."""
    _put_in_order(self, item, block, timeout, _getframe(1))


@looks_like(_put_nowait)
def put_nowait(self: queue.Queue[Any], item: Any) -> None:
    """The same without waiting for a place on it."""
    _put_in_order(self, item, False, None, _getframe(1))


def _put_in_order(
    into: queue.Queue[Any],
    item: Any,
    block: bool,
    timeout: float | None,
    caller: FrameType,
) -> None:
    if into.maxsize > 0:  # a put may wait for ever: it has no place of its own
        return put_in_time(into, item, block, timeout, caller)
    here = _putting(caller) if _session.live_sessions else None
    if here is None:
        return _put(into, item, block, timeout)
    return _in_order(here, lambda: _put(into, item, block, timeout))


@looks_like(_simple_put)
def simple_put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
    """Put the item on a `SimpleQueue`, in the run's order too."""
    here = _putting(_getframe(1)) if _session.live_sessions else None
    if here is None:
        return _simple_put(self, item, block, timeout)
    return _in_order(here, lambda: _simple_put(self, item, block, timeout))


@looks_like(vars(_SIMPLE)["put_nowait"])
def simple_put_nowait(self: Any, item: Any) -> None:
    """The same."""
    here = _putting(_getframe(1)) if _session.live_sessions else None
    if here is None:
        return _simple_put(self, item)
    return _in_order(here, lambda: _simple_put(self, item))


def _putting(caller: FrameType) -> tuple[Session, Place] | None:
    """Return the session and place of a thread of the application's; tasks of a loop put in the order of its turns."""
    here = None if asyncio._get_running_loop() is not None else _session.active()
    return here if here is not None and is_application(caller) else None


def _in_order(here: tuple[Session, Place], act: Callable[[], None]) -> None:
    session, place = here
    with at_once() if session.reads_live else in_its_turn():
        session.mark(place, QUEUE_PUT)
        return act()


def _shut_down_in_order(real: Callable[..., None]) -> Callable[..., None]:
    """Return a hook for the end of a queue: whether a thread's put came before it is as in the recorded run."""

    @looks_like(real)
    def hook(self: queue.Queue[Any], immediate: bool = False) -> None:
        here = _putting(_getframe(1)) if _session.live_sessions else None
        if here is None:
            return real(self, immediate)
        return _in_order(here, lambda: real(self, immediate))

    return hook


@looks_like(_create_task)
def create_task(self: asyncio.BaseEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make the task; when the application makes it, its label is given now, not when it first asks."""
    if _session.live_sessions and _carrying() is not None:
        return _own_task(self, coro, options)
    return _create_task(self, coro, **options)


def _own_task(loop: asyncio.BaseEventLoop, coro: Any, options: dict[str, Any]) -> asyncio.Task[Any]:
    strand = new_strand()
    return handing_over(strand, lambda: task(loop, coro, label_of(strand), options), options.get("context"))


@looks_like(_wrap_future)
def wrap_future(future: Any, *, loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Future[Any]:
    """Wrap a pool's future for an event loop; one that goes by its label in sets still does."""
    wrapped = numbered_like(future, loop)
    return _wrap_future(future, loop=loop) if wrapped is None else wrapped


@looks_like(_as_completed)
def as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    """Give the awaitables as they are done; those of the application become tasks in the order given."""
    ours = _session.live_sessions and not asyncio.isfuture(fs) and not asyncio.iscoroutine(fs)
    return _as_completed(InOrder(fs, _as_task) if ours and _carrying() is not None else fs, timeout=timeout)


@looks_like(_futures_as_completed)
def futures_as_completed(fs: Any, timeout: float | None = None) -> Any:
    """Give a pool's futures as they are done; those of the application in the order in which they were."""
    if not _session.live_sessions or _carrying() is None:
        return _futures_as_completed(fs, timeout)
    here = None if timeout is None else waiter(_getframe(1), timeout)
    if here is None:
        return completed(fs, timeout)
    return completed(fs, timeout, lambda seconds, attempt: completed_in_time(here, seconds or 0, attempt))


def _as_task(awaitable: Any) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    if asyncio.iscoroutine(awaitable) and isinstance(loop, asyncio.BaseEventLoop):
        return _own_task(loop, awaitable, {})
    made: asyncio.Future[Any] = asyncio.ensure_future(awaitable)
    return made
