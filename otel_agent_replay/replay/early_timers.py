"""Timeouts that fired in a recording fire in its replay without the wait.

A call that was cancelled is held until somebody cancels it again, which is mostly a timer's doing: `wait_for`,
`asyncio.timeout`, `asyncio.wait`. When everything stands still and only a timer of the run can make it go on, the next
one is called early. Timers of others, and loops that do not show theirs (uvloop), are left to the clock; so are timers
that look at the loop's own clock when they are called (anyio's), which is never faked.
"""

from __future__ import annotations

import asyncio

from otel_agent_replay.boundary.crossing import current


def call_next_timer(loop: asyncio.AbstractEventLoop, *, within_s: float) -> bool:
    """Call the loop's next timer of a run that goes on now, if it is due within that many seconds; whether it was."""
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled() and _is_of_a_run(timer)]
    if not timers:
        return False
    timer = min(timers, key=asyncio.TimerHandle.when)
    if timer.when() - loop.time() > within_s:
        return False
    callback, args, context = timer._callback, timer._args, timer._context
    timer.cancel()
    loop.call_soon(callback, *args, context=context)
    return True


def _is_of_a_run(timer: asyncio.TimerHandle) -> bool:
    here = timer._context.get(current)  # type: ignore[attr-defined]
    return here is not None and not here[0].closed
