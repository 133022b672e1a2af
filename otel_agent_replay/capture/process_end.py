"""How the program of a process ended: by itself, by an exception that nobody caught, or by an exit with a code.

Python tells of the first kind of exception (`sys.last_value`) and not of an exit: it reads the `code` of a SystemExit
that came through to it, and ends. So that member is hooked, in its type's dict, in processes that are one run; whoever
reads it with no code of Python's below is the interpreter. Where the dict is out of reach an exit is not told, nor is
that of a subclass with a `code` in its own body: the interpreter reads that one, and nothing of Python's is asked then.
To stand there the application's own class would have to be changed. A subclass that sets `self.code` is told.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.errors import ReplayInterrupt

_exit = sys.exit
_getframe = sys._getframe
_code = vars(SystemExit)["code"]
_hooks = Hooks()
_ended_by: SystemExit | None = None


def watch() -> None:
    """Look from now on which exit ends the interpreter."""
    if _hooks:
        return
    with contextlib.suppress(RuntimeError):
        _hooks.replace_in_type(SystemExit, "code", _Code())
        if sys.version_info < (3, 12):
            _hooks.replace(sys, "exit", leave)


def unwatch() -> None:
    """Put back what was hooked."""
    global _ended_by
    _hooks.undo()
    _ended_by = None


class _Code:
    """The member `code` of an exit, which notices the interpreter."""

    def __get__(self, error: SystemExit | None, owner: type | None = None) -> Any:
        """Return the code."""
        global _ended_by
        if error is not None and _getframe().f_back is None:
            _ended_by = error
        return _code.__get__(error, owner)

    def __set__(self, error: SystemExit, code: object) -> None:
        """Set the code."""
        _code.__set__(error, code)

    def __delete__(self, error: SystemExit) -> None:
        """Forget the code."""
        _code.__delete__(error)


@looks_like(_exit)
def leave(*status: object) -> None:
    """Exit the interpreter by raising SystemExit(status)."""
    # What C code raises becomes an exception with a code only where Python code catches it, before Python 3.12.
    try:
        _exit(*status)  # type: ignore[arg-type]
    except SystemExit:  # noqa: TRY203
        raise


def failure() -> BaseException | None:
    """Return the exception that ended the program of this process, to be asked at its very end; None for a good end.

    An interrupt of ours is none: it is told by the run that it stopped.
    """
    uncaught = getattr(sys, "last_value", None)
    if isinstance(uncaught, BaseException):
        return None if isinstance(uncaught, ReplayInterrupt) else uncaught
    return None if _ended_by is None or _ended_by.code in (None, 0) else _ended_by
