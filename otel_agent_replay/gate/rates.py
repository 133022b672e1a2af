"""How often something holds, and how sure that is: a rate with Wilson's interval. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

_Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """`passed` of `tried` trials."""

    passed: int
    tried: int

    @property
    def value(self) -> float:
        """The share that passed, 0 to 1; 0 where nothing was tried."""
        return self.passed / self.tried if self.tried else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true rate lies with 95 % confidence (Wilson's score interval); (0, 1) where nothing was tried.

        >>> [round(bound, 3) for bound in Rate(19, 20).interval]
        [0.764, 0.991]
        """
        if not self.tried:
            return 0.0, 1.0
        share, count, square = self.value, self.tried, _Z95 * _Z95
        middle = (share + square / (2 * count)) / (1 + square / count)
        half = _Z95 * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
        low = 0.0 if self.passed == 0 else max(0.0, middle - half)
        return low, 1.0 if self.passed == self.tried else min(1.0, middle + half)

    def told(self) -> str:
        """Return it in words: `19 of 20 passed (95%; the true rate lies between 76% and 99%)`."""
        low, high = self.interval
        lies = f"the true rate lies between {low:.0%} and {high:.0%}"
        return f"{self.passed} of {self.tried} passed ({self.value:.0%}; {lies})"
