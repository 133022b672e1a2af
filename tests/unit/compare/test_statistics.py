"""Tests and intervals for paired cases, against numbers worked out by hand."""

from __future__ import annotations

import random

import pytest

from otel_agent_replay.compare.matrix import fisher_p
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


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [(0, 0, 1.0), (0, 6, 2 / 64), (6, 0, 2 / 64), (3, 9, 2 * (1 + 12 + 66 + 220) / 4096), (5, 5, 1.0), (0, 5, 2 / 32)],
)
def test_mcnemar_counts_the_coins(only_a, only_b, p):
    """The exact p-value is twice the tail of fair coins, and never above 1."""
    assert mcnemar_p(only_a, only_b) == pytest.approx(p)


def test_mcnemar_of_many_is_close_to_the_exact_one():
    """Beyond a thousand discordant cases the normal tail stands for the coins."""
    assert mcnemar_p(470, 530) == pytest.approx(mcnemar_p(471, 531), rel=0.05)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([1, 2, 3, 4, 5, 6], 2 / 64),
        ([0, 1, 2, 3, 4, 5, 6], 2 / 64),  # a zero says nothing
        ([1, -2, 3, 4, 5, 6, 7, 8], 2 * 3 / 256),  # sums of ranks up to 2: none, {1}, {2}
        ([1, 1, 1, -1], 2 * 5 / 16),  # ties: each has rank 2.5
        ([-0.5, 0.5], 1.0),
    ],
)
def test_wilcoxon_counts_the_signs(differences, p):
    """The exact p-value is the share of all choices of signs with a rank sum as small, twice."""
    assert wilcoxon_p(differences) == pytest.approx(p)
    assert wilcoxon_p([-value for value in differences]) == pytest.approx(p)


def test_wilcoxon_of_many_is_close_to_the_exact_one():
    """Where the normal approximation takes over, it says nearly the same as the exact count one difference before."""
    draw = random.Random(4)
    values = [draw.gauss(0.3, 1) for _ in range(60)]
    exact = wilcoxon_p(values)
    assert 0.001 < exact < 0.5
    assert wilcoxon_p([*values, 1e-9]) == pytest.approx(exact, rel=0.15)


def test_holm_corrects_what_could_have_been_significant():
    """p-values rise by Holm's steps; tests whose data could never have been significant do not count."""
    assert correction([(0.01, 1e-6), (0.04, 1e-6), (0.03, 1e-6)], 0.05) == (pytest.approx([0.03, 0.06, 0.06]), 3)
    assert correction([(0.02, 1e-6), (1.0, 0.5), (1.0, 2.0)], 0.05) == ([0.02, 1.0, 1.0], 1)
    assert correction([], 0.05) == ([], 1)


def test_how_many_cases_a_judgement_needs():
    """At 0.05 six cases must all differ the same way; after correction for twenty metrics ten must."""
    assert fewest_cases(0.05) == 6
    assert fewest_cases(0.05 / 20) == 10
    assert mcnemar_p(0, 10) <= 0.05 / 20 < mcnemar_p(0, 9)


def test_fisher_counts_the_tables():
    """The lady who tasted tea, and a step that seven of ten runs change and none of nine."""
    assert fisher_p(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher_p(0, 9, 7, 10) == pytest.approx((120 + 36) / 50388)
    assert fisher_p(0, 0, 3, 5) == 1.0


def test_swapped_labels_tell_another_spread_from_the_same_one():
    """Lanes that trade paths evenly are the same spread; a lane that always takes another one is not."""
    even = [(["x"], ["y"]), (["y"], ["x"])] * 10
    moved = [(["x"], ["y"])] * 12
    assert swapping_p(even, seed="s") == 1.0
    assert swapping_p(moved, seed="s") < 0.005
    assert swapping_p([(["x"], ["x"])] * 5, seed="s") == 1.0
    assert swapping_p([(["x", "x", "y"], ["y"])] * 3, seed="s") > 0.1  # three cases can show nothing


def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says():
    """Of 200 cohorts drawn from a known difference, about 95 % of the intervals hold it."""
    draw = random.Random(7)
    held = 0
    for number in range(200):
        groups = [Group([draw.gauss(5, 2)], [draw.gauss(6, 2)]) for _ in range(40)]
        interval = mean_difference(groups, seed=str(number), replicates=200)
        held += interval.low <= 1 <= interval.high
    assert 0.88 <= held / 200 <= 0.99


def test_repeats_do_not_pass_for_cases():
    """Ten repeats of the same few cases leave the interval as wide as the cases differ."""
    draw = random.Random(3)
    shifts = [draw.gauss(0, 1) for _ in range(8)]
    once = [Group([0.0], [shift]) for shift in shifts]
    often = [Group([0.0] * 10, [shift] * 10) for shift in shifts]
    alone, repeated = (mean_difference(groups, seed="s", replicates=400) for groups in (once, often))
    assert repeated.high - repeated.low == pytest.approx(alone.high - alone.low, rel=0.25)


def test_a_weighted_case_counts_as_many():
    """A case of weight 3 moves the mean as three cases do."""
    heavy = [Group([0.0], [4.0], 3.0), Group([0.0], [0.0])]
    assert mean_difference(heavy, seed="s").estimate == 3.0


def test_percentiles_are_of_all_runs():
    """The p50 and p95 of a side are order statistics of its runs; a lone case has no interval."""
    groups = [Group([float(number)], [float(number + 10)]) for number in range(1, 101)]
    at_a, at_b, interval = percentile_difference(groups, 0.5, seed="s", replicates=50)
    assert (at_a, at_b, interval.estimate) == (50.0, 60.0, 10.0)
    assert percentile_difference(groups, 0.95, seed="s", replicates=50)[:2] == (95.0, 105.0)
    assert interval.low <= 10 <= interval.high
    assert percentile_difference(groups[:1], 0.5, seed="s")[2].low is None


def test_percentiles_of_many_cases_are_the_same_as_of_all_values():
    """Looking only at values near the percentile, in strata, changes no estimate."""
    draw = random.Random(1)
    groups = [Group([draw.random()], [draw.random()]) for _ in range(3000)]
    at_a, at_b, _ = percentile_difference(groups, 0.95, seed="s", replicates=20)
    assert at_a == sorted(group.a[0] for group in groups)[2849]
    assert at_b == sorted(group.b[0] for group in groups)[2849]


def test_the_smallest_effect_is_told_from_the_error():
    """At 5 % and four times out of five it is 2.8 standard errors."""
    assert smallest_effect(1.0, 0.05) == pytest.approx(1.96 + 0.8416, abs=0.001)
    assert smallest_effect(0.0, 0.05) is None
