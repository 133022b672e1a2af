"""Durations as cases write them. Pure."""

from __future__ import annotations

import re

_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def duration_ns(given: float | str) -> int:
    """Return the nanoseconds of a number of seconds, or of a text like `1h30m`.

    >>> duration_ns("1m30s")
    90000000000
    """
    if isinstance(given, str):
        return sum(round(float(amount) * _UNITS_NS[unit]) for amount, unit in _AMOUNT.findall(given))
    return round(given * 1e9)
