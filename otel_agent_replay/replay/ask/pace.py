"""How fast, how much and how far: a rate of questions, a budget of money, a number of calls.

Pure but for the clock and the waiting, which can be given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.ask.client import Patience

_UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much, how fast and how often: each step `repeats` times a lane, `parallel` at once, `per_second` at most.

    `usd` and `calls` bound what is asked over all goes at the results file. `again` asks once more what is in doubt.
    """

    repeats: int = 1
    parallel: int = 4
    per_second: float | None = None
    usd: float | None = None
    calls: int | None = None
    again: bool = False
    patience: Patience = field(default_factory=Patience)


def parse_rate(text: str) -> float:
    """Return the questions a second of a rate like `60/min`. Raises ConfigurationError."""
    number, slash, unit = text.partition("/")
    try:
        rate = float(number) / _UNITS[unit.strip().rstrip(".") if slash else "min"]
    except (ValueError, KeyError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ConfigurationError(f"--rate {text!r} is not N/s, N/min or N/h, like 60/min")
    return rate


class Pace:
    """Lets through so many a second, evenly: no two within the same interval. For any number of threads."""

    def __init__(
        self,
        per_second: float | None,
        *,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._interval = 0.0 if per_second is None else 1 / per_second
        self._now = now
        self._wait = wait
        self._next = now()
        self._lock = threading.Lock()

    def ready_in(self) -> float:
        """Return the seconds until the next question may be sent."""
        return max(0.0, self._next - self._now()) if self._interval else 0.0

    def take(self) -> None:
        """Wait until the next question may be sent, and count it as sent."""
        if not self._interval:
            return
        with self._lock:
            moment = self._now()
            turn = max(moment, self._next)
            self._next = turn + self._interval
        if turn > moment:
            self._wait(turn - moment)


@dataclass(slots=True)
class Budget:
    """What may still be asked: `usd` of money and `calls` questions over all goes, None: no bound.

    A question is let through when what is spent, what those under way may cost at most and what it may cost at most
    fit into the budget.
    """

    usd: float | None = None
    calls: int | None = None
    spent_usd: float = 0.0
    spent_calls: int = 0
    under_way_usd: float = 0.0

    def why_not(self, most_usd: float | None) -> str:
        """Return why a question that may cost `most_usd` is not let through, "" when it is."""
        if self.calls is not None and self.spent_calls >= self.calls:
            return f"--max-calls {self.calls} is reached"
        if self.usd is not None:
            if most_usd is None:
                return "no price is known, so --budget cannot be held"
            if self.spent_usd + self.under_way_usd + most_usd > self.usd:
                return f"--budget {self.usd:g} is reached (${self.spent_usd:.4f} spent)"
        return ""

    def take(self, most_usd: float | None) -> None:
        """Count a question that is let through."""
        self.spent_calls += 1
        self.under_way_usd += most_usd or 0.0

    def settle(self, most_usd: float | None, cost_usd: float | None) -> None:
        """Count what it cost; None: nobody knows, so what it may have cost at most."""
        self.under_way_usd -= most_usd or 0.0
        self.spent_usd += (most_usd or 0.0) if cost_usd is None else cost_usd

    def give_back(self, most_usd: float | None) -> None:
        """Count a question that was never answered, and not paid for, as not asked."""
        self.under_way_usd -= most_usd or 0.0
        self.spent_calls -= 1
