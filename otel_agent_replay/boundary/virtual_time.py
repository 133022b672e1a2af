"""Virtual time at the event loop: its timers and its clock, for the code of a run whose time is virtual.

Hook: `BaseEventLoop.time` and `BaseEventLoop.call_at` are replaced at the class, because `asyncio.timeout`, `wait_for`,
`call_later`, anyio's scopes and aiohttp's timeouts all end there. The loop itself goes on by the real clock: what it
asks for its own turns is answered as ever. Installed only where a run's time is virtual (`Session.virtual_time`), never
while recording. uvloop has a clock of its own and is not covered.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextvars import Context
from types import FrameType
from typing import Any, Protocol

from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.hooks import Hooks, looks_like

_getframe = sys._getframe
_time = asyncio.BaseEventLoop.time
_call_at = asyncio.BaseEventLoop.call_at
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]
_SHUTDOWN = asyncio.BaseEventLoop.shutdown_default_executor.__code__
_DEEPEST = 8  # frames between a loop's own shutdown and its timer

hooks = Hooks()


class VirtualTime(Protocol):
    """A time in which only waits take any. Implemented outside `boundary`."""

    def pass_s(self, seconds: float) -> None:
        """Let that many seconds pass, in a plain thread."""

    def monotonic(self) -> float:
        """Return what clocks without a date show, event loops' among them, in seconds."""

    def wait_for(self, happened: Callable[[float], bool], seconds: float) -> bool:
        """Wait in a plain thread until `happened` or that many seconds have passed; return whether it has.

        `happened(real_seconds)` waits that long at most and says whether it has.
        """

    def timer(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` in `loop` once its clock shows `when`, and return what cancels that."""


def install() -> None:
    """Replace the loop's clock and timers."""
    if not hooks:
        hooks.replace(asyncio.BaseEventLoop, "time", time)
        hooks.replace(asyncio.BaseEventLoop, "call_at", call_at)


def uninstall() -> None:
    """Put them back."""
    hooks.undo()


def _here() -> VirtualTime | None:
    here = current.get()
    return None if here is None or here[0].closed else here[0].virtual_time


@looks_like(_time)
def time(self: asyncio.BaseEventLoop) -> float:
    """Return the time according to the event loop's clock, as the running code is to see it."""
    virtual = _here()
    if virtual is None:
        return _time(self)
    caller = _getframe(1)
    return _time(self) if caller.f_code is _RUN_ONCE or _shuts_down(caller) else virtual.monotonic()


@looks_like(_call_at)
def call_at(
    self: asyncio.BaseEventLoop,
    when: float,
    callback: Callable[..., object],
    *args: Any,
    context: Context | None = None,
) -> asyncio.TimerHandle:
    """Call the callback at `when`, in virtual time where the running code lives in it."""
    virtual = _here()
    if virtual is None or when is None or _shuts_down(_getframe(1)):
        return _call_at(self, when, callback, *args, context=context)
    self._check_closed()  # type: ignore[attr-defined]
    return virtual.timer(self, when, callback, args, context)


def _shuts_down(frame: FrameType | None) -> bool:
    """Whether a loop is waiting for its own threads to end: that takes real time, since Python 3.12 with a deadline."""
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code is _RUN_ONCE:
            return False
        if frame.f_code is _SHUTDOWN:
            return True
        frame = frame.f_back
    return False
