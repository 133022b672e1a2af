"""The metrics of a cohort: what is counted of each run and each pair, and what may be said of the difference. Pure.

Owns which tests are made and what a judgement needs. With a baseline lane every difference is held against that lane,
not against production: what the old version does when it is run again is noise. A metric is tested only where its
cases could show something at all, and is judged after correction for all metrics that were (Tarone's bound, then Holm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from otel_agent_replay.compare.cohort import CaseRow, Judgement, LaneRun, MetricResult, PairSummary
from otel_agent_replay.compare.statistics import (
    Group,
    correction,
    fewest_cases,
    mcnemar_p,
    mean_difference,
    percentile_difference,
    smallest_effect,
    swapping_p,
    wilcoxon_p,
)

_Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Metric:
    """What is counted of a run. `unit` is "share" for a yes or no. `of` gives None where a run does not tell."""

    name: str
    unit: str
    of: Callable[[LaneRun], float | None]


def _yes(holds: bool | None) -> float | None:
    return None if holds is None else float(holds)


METRICS = (
    Metric("finished", "share", lambda run: _yes(run.status == "ok")),
    Metric("refused", "share", lambda run: _yes(run.refusals > 0)),
    Metric("failed steps", "steps", lambda run: float(run.errors)),
    Metric("steps", "steps", lambda run: float(run.steps)),
    Metric("model calls", "calls", lambda run: float(run.model_calls)),
    Metric("tool calls", "calls", lambda run: float(len(run.tool_path))),
    Metric("writes and external effects", "calls", lambda run: float(sum(count for _, count in run.effects))),
    Metric("input tokens", "tokens", lambda run: run.input_tokens),
    Metric("output tokens", "tokens", lambda run: run.output_tokens),
    Metric("cost", "USD", lambda run: run.cost_usd),
    Metric("latency", "ns", lambda run: run.latency_ns),
    Metric("off tape", "share", lambda run: run.off_tape),
)

BY_JUDGE = "final answer means something else, by the judge"
_OF_PAIRS: tuple[tuple[str, Callable[[PairSummary], bool]], ...] = (
    ("departed", lambda pair: not pair.is_same),
    ("other tool path", lambda pair: pair.tool_path_changed),
    ("other arguments", lambda pair: bool(pair.argument_changes)),
)


@dataclass(frozen=True, slots=True)
class _Sample:
    """The values of one metric in one case; [] where a lane has none."""

    a: _Values
    b: _Values
    baseline: _Values
    weight: float
    a_first: bool


@dataclass(frozen=True, slots=True)
class _Tested:
    """A metric before correction. `least` is the smallest p that its cases could have given.

    With a baseline lane `p_of_a` and `least_of_a` are of B against A.
    """

    result: MetricResult
    p: float | None
    least: float
    p_of_a: float | None = None
    least_of_a: float = 1.0
    error: float | None = None


def metric_results(cases: Sequence[CaseRow], *, alpha: float, seed: str) -> list[MetricResult]:
    """Return every metric of the cases, which come in the order of their keys."""
    has_baseline = any(case.baseline for case in cases)
    tested = [_tested(name, unit, samples, alpha, seed) for name, unit, samples in _samples(cases, has_baseline)]
    tested += [_paths(cases, has_baseline=has_baseline, seed=seed)]
    judged = _judged(tested, alpha)
    return [*judged, *_percentiles(cases, alpha=alpha, seed=seed)]


def _samples(cases: Sequence[CaseRow], has_baseline: bool) -> Iterator[tuple[str, str, list[_Sample]]]:
    """Yield name, unit and values of each metric that any run tells of."""
    names = sorted({name for case in cases for run in (*case.a, *case.b) for name, _ in run.invariants})
    for metric in (*map(_invariant, names), *METRICS):
        samples = [
            _Sample(
                _known(metric.of, case.a),
                _known(metric.of, case.b),
                _known(metric.of, case.baseline),
                case.weight,
                _a_first(case),
            )
            for case in cases
        ]
        if any(sample.b for sample in samples):
            yield metric.name, metric.unit, samples
    for name, of in _OF_PAIRS:
        yield name, "share", _of_pairs(cases, of, has_baseline=has_baseline)
    if any(pair.judged is not None for case in cases for pair in case.pairs):
        judged = _of_pairs(cases, lambda pair: _not(pair.judged), has_baseline=has_baseline)
        yield BY_JUDGE, "share", judged


def _of_pairs(
    cases: Sequence[CaseRow], of: Callable[[PairSummary], bool | None], *, has_baseline: bool
) -> list[_Sample]:
    """Return of which pairs with A something holds; `of` gives None for a pair that does not tell."""
    return [
        _Sample(
            () if has_baseline else (0.0,),
            tuple(value for pair in case.pairs if (value := _yes(of(pair))) is not None),
            tuple(value for pair in case.baseline_pairs if (value := _yes(of(pair))) is not None),
            case.weight,
            _a_first(case),
        )
        for case in cases
    ]


def _not(holds: bool | None) -> bool | None:
    return None if holds is None else not holds


def _invariant(name: str) -> Metric:
    return Metric(f"invariant {name}", "share", lambda run: _yes(dict(run.invariants).get(name)))


def _known(of: Callable[[LaneRun], float | None], runs: Sequence[LaneRun]) -> _Values:
    return tuple(value for run in runs if (value := of(run)) is not None)


def _a_first(case: CaseRow) -> bool:
    """Whether A's runs sort before those they are held against: so that a comparison the other way mirrors this one."""
    held = case.baseline or case.a
    return [run.run_id for run in held] <= [run.run_id for run in case.b]


