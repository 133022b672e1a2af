"""Drills: this process is killed at a chosen point of a chosen step, as a crash would kill it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.errors import ConfigurationError

POINTS = ("before", "during", "after")


def killer(kill_at: str) -> Callable[[str, Place], None]:
    """Return what kills this process at `before:STEP` (nothing of it is known), `during:STEP` (the call was made,
    its end is not recorded) or `after:STEP` (its end is recorded).

    Raises ConfigurationError for anything else.
    """
    point, _, number = kill_at.partition(":")
    if point not in POINTS or not number.isdecimal():
        raise ConfigurationError(f"a drill is before:STEP, during:STEP or after:STEP, not {kill_at!r}")
    wanted = int(number)

    def drill(where: str, place: Place) -> None:
        if where == point and place.step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return drill
