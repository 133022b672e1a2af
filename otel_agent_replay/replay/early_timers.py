"""Timeouts that fired in a recording fire in its replay without the wait.

A call that was cancelled is held until somebody cancels it again, which is mostly a timer's doing: `wait_for`,
`asyncio.timeout`, `asyncio.wait`. When everything stands still and only a timer of the run can make it go on, the next
one is called early. That is for recordings that do not tell which timers went off (`recorded_waits`): what they tell is
known. Timers of others, and loops that do not show theirs (uvloop), are left to the clock.
"""

from __future__ import annotations

import asyncio
from typing import cast

from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.loop_timers import Patient

_loop_time = asyncio.BaseEventLoop.time  # what timers go by, whatever the loop's clock shows to the run


def call_next_timer(loop: asyncio.AbstractEventLoop, *, within_s: float) -> bool:
    """Call the loop's next timer of a run that goes on now, if it is due within that many seconds; whether it was."""
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled() and _is_of_a_run(timer)]
    if not timers:
        return False
    timer = min(timers, key=asyncio.TimerHandle.when)
    if timer.when() - _loop_time(cast("asyncio.BaseEventLoop", loop)) > within_s:
        return False
    callback, args, context = timer._callback, timer._args, timer._context
    timer.cancel()
    loop.call_soon(callback, *args, context=context)
    return True


def _is_of_a_run(timer: asyncio.TimerHandle) -> bool:
    if isinstance(timer._callback, Patient):  # type: ignore[attr-defined]
        return False  # it did not go off in the recording
    here = timer._context.get(current)  # type: ignore[attr-defined]
    return here is not None and not here[0].closed