def _tested(name: str, unit: str, samples: Sequence[_Sample], alpha: float, seed: str) -> _Tested:
    has_baseline = any(sample.baseline for sample in samples)
    of_pair = name in {BY_JUDGE, *(name for name, _ in _OF_PAIRS)}
    groups = [
        Group(held, sample.b, sample.weight, sample.a_first)
        for sample in samples
        if (held := sample.baseline if has_baseline else sample.a) and sample.b
    ]
    interval = mean_difference(groups, seed=f"{seed} {name}", alpha=alpha) if groups else None
    result = MetricResult(
        name=name,
        unit=unit,
        cases=len(groups),
        a=None if of_pair else _mean([(sample.a, sample.weight) for sample in samples]),
        b=_mean([(sample.b, sample.weight) for sample in samples]),
        difference=None if interval is None else interval.estimate,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        judgement=Judgement.DESCRIBED,
        against="baseline" if has_baseline else "a",
        baseline=_mean([(sample.baseline, sample.weight) for sample in samples]),
    )
    if result.a is not None and result.baseline is not None:
        result = replace(result, noise=result.baseline - result.a)
    if interval is None or (of_pair and not has_baseline):
        return _Tested(result, None, 1.0)
    differences = [group.difference for group in groups]
    p, how = _paired_p(differences)
    tested = _Tested(replace(result, test=how), p, _least(differences), error=interval.error)
    if not has_baseline or of_pair:
        return tested
    from_a = [_mean_of(one.b) - _mean_of(one.a) for one in samples if one.a and one.b]
    return replace(tested, p_of_a=_paired_p(from_a)[0], least_of_a=_least(from_a))


def _least(differences: Sequence[float]) -> float:
    """Return the p-value if all that differ differed the same way."""
    return min(1.0, 2 * 0.5 ** sum(difference != 0 for difference in differences))


def _paired_p(differences: Sequence[float]) -> tuple[float, str]:
    if all(difference in (-1.0, 0.0, 1.0) for difference in differences):
        return mcnemar_p(differences.count(-1.0), differences.count(1.0)), "McNemar, exact"
    return wilcoxon_p(differences), "Wilcoxon signed ranks"


