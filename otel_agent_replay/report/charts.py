"""Distributions as inline SVG that needs no script, each with a table that says the same. Numbers in, HTML out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.report.html import table, text
from otel_agent_replay.report.safe_text import shortened

_WIDTH, _BAR, _GAP = 640, 12, 10
_LABEL = 250
_NAMES = 40  # characters of a label


@dataclass(frozen=True, slots=True)
class Bars:
    """One thing on both sides: shares or numbers from 0, in `unit` as text; `base` is the baseline lane's."""

    name: str
    a: float
    b: float
    a_text: str
    b_text: str
    base: float | None = None
    base_text: str = ""


def bar_chart(title: str, bars: Sequence[Bars]) -> str:
    """Return a chart of horizontal bars, A over B (over the baseline lane), and its table; "" for no bars."""
    if not bars:
        return ""
    top = max(max(one.a, one.b, one.base or 0.0) for one in bars) or 1.0
    lanes = 2 if all(one.base is None for one in bars) else 3
    height = len(bars) * (lanes * _BAR + _GAP)
    drawn = "\n".join(_drawn(one, number * (lanes * _BAR + _GAP), top) for number, one in enumerate(bars))
    heads = ["", "A", "B", *(["Baseline"] if lanes == 3 else [])]
    rows = [[one.name, one.a_text, one.b_text, *([one.base_text] if lanes == 3 else [])] for one in bars]
    return (
        f'<figure><figcaption>{text(title)}</figcaption>\n<svg class="chart" role="img" aria-label="{text(title)}: '
        f'the table below says the same" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">\n{drawn}\n'
        f"</svg>\n{table(title, heads, rows)}</figure>"
    )


def _drawn(bars: Bars, top: float, most: float) -> str:
    parts = [f'<text x="0" y="{top + _BAR}">{text(shortened(bars.name, _NAMES))}</text>']
    lanes = [("a", bars.a, bars.a_text), ("b", bars.b, bars.b_text)]
    if bars.base is not None:
        lanes.append(("base", bars.base, bars.base_text))
    for number, (lane, value, told) in enumerate(lanes):
        y = top + number * _BAR
        width = (_WIDTH - _LABEL - 90) * value / most
        parts.append(f'<rect class="{lane}" x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR - 2}"/>')
        letter = "" if lane == "base" else f"{lane.upper()} "
        parts.append(f'<text x="{_LABEL + width + 4:.1f}" y="{y + _BAR - 2}">{letter}{text(told)}</text>')
    return "\n".join(parts)


def histogram(title: str, a: Sequence[float], b: Sequence[float], show: object = None, bins: int = 8) -> str:
    """Return how the numbers of both sides are spread over equal classes; `show` makes a number text."""
    if not a or not b:
        return ""
    render = show if callable(show) else (lambda value: f"{value:,.0f}")
    low, high = min(*a, *b), max(*a, *b)
    if low == high:
        bins = 1
    size = (high - low) / bins or 1.0
    counted = [[0] * bins, [0] * bins]
    for side, values in enumerate((a, b)):
        for value in values:
            counted[side][min(bins - 1, int((value - low) / size))] += 1
    bars = [
        Bars(
            f"{render(low + place * size)} to {render(low + (place + 1) * size)}" if bins > 1 else render(low),
            one / len(a),
            other / len(b),
            f"{one / len(a):.0%} ({one})",
            f"{other / len(b):.0%} ({other})",
        )
        for place, (one, other) in enumerate(zip(*counted, strict=True))
    ]
    return bar_chart(title, bars)
