"""Laws of comparing cohorts: the same every time, whatever the order, and the mirror the other way round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.compare.case_summary import pair_summary
from otel_agent_replay.compare.cohort import CaseRow, LaneRun, PairSummary
from otel_agent_replay.compare.cohort_comparison import compare_cohorts
from otel_agent_replay.compare.statistics import Group, mean_difference, percentile_difference, wilcoxon_p
from tests.support.lake_runs import RunMaker, answer

_PATHS = st.sampled_from([(), ("look",), ("look", "pay")])
_PAIRS = st.sampled_from([PairSummary(Verdict.IDENTICAL), PairSummary(Verdict.DIFFERENT, "B departs", changes=1)])


@st.composite
def _lanes(draw, number):
    def runs(side):
        count = draw(st.integers(1, 2))
        return tuple(
            LaneRun(
                bytes([side, number, repeat]) + b"\0" * 13,
                draw(st.sampled_from(["ok", "error"])),
                draw(_PATHS),
                cost_usd=draw(st.sampled_from([None, 0.0, 1.0, 2.5])),
                latency_ns=draw(st.integers(1, 9)),
            )
            for repeat in range(count)
        )

    a, b = runs(1), runs(2)
    baseline = runs(3) if draw(st.booleans()) else ()
    pairs = tuple(draw(_PAIRS) for _ in b)
    weight = draw(st.sampled_from([1.0, 2.5]))
    return CaseRow(f"case {number:03}", a, b, pairs, baseline, tuple(draw(_PAIRS) for _ in baseline), weight=weight)


@st.composite
def cohorts(draw):
    return [draw(_lanes(number)) for number in range(draw(st.integers(0, 9)))]


@settings(max_examples=settings.default.max_examples // 3, deadline=None)
@given(cohorts(), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_nothing(cases, draw):
    """Shuffled cases give the same comparison, to the last digit; so does asking twice."""
    shuffled = list(cases)
    draw.shuffle(shuffled)
    assert compare_cohorts(cases, a="A", b="B") == compare_cohorts(shuffled, a="A", b="B")


@settings(max_examples=settings.default.max_examples // 3, deadline=None)
@given(cohorts())
def test_the_other_way_round_is_the_mirror(cases):
    """Sides exchanged: differences and intervals change their sign, p-values and judgements stay."""
    cases = [replace(case, baseline=(), baseline_pairs=()) for case in cases]
    mirrored = [replace(case, a=case.b, b=case.a, pairs=(case.pairs[0],) * len(case.a)) for case in cases]
    there = {one.name: one for one in compare_cohorts(cases, a="A", b="B").metrics}
    back = {one.name: one for one in compare_cohorts(mirrored, a="B", b="A").metrics}
    for name in there.keys() & back.keys() - {"departed", "other tool path", "other arguments", "tool paths"}:
        one, other = there[name], back[name]
        assert (one.p, one.p_adjusted, one.judgement) == (other.p, other.p_adjusted, other.judgement)
        assert (one.a, one.b) == (other.b, other.a)
        if one.difference is not None:
            assert one.difference == pytest.approx(-other.difference)
        if one.low is not None:
            assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    if "tool paths" in there:
        assert there["tool paths"].p == back["tool paths"].p


_VALUES = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=20)


@settings(deadline=None)
@given(_VALUES, st.text(max_size=5))
def test_draws_depend_on_the_seed_only(values, seed):
    """The same seed gives the same intervals, to the last digit."""
    groups = [Group([float(one)], [float(other)]) for one, other in values]
    assert mean_difference(groups, seed=seed, replicates=40) == mean_difference(groups, seed=seed, replicates=40)
    again = [percentile_difference(groups, 0.95, seed=seed, replicates=40) for _ in range(2)]
    assert again[0] == again[1]


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), max_size=70))
def test_a_rank_test_sees_no_side(values):
    """Its p-value is a share, and the same for the mirrored differences."""
    p = wilcoxon_p([float(value) for value in values])
    assert 0 < p <= 1
    assert p == pytest.approx(wilcoxon_p([-float(value) for value in values]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("xy"), st.booleans()), max_size=5), st.integers(0, 5), st.booleans())
def test_equal_digests_are_never_a_difference(steps, at, changed):
    """Where the short way says "the same", the whole comparison says it too; one changed answer ends the short way."""

    def made(number, also):
        maker = RunMaker(number)
        for place, (name, is_model) in enumerate(steps):
            value = "changed" if also and place == at else "as ever"
            if is_model:
                maker.model([{"role": "user", "content": name}], answer(value))
            else:
                maker.tool(name, {"place": place}, value)
        return maker.run()

    a, b = made(1, also=False), made(2, also=changed)
    summary = pair_summary(a, b)
    assert summary.by_digest is not (changed and at < len(steps))
    assert summary.verdict is compare(a, b).verdict
