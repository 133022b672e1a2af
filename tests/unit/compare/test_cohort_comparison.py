"""What is said of two cohorts: judgements, the noise floor, too few cases, counts."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay.compare import Cause, Verdict
from otel_agent_replay.compare.cohort import CaseRow, CohortVerdict, Judgement, LaneRun, PairSummary, Unpaired
from otel_agent_replay.compare.cohort_comparison import compare_cohorts

SAME = PairSummary(Verdict.IDENTICAL, by_digest=True)
PARTED = PairSummary(Verdict.DIFFERENT, "B departs", Cause.MODEL_ANSWER, 3, "step 3", 2, argument_changes=(("pay", 1),))
UNKNOWN = PairSummary(Verdict.NOT_COMPARABLE, "lost", Cause.INCOMPLETE)


def run(number, **facts):
    return LaneRun(bytes([number % 256, number // 256]) * 8, "ok", **facts)


def cases(count, a=None, b=None, *, pair=SAME, baseline=None, baseline_pair=SAME, weight=1.0):
    return [
        CaseRow(
            f"case {number:05}",
            (run(number, **(a or {})),),
            (run(number + 30000, **(b or {})),),
            (pair,),
            () if baseline is None else (run(number + 15000, **baseline),),
            () if baseline is None else (baseline_pair,),
            weight=weight,
        )
        for number in range(count)
    ]


def compared(rows, **more):
    return compare_cohorts(rows, a="old", b="new", **more)


def metric(comparison, name):
    return next(one for one in comparison.metrics if one.name == name)


def test_pairs_that_are_all_the_same_are_no_difference():
    """However few they are: nothing differs, so there is nothing to judge."""
    comparison = compared(cases(2))
    assert comparison.verdict is CohortVerdict.SAME
    assert comparison.verdict.exit_code == 0
    assert comparison.by_digest == 2


def test_a_cost_that_rises_in_every_case_is_different():
    """Forty cases that all cost a cent more differ beyond chance, after correction, with an interval around a cent."""
    rows = cases(40, {"cost_usd": 0.05}, {"cost_usd": 0.06}, pair=PARTED)
    comparison = compared(rows)
    found = metric(comparison, "cost")
    assert found.judgement is Judgement.DIFFERENT
    assert comparison.verdict is CohortVerdict.DIFFERENT
    assert comparison.verdict.exit_code == 1
    assert abs(found.difference - 0.01) < 1e-9
    assert found.low <= found.difference <= found.high
    assert "cost" in comparison.sentence
    assert metric(comparison, "steps").judgement is Judgement.NOT_SEEN


def test_a_few_cases_that_differ_cannot_be_judged():
    """Four cases that all cost more are not enough: no outcome of four cases could be significant."""
    comparison = compared(cases(4, {"cost_usd": 0.05}, {"cost_usd": 0.06}, pair=PARTED))
    assert metric(comparison, "cost").judgement is Judgement.NOT_ENOUGH
    assert metric(comparison, "cost").p > 0.05
    assert comparison.verdict is CohortVerdict.CANNOT_JUDGE
    assert comparison.verdict.exit_code == 125


def test_the_effect_that_would_have_been_seen_is_said():
    """With 100 cases, and none refused, refusals in some percent of them would have been seen; not in one."""
    comparison = compared(cases(100))
    found = metric(comparison, "refused")
    assert found.judgement is Judgement.NOT_SEEN
    assert 0.05 <= found.smallest_effect <= 0.1


def test_what_the_old_version_does_too_is_noise():
    """Every candidate departs, but so does every baseline re-run: that is within the noise."""
    rows = cases(
        40, {"cost_usd": 1.0}, {"cost_usd": 2.0}, pair=PARTED, baseline={"cost_usd": 2.0}, baseline_pair=PARTED
    )
    comparison = compared(rows, baseline="old again")
    assert comparison.verdict is CohortVerdict.SAME
    cost = metric(comparison, "cost")
    assert (cost.judgement, cost.against, cost.noise) == (Judgement.WITHIN_NOISE, "baseline", 1.0)
    assert metric(comparison, "departed").judgement is Judgement.NOT_SEEN


def test_what_only_the_candidate_does_is_beyond_the_noise():
    """Candidates depart where no baseline re-run does."""
    comparison = compared(cases(40, pair=PARTED, baseline={}), baseline="old again")
    assert metric(comparison, "departed").judgement is Judgement.DIFFERENT
    assert metric(comparison, "other arguments").judgement is Judgement.DIFFERENT
    assert comparison.arguments[0].changed == 40
    assert comparison.arguments[0].baseline_changed == 0


def test_without_a_baseline_departures_are_only_described():
    """Nobody knows how many of them are chance, and the report says so before any claim."""
    comparison = compared(cases(40, pair=PARTED))
    assert metric(comparison, "departed").judgement is Judgement.DESCRIBED
    assert metric(comparison, "departed").b == 1.0
    assert any("no baseline lane" in note for note in comparison.notes)


def test_invariants_are_metrics_and_unknown_is_no_pass():
    """A pass rate is over the runs that tell; a run that does not tell is left out."""
    rows = cases(30, {"invariants": (("paid once", True),)}, {"invariants": (("paid once", False),)}, pair=PARTED)
    rows[0] = replace(rows[0], b=(replace(rows[0].b[0], invariants=(("paid once", None),)),))
    found = metric(compared(rows), "invariant paid once")
    assert (found.a, found.b, found.cases) == (1.0, 0.0, 29)
    assert found.judgement is Judgement.DIFFERENT


def test_other_tool_paths_are_told_from_the_same_ones():
    """Tool paths are compared as a spread, and listed with their counts."""
    comparison = compared(cases(30, {"tool_path": ("look", "pay")}, {"tool_path": ("pay",)}, pair=PARTED))
    assert metric(comparison, "tool paths").judgement is Judgement.DIFFERENT
    assert metric(comparison, "tool paths").difference == 1.0
    assert [(one.name, one.a, one.b) for one in comparison.tool_paths] == [("look > pay", 30, 0), ("pay", 0, 30)]


def test_answers_that_no_tape_gave_are_a_share():
    """The off-tape share and its sources are counted for lanes that were replayed."""
    rows = cases(30, b={"answers": (("live", 1), ("tape", 3))}, baseline={"answers": (("tape", 4),)}, pair=PARTED)
    comparison = compared(rows, baseline="old again")
    found = metric(comparison, "off tape")
    assert (found.a, found.baseline, found.b) == (None, 0.0, 0.25)
    assert found.judgement is Judgement.DIFFERENT
    assert [(one.name, one.b) for one in comparison.answer_sources] == [("tape", 90), ("live", 30)]


def test_what_cannot_be_compared_is_neither_same_nor_different():
    """When most pairs are incomplete, the cohort cannot be judged."""
    comparison = compared(cases(50, pair=UNKNOWN))
    assert comparison.verdict is CohortVerdict.CANNOT_JUDGE
    assert any("cannot be compared" in note for note in comparison.notes)


def test_no_pair_at_all_is_no_pass():
    """An empty comparison cannot be judged; runs without a counterpart are counted."""
    comparison = compared([], unpaired=Unpaired(a=3))
    assert comparison.verdict is CohortVerdict.CANNOT_JUDGE
    assert any("3 runs of A" in note for note in comparison.notes)


def test_weights_make_the_population():
    """A rare case of weight 1 beside one of weight 9 is a tenth of every mean."""
    light = cases(1, {"cost_usd": 0.0}, {"cost_usd": 1.0}, pair=PARTED)
    heavy = [replace(row, key="other") for row in cases(1, {"cost_usd": 0.0}, {"cost_usd": 0.0}, weight=9.0)]
    comparison = compared([*light, *heavy])
    assert metric(comparison, "cost").difference == 0.1
    assert any("weighted" in note for note in comparison.notes)
