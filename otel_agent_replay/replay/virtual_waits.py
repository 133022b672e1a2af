"""Virtual time: only waits take any, and a wait of thirty minutes is over at once.

Waits that lie side by side overlap, and end in the order of their wake-up times as far as they are known: a task that
begins its wait more than a few turns of the loop after another one is taken for a later one. Timers of the event
loop itself are untouched.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Call, Outcome, OutcomeStatus
from otel_agent_replay.payload.codec import decode

_asyncio_sleep = asyncio.sleep  # bound at import: our own yields are no waits of the application
_TURNS = 4  # of the loop, in which tasks that were started together all begin their waits
_DONE = Outcome(OutcomeStatus.OK)


class VirtualWaits:
    """The time that passed, and the waits that are on. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._elapsed_ns = 0
        self._waiting: list[_Wait] = []

    @property
    def elapsed_ns(self) -> int:
        """How many nanoseconds have passed."""
        return self._elapsed_ns

    def begun(self, call: Call) -> _Wait:
        """Return the answer to a wait (a call of kind sleep) that begins now."""
        data = call.request.data
        value: Any = None if data is None else decode(data)
        seconds = value.get("seconds") if isinstance(value, dict) else None
        if not isinstance(seconds, (int, float)):
            raise DamagedRecording(f"a wait says how many seconds it takes, not {value!r}")
        with self._lock:
            wait = _Wait(self, self._elapsed_ns + int(seconds * 1e9))
            self._waiting.append(wait)
        return wait

    def pass_until(self, elapsed_ns: int) -> None:
        """Let time pass until `elapsed_ns` have, if they have not yet."""
        with self._lock:
            self._elapsed_ns = max(self._elapsed_ns, elapsed_ns)

    def over(self, wait: _Wait) -> None:
        """Told that `wait` is over, or given up."""
        with self._lock:
            if wait in self._waiting:
                self._waiting.remove(wait)

    def is_next(self, wait: _Wait) -> bool:
        """Whether no other wait is over before."""
        with self._lock:
            return all(wait.wakes_ns <= other.wakes_ns for other in self._waiting)


class _Wait:
    """One wait as an answered crossing; implements `crossing.Answer`."""

    __slots__ = ("_waits", "origin_step", "outcome", "same_request", "wakes_ns")

    def __init__(self, waits: VirtualWaits, wakes_ns: int) -> None:
        self._waits = waits
        self.wakes_ns = wakes_ns
        self.outcome = _DONE
        self.origin_step: int | None = None
        self.same_request = True

    def settle(self) -> None:
        """Let the time pass, at once."""
        self._waits.pass_until(self.wakes_ns)

    async def settle_async(self) -> None:
        """Let the others that wake up earlier go first, then let the time pass."""
        for _ in range(_TURNS):
            await _asyncio_sleep(0)
        while not self._waits.is_next(self):
            await _asyncio_sleep(0)
        self._waits.pass_until(self.wakes_ns)

    def done(self) -> None:
        """Told once the wait is over or was cancelled."""
        self._waits.over(self)
