"""`compare_cohorts(cases)`: summaries of cases in, everything that may be said of two cohorts out. Pure.

The order of the cases changes nothing; `compare_cohorts` of the mirrored cases is the mirror.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from otel_agent_replay.compare.cohort import (
    CaseRow,
    CohortComparison,
    CohortVerdict,
    Judgement,
    LaneRun,
    MetricResult,
    PairSummary,
    ShareOf,
    ToolArguments,
    Unpaired,
)
from otel_agent_replay.compare.comparison import Verdict
from otel_agent_replay.compare.departure import Cause
from otel_agent_replay.compare.metrics import causes_of, metric_results
from otel_agent_replay.compare.statistics import ALPHA


def compare_cohorts(
    cases: Iterable[CaseRow],
    *,
    a: str,
    b: str,
    baseline: str = "",
    unpaired: Unpaired | None = None,
    alpha: float = ALPHA,
    seed: str = "compare",
    drawn: Mapping[str, object] | None = None,
) -> CohortComparison:
    """Compare side B with side A, case by case. `a`, `b` and `baseline` say what the lanes are.

    `alpha` is the chance of any false alarm over all metrics, `seed` what random draws begin with.
    """
    rows = sorted(cases, key=lambda case: case.key)
    unpaired = unpaired or Unpaired()
    metrics = metric_results(rows, alpha=alpha, seed=seed)
    pairs = [pair for case in rows for pair in case.pairs]
    others = [pair for case in rows for pair in (*case.baseline_pairs, *case.a_pairs)]
    verdict = _verdict(pairs, metrics)
    return CohortComparison(
        a=a,
        b=b,
        baseline=baseline,
        verdict=verdict,
        sentence=_sentence(verdict, rows, pairs, metrics),
        cases=rows,
        unpaired=unpaired,
        metrics=metrics,
        tool_paths=_shares(rows, lambda run: {" > ".join(run.tool_path) or "no tool": 1}),
        arguments=list(_arguments(rows)),
        answer_sources=_shares(rows, lambda run: dict(run.answers)),
        effects=_shares(rows, lambda run: dict(run.effects)),
        verdicts=_counted(pairs),
        baseline_verdicts=_counted([pair for case in rows for pair in case.baseline_pairs]),
        causes=causes_of(pairs),
        notes=list(_notes(rows, pairs, unpaired, has_baseline=bool(baseline))),
        alpha=alpha,
        seed=seed,
        by_digest=sum(pair.by_digest for pair in (*pairs, *others)),
        drawn=drawn or {},
    )


def _verdict(pairs: Sequence[PairSummary], metrics: Sequence[MetricResult]) -> CohortVerdict:
    if not pairs:
        return CohortVerdict.CANNOT_JUDGE
    if any(metric.judgement is Judgement.DIFFERENT for metric in metrics):
        return CohortVerdict.DIFFERENT
    if all(pair.is_same for pair in pairs):
        return CohortVerdict.SAME
    unseen = [pair for pair in pairs if pair.verdict is Verdict.NOT_COMPARABLE and pair.cause is not Cause.REDACTION]
    if 2 * len(unseen) > len(pairs):  # a redacted value hides why two runs part, not what they came to
        return CohortVerdict.CANNOT_JUDGE
    judged = {metric.judgement for metric in metrics}
    enough = Judgement.NOT_SEEN in judged or Judgement.WITHIN_NOISE in judged
    return CohortVerdict.SAME if enough else CohortVerdict.CANNOT_JUDGE


def _sentence(
    verdict: CohortVerdict, rows: Sequence[CaseRow], pairs: Sequence[PairSummary], metrics: Sequence[MetricResult]
) -> str:
    if not pairs:
        return "There is no pair to compare."
    same = sum(pair.is_same for pair in pairs)
    counted = f"{len(rows):,} cases, {len(pairs):,} pairs, {same:,} of them the same"
    if verdict is CohortVerdict.DIFFERENT:
        different = [metric.name for metric in metrics if metric.judgement is Judgement.DIFFERENT]
        return f"B differs from A beyond noise in {', '.join(different)} ({counted})."
    if verdict is CohortVerdict.CANNOT_JUDGE:
        return f"Not enough to judge by: {counted}."
    return f"B does not differ from A beyond noise: {counted}."


def _notes(
    rows: Sequence[CaseRow], pairs: Sequence[PairSummary], unpaired: Unpaired, *, has_baseline: bool
) -> Iterator[str]:
    for count, side in ((unpaired.a, "A"), (unpaired.b, "B"), (unpaired.baseline, "the baseline lane")):
        if count:
            yield f"{count:,} runs of {side} have no counterpart and are not compared"
    unknown = sum(pair.verdict is Verdict.NOT_COMPARABLE for pair in pairs)
    if unknown:
        why = "recordings incomplete, answers missing, or values redacted"
        yield f"{unknown:,} pairs cannot be compared from their departure on: {why}"
    judged = [pair.judge_said for pair in pairs if pair.judge_said]
    if judged:
        other = sum(pair.judged is False for pair in pairs)
        unsaid = sum(pair.judged is None and bool(pair.judge_said) for pair in pairs)
        name = judged[0].partition(": ")[0]
        yield f"final answers by {name}, which is a judge's word: {other:,} mean something else, {unsaid:,} not judged"
    if not has_baseline and not all(pair.is_same for pair in pairs):
        yield "there is no baseline lane: departures are counted, but how many of them are chance is not known"
    without = sum(not case.baseline for case in rows)
    if has_baseline and without:
        yield f"{without:,} cases have no run in the baseline lane: the metrics leave them out"
    if len({case.weight for case in rows}) > 1:
        yield "cases are weighted as they were drawn: means, shares and intervals are of the population"


def _counted(pairs: Sequence[PairSummary]) -> dict[str, int]:
    return dict(sorted(Counter(pair.verdict.value for pair in pairs).items()))


def _shares(rows: Sequence[CaseRow], of: Callable[[LaneRun], Mapping[str, int]]) -> list[ShareOf]:
    """Count things of all runs of each lane, the most frequent first; a case's repeats share its weight."""
    counts: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    weights: tuple[dict[str, float], ...] = ({}, {}, {})
    for case in rows:
        for lane, runs in enumerate((case.a, case.b, case.baseline)):
            for run in runs:
                for name, count in of(run).items():
                    counts[lane][name] += count
                    weights[lane][name] = weights[lane].get(name, 0.0) + count * case.weight / len(runs)
    totals = [sum(lane.values()) or 1.0 for lane in weights]
    found = [
        ShareOf(
            name,
            counts[0][name],
            counts[1][name],
            weights[0].get(name, 0.0) / totals[0],
            weights[1].get(name, 0.0) / totals[1],
            counts[2][name],
            weights[2].get(name, 0.0) / totals[2],
        )
        for name in {name for lane in counts for name in lane}
    ]
    return sorted(found, key=lambda one: (-(one.a + one.b + one.baseline), one.name))


def _arguments(rows: Sequence[CaseRow]) -> Iterator[ToolArguments]:
    calls: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    noise: Counter[str] = Counter()
    for case in rows:
        for run in case.a:
            calls.update(run.tool_path)
        for pairs, into in ((case.pairs, changed), (case.baseline_pairs, noise)):
            for pair in pairs:
                into.update(dict(pair.argument_changes))
    for tool in sorted({*changed, *noise}, key=lambda tool: (-changed[tool], tool)):
        yield ToolArguments(tool, calls[tool], changed[tool], noise[tool])
