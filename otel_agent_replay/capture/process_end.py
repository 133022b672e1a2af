"""How the program of a process ended: by itself, by an exception that nobody caught, or by `sys.exit` with a code.

Python tells of the first kind of exception (`sys.last_value`) and not of an exit. So `sys.exit` is replaced in
processes that are one run: its last exit is kept until the program ends, and counts if nobody caught it. An exit that
is raised otherwise (`raise SystemExit`) is not seen.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import NamedTuple

from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.errors import ReplayInterrupt

_exit = sys.exit
_getframe = sys._getframe
_hooks = Hooks()


class _Exit(NamedTuple):
    """An exit that was asked for, and the instruction at which the program's outermost frame stood then."""

    error: SystemExit
    outermost: FrameType
    instruction: int


_last: _Exit | None = None


def watch() -> None:
    """Keep the exits of the main thread from now on."""
    if not _hooks:
        _hooks.replace(sys, "exit", leave)


def unwatch() -> None:
    """Put `sys.exit` back."""
    global _last
    _hooks.undo()
    _last = None


@looks_like(_exit)
def leave(*status: object) -> None:
    """Exit the interpreter by raising SystemExit(status)."""
    global _last
    try:
        _exit(*status)  # type: ignore[arg-type]
    except SystemExit as error:
        if threading.current_thread() is threading.main_thread():
            outermost = _getframe()
            while outermost.f_back is not None:
                outermost = outermost.f_back
            _last = _Exit(error, outermost, outermost.f_lasti)
        raise


def failure() -> BaseException | None:
    """Return the exception that ended the program of this process, to be asked at its very end; None for a good end.

    An interrupt of ours is none: it is told by the run that it stopped.
    """
    uncaught = getattr(sys, "last_value", None)
    if isinstance(uncaught, BaseException):
        return None if isinstance(uncaught, ReplayInterrupt) else uncaught
    # A program that caught it went on from there, if only to its end.
    if _last is None or _last.error.code in (None, 0) or _last.outermost.f_lasti != _last.instruction:
        return None
    return _last.error
