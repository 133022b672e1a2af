"""What became of a wait with a deadline, as a recording tells it: who gave up does so again, at its turn, at once.

A wait that came is really made, for its peer has to give what is waited for; its deadline does not count. When nothing
has moved for as long as the deadline it is given up all the same, and the run says that its order was not imposed.
Likewise a timer of an event loop that went off does so at its turn, and one that was cancelled has patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import Read
from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.quiet import Rest
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import ThreadEnd

_SHORTEST_REST = 0.25  # seconds of rest that any wait is given
_LONGEST_REST = 60.0  # seconds, whatever the deadline


class TapedWait:
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

    def timer(
        self,
        loop: asyncio.AbstractEventLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` in `loop` at the turn, and return what cancels that."""
        return _Due(loop, self._order, self._tape.thread_ends.get(self.read.sequence), callback, args, context)

    def patience(
        self, deadline_s: float, tick_s: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> Callable[[], bool]:
        """Return what tells, each `tick_s` seconds, whether it may still come. It raises as `settle` does."""
        order = self._order
        rest, marks = Rest(loop), order.turns_taken
        most = min(max(deadline_s, _SHORTEST_REST), _LONGEST_REST)

        def may_come() -> bool:
            nonlocal rest, marks
            self._check()
            if order.turns_taken != marks:
                rest, marks = Rest(loop), order.turns_taken
            if rest.lasted(tick_s) <= most:
                return True
            order.gave_up(self._tape, ThreadEnd(self.read))
            return False

        return may_come

    def _check(self) -> None:
        interrupt = self._stopped()
        if interrupt is not None:
            raise interrupt


class _Due(asyncio.TimerHandle):
    """A timer that goes off at its turn, in no time."""

    __slots__ = ("_end", "_order", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        order: CompletionOrder,
        end: ThreadEnd | None,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        super().__init__(loop.time(), callback, args, loop, context)
        self._order = order
        self._end = end
        # In a context of its own: it is nobody's task but ours.
        self._waiting = Context().run(loop.create_task, self._wait(loop))

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._end is not None:
            await self._order.settle_async(self._end)
        loop.call_soon(self._go_off)

    def _go_off(self) -> None:
        if not self.cancelled():
            self._tell()
            self._run()

    def _tell(self) -> None:
        if self._end is not None:
            self._order.ended(self._end)
            self._end = None

    def cancel(self) -> None:
        """Do not go off; who comes next in the order waits for this one no longer."""
        if not self.cancelled():
            self._tell()
            if not self._waiting.get_loop().is_closed():
                self._waiting.cancel()
        super().cancel()