def _paths(cases: Sequence[CaseRow], *, has_baseline: bool, seed: str) -> _Tested:
    """Test whether the tool paths of both sides are spread alike."""
    lanes = [
        ([run.tool_path for run in (case.baseline if has_baseline else case.a)], [run.tool_path for run in case.b])
        for case in cases
    ]
    lanes = [(one, other) for one, other in lanes if one and other]
    moved = sum(sorted(one) != sorted(other) for one, other in lanes)
    result = MetricResult(
        name="tool paths",
        unit="distance",
        cases=len(lanes),
        a=None,
        b=None,
        difference=_distance(lanes),
        low=None,
        high=None,
        judgement=Judgement.DESCRIBED,
        test="swapped labels",
        against="baseline" if has_baseline else "a",
    )
    if not lanes:
        return _Tested(result, None, 1.0)
    return _Tested(result, swapping_p(lanes, seed=seed), max(2 * 0.5**moved, 0.0005))


def _distance(lanes: Sequence[tuple[Sequence[object], Sequence[object]]]) -> float | None:
    """Return the share of runs that would have to take another path for both sides to be spread alike."""
    if not lanes:
        return None
    spread: dict[object, float] = {}
    for one, other in lanes:
        for path in one:
            spread[path] = spread.get(path, 0.0) - 1 / len(one)
        for path in other:
            spread[path] = spread.get(path, 0.0) + 1 / len(other)
    return sum(abs(share) for share in spread.values()) / 2 / len(lanes)


def _judged(tested: Sequence[_Tested], alpha: float) -> list[MetricResult]:
    known = [one for one in tested if one.p is not None]
    adjusted, tests = correction([(one.p or 0.0, one.least) for one in known], alpha)
    against_a, _ = correction([(1.0 if one.p_of_a is None else one.p_of_a, one.least_of_a) for one in known], alpha)
    by_name = {one.result.name: (p, p_a) for one, p, p_a in zip(known, adjusted, against_a, strict=True)}
    needed = fewest_cases(alpha / tests)
    results = []
    for one in tested:
        if one.p is None:
            results.append(one.result)
            continue
        p_adjusted, p_of_a = by_name[one.result.name]
        if p_adjusted <= alpha:
            judgement = Judgement.DIFFERENT
        elif one.p_of_a is not None and p_of_a <= alpha:
            judgement = Judgement.WITHIN_NOISE
        else:
            judgement = Judgement.NOT_ENOUGH if one.result.cases < needed else Judgement.NOT_SEEN
        results.append(
            replace(
                one.result,
                judgement=judgement,
                p=one.p,
                p_adjusted=p_adjusted,
                smallest_effect=_smallest(one, alpha / tests, needed),
            )
        )
    return results


def _smallest(one: _Tested, alpha: float, needed: int) -> float | None:
    """Return the smallest difference that would have been seen; a share cannot be told finer than its cases allow."""
    from_error = smallest_effect(one.error, alpha)
    if one.result.unit != "share" or not one.result.cases:
        return from_error
    return min(1.0, max(needed / one.result.cases, from_error or 0.0))


def _percentiles(cases: Sequence[CaseRow], *, alpha: float, seed: str) -> Iterator[MetricResult]:
    groups = [
        Group(
            [float(run.latency_ns) for run in case.a if run.latency_ns is not None],
            [float(run.latency_ns) for run in case.b if run.latency_ns is not None],
            case.weight,
        )
        for case in cases
    ]
    groups = [group for group in groups if group.a and group.b]
    if not groups:
        return
    for name, share in (("latency p50", 0.5), ("latency p95", 0.95)):
        at_a, at_b, interval = percentile_difference(groups, share, seed=f"{seed} {name}", alpha=alpha)
        yield MetricResult(
            name, "ns", len(groups), at_a, at_b, interval.estimate, interval.low, interval.high, Judgement.DESCRIBED
        )


def _mean(values: Sequence[tuple[_Values, float]]) -> float | None:
    known = [(_mean_of(one), weight) for one, weight in values if one]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _mean_of(values: _Values) -> float:
    return sum(values) / len(values)


def causes_of(pairs: Sequence[PairSummary]) -> Mapping[str, int]:
    """Return how many pairs part for each cause, most first."""
    found: dict[str, int] = {}
    for pair in pairs:
        if pair.cause is not None:
            found[pair.cause.value] = found.get(pair.cause.value, 0) + 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
