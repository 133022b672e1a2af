"""One budget for the live trials of a gate, also of those side by side. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_TINY = 1e-12  # US dollars: what rounding may cost


@dataclass(slots=True)
class Grant:
    """What a trial may spend (`usd`, None: as much as it wants) and what it has `used`; not `fits`: it may not begin.

    `left` is what was left of the budget then.
    """

    fits: bool
    usd: float | None = None
    left: float = 0.0
    used: float = 0.0


class Budget:
    """What is left of `usd` (None: no limit) for trials of which `side_by_side` run at a time.

    A trial begins when its forecast fits into its share of what is free: an equal one among those that may run beside
    it, or all of it when none does. While others hold what it needs, it waits: they give back what they did not use.
    """

    def __init__(self, usd: float | None, *, side_by_side: int = 1) -> None:
        self._free = usd
        self._slots = side_by_side
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def trial(self, forecast: float | None) -> Iterator[Grant]:
        """Take what a trial of this forecast (US dollars, None: unknown) may spend; what it has `used` is spent."""
        grant = self._granted(forecast)
        try:
            yield grant
        finally:
            with self._changed:
                if grant.fits:
                    self._running -= 1
                if self._free is not None and grant.usd is not None:
                    self._free += grant.usd - grant.used
                self._changed.notify_all()

    def _granted(self, forecast: float | None) -> Grant:
        with self._changed:
            while True:
                if self._free is None:
                    self._running += 1
                    return Grant(fits=True)
                free = max(0.0, self._free)
                if forecast is None:
                    return Grant(fits=False, left=free)
                share = free / max(1, self._slots - self._running)
                if self._running == 0 and forecast > share:
                    share = free
                if forecast <= share + _TINY:
                    self._running += 1
                    self._free -= share
                    return Grant(fits=True, usd=share, left=free)
                if self._running == 0:
                    return Grant(fits=False, left=free)
                self._changed.wait()
