"""What became of a wait with a deadline, as a recording tells it: who gave up does so again, at its turn, at once.

A wait that came is really made, for its peer has to give what is waited for; its deadline does not count. When nothing
has moved for as long as the deadline it is given up all the same, and the run says that its order was not imposed.
"""

from __future__ import annotations

from collections.abc import Callable

from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import Read
from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.quiet import Rest
from otel_agent_replay.replay.tape import Tape, ThreadEnd

_SHORTEST_REST = 0.25  # seconds of rest that any wait is given
_LONGEST_REST = 60.0  # seconds, whatever the deadline


class RecordedWait:
    """One wait on a tape; implements `boundary.deadlines.RecordedWait`.

    `stopped` gives the interrupt of a replay that has stopped.
    """

    __slots__ = ("_order", "_stopped", "_tape", "read")

    def __init__(
        self, read: Read, tape: Tape, order: CompletionOrder, stopped: Callable[[], ReplayInterrupt | None]
    ) -> None:
        self.read = read
        self._tape = tape
        self._order = order
        self._stopped = stopped

    def settle(self) -> None:
        """Block until it is its turn. Raises the interrupt of a stopped replay."""
        end = self._tape.thread_ends.get(self.read.sequence)
        if end is not None:
            self._order.settle(end)
            self._order.ended(end)
        self._check()

    def patience(self, deadline_s: float, tick_s: float) -> Callable[[], bool]:
        """Return what tells, each `tick_s` seconds, whether it may still come. It raises as `settle` does."""
        rest = Rest()
        most = min(max(deadline_s, _SHORTEST_REST), _LONGEST_REST)

        def may_come() -> bool:
            self._check()
            if rest.lasted(tick_s) <= most:
                return True
            self._order.gave_up(self._tape, ThreadEnd(self.read))
            return False

        return may_come

    def _check(self) -> None:
        interrupt = self._stopped()
        if interrupt is not None:
            raise interrupt
