"""Numbers for people: durations, tokens, money, changes with their base."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agent_replay.compare import Measure


def duration(nanoseconds: float | None) -> str:
    """Return nanoseconds in a unit that fits; "" when unknown.

    >>> duration(1_500_000)
    '1.5 ms'
    """
    if nanoseconds is None:
        return ""
    for size, unit in ((60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def money(dollars: float | None) -> str:
    """Return US dollars; "" when unknown."""
    return "" if dollars is None else f"${dollars:.6f}".rstrip("0").rstrip(".")


def count(number: float | None) -> str:
    """Return a whole number with thousands separated; "" when unknown."""
    return "" if number is None else f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """Return how many there are of what a noun in the singular names, thousands separated.

    >>> counted(1, "run"), counted(2_000, "loss")
    ('1 run', '2,000 losses')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def change(measure: Measure, show: object = None) -> str:
    """Return `before -> after (+x%)`; one side alone where the other is unknown; "" when both are."""
    render = show if callable(show) else count
    if measure.before is None and measure.after is None:
        return ""
    if measure.before is None or measure.after is None:
        known, side = (measure.after, "B") if measure.before is None else (measure.before, "A")
        return f"{render(known)} in {side} only"
    if measure.before == measure.after:
        return f"{render(measure.before)}, the same"
    share = "" if measure.relative is None else f" ({measure.relative:+.1%} of A)"
    return f"{render(measure.before)} -> {render(measure.after)}{share}"
