"""What the terminal and Markdown say alike of two cohorts: numbers with their unit, metrics in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from otel_agent_replay.compare.cohort import CaseRow, CohortComparison, Judgement, MetricResult
from otel_agent_replay.report import amounts

PATH_LENGTH = 90


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


_SHOWS: dict[str, Callable[[float | None], str]] = {
    "share": _share,
    "distance": _share,
    "ns": amounts.duration,
    "USD": amounts.money,
}


def value_text(value: float | None, unit: str) -> str:
    """Return a metric's value; "" when unknown."""
    return _SHOWS.get(unit, _number)(value)


def difference_text(metric: MetricResult) -> str:
    """Return the difference with its sign and interval; "" when unknown."""
    if metric.difference is None:
        return ""
    text = _signed(metric.difference, metric.unit)
    if metric.low is None or metric.high is None:
        return text
    return f"{text} [{_signed(metric.low, metric.unit)} .. {_signed(metric.high, metric.unit)}]"


def _signed(value: float, unit: str) -> str:
    text = value_text(abs(value), unit) or "0"
    if unit == "distance":
        return text
    if unit == "share":
        text = f"{abs(value) * 100:.1f} points"
    return ("-" if value < 0 else "+") + text


def p_text(metric: MetricResult) -> str:
    """Return the corrected p-value; "" where nothing was tested."""
    if metric.p_adjusted is None:
        return ""
    return "<0.001" if metric.p_adjusted < 0.001 else f"{metric.p_adjusted:.3f}"


def judgement_text(metric: MetricResult) -> str:
    """Return the judgement; where no difference was seen, with the one that would have been."""
    text = metric.judgement.value
    if metric.judgement in (Judgement.NOT_SEEN, Judgement.NOT_ENOUGH) and metric.smallest_effect is not None:
        seen = _signed(metric.smallest_effect, metric.unit).lstrip("+")
        return f"{text} (from {seen} on it would have been)"
    return text


def metric_rows(comparison: CohortComparison) -> Iterator[tuple[MetricResult, list[str]]]:
    """Yield each metric with its cells: name, A, baseline where there is one, B, difference, p, judgement."""
    for metric in comparison.metrics:
        lanes = [metric.a, metric.baseline, metric.b] if comparison.baseline else [metric.a, metric.b]
        yield (
            metric,
            [
                metric.name,
                *(value_text(value, metric.unit) for value in lanes),
                difference_text(metric),
                p_text(metric),
                judgement_text(metric),
            ],
        )


def metric_head(comparison: CohortComparison) -> list[str]:
    """Return the heads of these cells."""
    lanes = ["A", "baseline", "B"] if comparison.baseline else ["A", "B"]
    against = "B - baseline" if comparison.baseline else "B - A"
    return ["metric", *lanes, against, "p", "judgement"]


def cut(text: str) -> str:
    """Return a tool path that fits on a line, and how much was left out."""
    if len(text) <= PATH_LENGTH:
        return text
    return f"{text[:PATH_LENGTH]}… ({len(text) - PATH_LENGTH} more characters)"


def worst_cases(comparison: CohortComparison) -> Sequence[CaseRow]:
    """Return the cases that differ, those that B's runs agree on most and that part most first."""
    found = [case for case in comparison.cases if case.differs]
    return sorted(found, key=lambda case: (-_parting(case), case.key))


def _parting(case: CaseRow) -> float:
    return sum(0.0 if pair.is_same else 1 + pair.changes for pair in case.pairs) / len(case.pairs)
