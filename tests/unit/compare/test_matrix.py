"""Many runs of one case beside each other: systematic apart from flaky."""

from __future__ import annotations

import pytest

from otel_agent_replay.compare import Verdict
from otel_agent_replay.compare.cohort import CaseRow, LaneRun, PairSummary
from otel_agent_replay.compare.matrix import Cell, Steadiness, matrix_of


def pair(*changed, gone=()):
    steps = tuple(sorted([*((step, False) for step in changed), *((step, True) for step in gone)]))
    return PairSummary(Verdict.DIFFERENT if steps else Verdict.IDENTICAL, changed_steps=steps)


def case(pairs_a, pairs_b):
    runs = [LaneRun(bytes([number]) * 16, "ok") for number in range(1 + len(pairs_a) + len(pairs_b))]
    return CaseRow("c", runs[: 1 + len(pairs_a)], runs[1 + len(pairs_a) :], pairs_b, a_pairs=pairs_a)


def test_a_step_that_only_b_changes_is_systematic():
    """Changed in 7 of 10 of B's runs and in none of A's 9: beyond chance, with the cells to show it."""
    matrix = matrix_of(case([pair()] * 9, [pair(2)] * 7 + [pair()] * 3), {1: "model chat", 2: "tool pay"})
    first, second = matrix.rows
    assert first.steadiness is Steadiness.STEADY
    assert (second.changed_a, second.changed_b, second.steadiness) == (0, 7, Steadiness.SYSTEMATIC)
    assert second.p == pytest.approx(156 / 50388)
    assert second.cells == [Cell.SAME] * 9 + [Cell.CHANGED] * 7 + [Cell.SAME] * 3
    assert (matrix.of_a, len(matrix.columns)) == (9, 19)


def test_a_step_that_both_sides_change_is_flaky():
    """What A's own repeats change now and then says nothing about B."""
    matrix = matrix_of(case([pair(1)] * 4 + [pair()] * 5, [pair(1)] * 5 + [pair()] * 5), {1: "model chat"})
    assert matrix.rows[0].steadiness is Steadiness.FLAKY


def test_too_few_runs_settle_nothing():
    """One run of B beside none of A's repeats cannot tell chance from cause."""
    matrix = matrix_of(case([], [pair(gone=(1,))]), {1: "tool pay"})
    assert matrix.rows[0].steadiness is Steadiness.UNSETTLED
    assert matrix.rows[0].cells == [Cell.MISSING]


def test_many_steps_are_corrected_for():
    """A step that would be beyond chance alone is not when twenty steps change as much."""
    pairs_b = [pair(*range(1, 21))] * 4 + [pair()]
    alone = matrix_of(case([pair()] * 5, [pair(1)] * 4 + [pair()]), {1: "x"}, alpha=0.05)
    many = matrix_of(case([pair()] * 5, pairs_b), dict.fromkeys(range(1, 21), "x"), alpha=0.05)
    assert alone.rows[0].steadiness is Steadiness.SYSTEMATIC
    assert many.rows[0].steadiness is Steadiness.UNSETTLED
