"""Turns of an event loop between the ends of crossings, kept as gaps in the run's sequence numbers.

Two calls that end in the same turn of a loop are both done when their consumer runs; with a turn or two between
them the consumer saw the first alone. A replay must tell the two apart, so after an end the loop's next turns
each use up one sequence number. Where no loop runs, nothing happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

TURNS_COUNTED = 2  # what comes later than this is told apart from "at once" anyway
_running_loop = asyncio._get_running_loop


class Ticker:
    """Counts the turns after an end, one chain of callbacks a run at a time."""

    __slots__ = ("_left", "_loop", "_sequence")

    def __init__(self, sequence: Iterator[int]) -> None:
        self._sequence = sequence
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = 0

    def ended(self) -> None:
        """A crossing has just ended in the running thread."""
        loop = _running_loop()
        if loop is None:
            return
        self._left = TURNS_COUNTED
        if self._loop is not loop:  # else the chain goes on; a chain of a dead loop is given up
            self._loop = loop
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        next(self._sequence)
        self._left -= 1
        if self._left > 0:
            loop.call_soon(self._turn, loop)
        else:
            self._loop = None
