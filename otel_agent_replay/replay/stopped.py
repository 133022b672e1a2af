"""How a replay that was stopped ends its process: with one line that names the application's place, no traceback.

The verdict says the rest; fifty lines of a client library's frames would bury it.
"""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

from otel_agent_replay.boundary.callers import is_application
from otel_agent_replay.errors import AgentReplayError, ReplayInterrupt


def say_shortly() -> None:
    """Make an interrupt that nobody caught print its place; every other exception prints as ever."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, ReplayInterrupt):
            sys.stderr.write(f"agent-replay: the run was stopped{place_of(trace)}\n")
        elif issubclass(kind, AgentReplayError):
            sys.stderr.write(f"agent-replay: {error}\n")
        else:
            before(kind, error, trace)

    sys.excepthook = hook


def place_of(trace: TracebackType | None) -> str:
    """Return ` at FILE:LINE in FUNCTION` for the innermost frame of the application's code, "" when there is none."""
    found = ""
    for frame, line in traceback.walk_tb(trace):
        if is_application(frame):
            found = f" at {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return found
