"""How many turns of its event loop lay between two recorded ends, and the same turns in a replay.

Two calls that end in one turn of a loop are both done when whoever waits for the first comes to act; with a turn or
two between them it sees the first alone. The recording tells which (`boundary.ticks`: turns use up sequence numbers),
and the same chain of callbacks, run again, tells when the next may end. Calls that ended in one turn are let go in one
turn, however many they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from otel_agent_replay.boundary.ticks import TURNS_COUNTED, Ticker
from otel_agent_replay.replay.quiet import one_turn
from otel_agent_replay.replay.tape import Tape


class RecordedTurns:
    """The turns that one recording counted between its ends."""

    def __init__(self, tape: Tape) -> None:
        self._numbers = tape.numbers()
        # A recording without any gap did not count turns.
        self.counted = bool(self._numbers) and len(self._numbers) < self._numbers[-1]

    def between(self, first: int, second: int) -> int:
        """Return how many turns were counted between two of its sequence numbers."""
        used = bisect_right(self._numbers, second) - bisect_right(self._numbers, first)
        return second - first - used


class ReplayedTurns(Iterator[int]):
    """Counts the turns after an end as the recorder does, with the same chain of callbacks in the same places."""

    def __init__(self) -> None:
        self._ticker = Ticker(self)
        self._now = 0
        self._at_end = 0

    def ended(self) -> None:
        """A call has just ended in the running loop, and others wait for their turn."""
        self._at_end = self._now
        self._ticker.ended()

    def __next__(self) -> int:
        """A turn of the loop has come."""
        self._now += 1
        return self._now

    async def passed(self, turns: int) -> None:
        """Let that many turns of the running loop be counted since the last end; go on before the next one is."""
        for _ in range(TURNS_COUNTED):
            if self._now - self._at_end >= turns:
                return
            await one_turn()
