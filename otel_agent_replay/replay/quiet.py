"""Whether everything that a released answer set in motion has come to rest.

After an answer has ended, its consumer must have run (and cancelled, or begun something) before the next
answer exists. Here is how one sees that: the event loop has nothing ready, no thread moves. All waits are
bounded and use nothing that the ambient hooks may have replaced.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

_TURNS = 10_000  # most turns given to an event loop whose ready queue can be seen
_BLIND_TURNS = 25  # turns given to a loop that shows no ready queue (uvloop)
_POLL = 0.0005  # seconds between two looks at the threads
_LONGEST = 0.25  # seconds of processor time after which threads that still move are left alone
_LOOKS = 4000  # looks after which they are left alone whatever they used: a starved one may need long
_RESTLESS = 60.0  # seconds after which somebody who still moves is taken to do so for ever
_STILL = 3  # equal looks in a row that count as rest
_SWITCH = 0.0001  # seconds after which a waiting thread asks for the interpreter, while one looks

_monotonic = time.monotonic  # bound at import: our own clock reads are never recorded
_process_time = time.process_time
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
            await one_turn()
        return
    for _ in range(_TURNS):
        await one_turn()
        if not ready:
            return


class _Yield:
    """One turn of the event loop, without `asyncio.sleep`, which may be recorded."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def one_turn() -> None:
    """Let everything else in the running loop that is ready run once."""
    await _Yield()


class _Hurry:
    """Lets threads take the interpreter from each other faster while anybody looks whether they rest.

    A thread that only waits for the interpreter stands as still as one that waits for an event: at the usual 5 ms
    it could miss all the looks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looking = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._looking:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(_SWITCH, self._usual))
            self._looking += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._looking -= 1
            if not self._looking:
                sys.setswitchinterval(self._usual)


_hurry = _Hurry()


def quiet_threads() -> bool:
    """Wait until no other thread moves, or has used up its time; return whether it has come to rest."""
    pause = threading.Event()
    still, before = 0, _positions()
    until = _process_time() + _LONGEST
    with _hurry:
        for _ in range(_LOOKS):
            if not before:
                return True
            pause.wait(_POLL)
            still, before = _compared(still, before)
            if still >= _STILL:
                return True
            if _process_time() > until:
                return False
    return False


async def _quiet_threads_async(loop: asyncio.AbstractEventLoop) -> None:
    still, before = 0, _positions()
    until = _process_time() + _LONGEST
    with _hurry:
        for _ in range(_LOOKS):
            if not before:
                return
            pause = loop.create_future()
            loop.call_later(_POLL, _resolve, pause)
            await pause
            still, before = _compared(still, before)
            if still >= _STILL or _process_time() > until:
                return


def _resolve(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)


class Rest:
    """For how many seconds nothing else has moved while somebody waits for it: no other thread, nothing in `loop`.

    A thread that a busy machine does not let run is ready to, and time in which the looker itself did not run does not
    count, so that nobody is given up for want of a processor. What never comes to rest counts as rest after a minute.
    """

    __slots__ = ("_before", "_began", "_looked", "_loop", "_seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop
        self._before = _positions()
        self._began = self._looked = _monotonic()
        self._seconds = 0.0

    def lasted(self, most: float) -> float:
        """Look again, and return the seconds of rest until now; since the last look at most `most` count."""
        now, before = _monotonic(), self._before
        self._before = _positions()
        still = self._before == before and not _any_running() and not getattr(self._loop, "_ready", None)
        if still or now - self._began > _RESTLESS:
            self._seconds += min(now - self._looked, most)
        self._looked = now
        return self._seconds


_Positions = dict[int, tuple[int, int]]


def _compared(still: int, before: _Positions) -> tuple[int, _Positions]:
    now = _positions()
    return (still + 1 if now == before and not _any_running() else 0), now


def _positions() -> _Positions:
    """Return where every other thread stands: its code and the instruction in it.

    Not its frame: who waits in short waits has a new one for each, and where that lies in memory is by chance.
    """
    own = threading.get_ident()
    return {ident: (id(frame.f_code), frame.f_lasti) for ident, frame in _frames().items() if ident != own}


_COLLECTS_INSIDE = sys.version_info[:2] == (3, 11)
_uncollected = threading.Lock()


def _frames() -> dict[int, FrameType]:
    """Return every thread's frame; in Python 3.11 with the garbage collector off meanwhile.

    That version holds the lock of all thread states while it makes these frames, and may collect garbage in between:
    a finalizer or a callback in Python then gives the interpreter to a thread that waits for that lock for ever
    (https://github.com/python/cpython/issues/106883).
    """
    if not _COLLECTS_INSIDE:
        return sys._current_frames()
    with _uncollected:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _any_running() -> bool:
    """Return whether another thread starts, or the system says that one runs or is ready to."""
    own = threading.get_native_id()
    for thread in threading.enumerate():
        native = thread.native_id
        if native is None:
            return True  # it is being started: it will move, and so will who waits for that
        if native == own or not _HAS_TASKS:
            continue
        try:
            with open(f"/proc/self/task/{native}/stat", "rb", buffering=0) as stat:  # noqa: PTH123 - the hot path
                state = stat.read(512).rpartition(b")")[2][1:2]
        except OSError:
            continue  # it has just ended
        if state == b"R":
            return True
    return False
