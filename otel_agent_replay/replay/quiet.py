"""Whether everything that a released answer set in motion has come to rest.

After an answer has ended, its consumer must have run (and cancelled, or begun something) before the next
answer exists. Here is how one sees that: the event loop has nothing ready, no thread moves. All waits are
bounded and use nothing that the ambient hooks may have replaced.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path

_TURNS = 10_000  # most turns given to an event loop whose ready queue can be seen
_BLIND_TURNS = 25  # turns given to a loop that shows no ready queue (uvloop)
_POLL = 0.0005  # seconds between two looks at the threads
_LONGEST = 0.05  # seconds after which threads that still move are left alone
_STILL = 2  # equal looks in a row that count as rest

_current_frames = sys._current_frames
_TASKS = Path("/proc/self/task")
_HAS_TASKS = _TASKS.is_dir()


def threads_are_alone() -> bool:
    """Return whether the running thread is the only one, so that nothing can happen while it waits."""
    return threading.active_count() <= 1


def loop_is_idle(loop: asyncio.AbstractEventLoop, *, ignoring: Callable[..., object]) -> bool:
    """Return whether the loop has nothing ready and no timer but those that call the method `ignoring`.

    False where that cannot be seen.
    """
    ready = getattr(loop, "_ready", None)
    timers = getattr(loop, "_scheduled", None)
    if ready is None or timers is None:
        return False
    return not ready and all(
        timer.cancelled() or getattr(timer._callback, "__func__", None) is ignoring for timer in timers
    )


async def quiet_loop(*, threads: bool) -> None:
    """Yield until nothing else in this event loop is ready to run; with `threads`, until no thread moves either."""
    loop = asyncio.get_running_loop()
    if threads:
        await _quiet_threads_async(loop)
    ready = getattr(loop, "_ready", None)
    if ready is None:
        for _ in range(_BLIND_TURNS):
            await _yield()
        return
    for _ in range(_TURNS):
        await _yield()
        if not ready:
            return


class _Yield:
    """One turn of the event loop, without `asyncio.sleep`, which may be recorded."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def _yield() -> None:
    await _Yield()


def quiet_threads() -> None:
    """Wait until no other thread moves, at most 50 ms."""
    pause = threading.Event()
    still, before = 0, _positions()
    for _ in range(int(_LONGEST / _POLL)):
        if not before:
            return
        pause.wait(_POLL)
        still, before = _compared(still, before)
        if still >= _STILL:
            return


async def _quiet_threads_async(loop: asyncio.AbstractEventLoop) -> None:
    still, before = 0, _positions()
    for _ in range(int(_LONGEST / _POLL)):
        if not before:
            return
        pause = loop.create_future()
        loop.call_later(_POLL, _resolve, pause)
        await pause
        still, before = _compared(still, before)
        if still >= _STILL:
            return


def _resolve(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)


_Positions = dict[int, tuple[int, int]]


def _compared(still: int, before: _Positions) -> tuple[int, _Positions]:
    now = _positions()
    return (still + 1 if now == before and not _any_running() else 0), now


def _positions() -> _Positions:
    """Return where every other thread stands: its frame and the instruction in it."""
    own = threading.get_ident()
    return {ident: (id(frame), frame.f_lasti) for ident, frame in _current_frames().items() if ident != own}


def _any_running() -> bool:
    """Return whether the system says that another thread runs or is ready to; False where it does not say."""
    if not _HAS_TASKS:
        return False
    own = threading.get_native_id()
    for thread in threading.enumerate():
        native = thread.native_id
        if native is None or native == own:
            continue
        try:
            with open(f"/proc/self/task/{native}/stat", "rb", buffering=0) as stat:  # noqa: PTH123 - the hot path
                state = stat.read(512).rpartition(b")")[2][1:2]
        except OSError:
            continue  # it has just ended
        if state == b"R":
            return True
    return False
