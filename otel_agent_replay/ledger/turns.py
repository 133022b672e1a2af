"""Whose turn it is to write in this process, and what waits for the end of a write.

Garbage collection may end a call in the middle of anything, so also in the middle of a write of the same thread: a
second transaction would then wait for the first for ever. Knows no database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from otel_agent_replay.errors import AgentReplayError, LeaseLost, LedgerError

_log = logging.getLogger("otel_agent_replay")


class _Inside(threading.local):
    """What was put off in the running thread; None while it writes nothing."""

    postponed: list[Callable[[], None]] | None = None


class Turns:
    """The turns of one process. With `one_at_a_time` its threads queue here, not at the database, which only polls."""

    def __init__(self, *, one_at_a_time: bool) -> None:
        self._turn: AbstractContextManager[object] = threading.Lock() if one_at_a_time else nullcontext()
        self._inside = _Inside()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Run the enclosed code in a turn, then what was put off meanwhile. Raises LedgerError inside another turn."""
        inside = self._inside
        if inside.postponed is not None:
            raise LedgerError("this thread is in the middle of another write to the ledger")
        postponed = inside.postponed = []
        try:
            with self._turn:
                yield
        finally:
            inside.postponed = None
            for action in postponed:
                _done_or_said(action)

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` now, or after the running thread's turn."""
        if self._inside.postponed is None:
            action()
        else:
            self._inside.postponed.append(action)


def _done_or_said(action: Callable[[], None]) -> None:
    try:
        action()
    except (AgentReplayError, LeaseLost) as error:
        _log.warning("a write to the ledger was put off, and failed: %s", error)
