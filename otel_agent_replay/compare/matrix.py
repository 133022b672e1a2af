"""Many runs of one case beside a reference run: step by step, what is systematic and what is flaky. Pure.

Rows are the reference's steps, columns the other runs of A and those of B. A step is systematic when B's runs change
it more often than A's own repeats do, beyond chance and after correction for all steps; it is flaky when A's repeats
change it too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.cohort import CaseRow, PairSummary
from otel_agent_replay.compare.statistics import ALPHA, correction
from otel_agent_replay.model import Word


class Cell(Word):
    """What became of a reference's step in another run."""

    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"


class Steadiness(Word):
    """What a row of the matrix says."""

    STEADY = "steady"  # no run changes it
    SYSTEMATIC = "systematic"  # B changes it beyond chance
    FLAKY = "flaky"  # A's own repeats change it
    UNSETTLED = "unsettled"  # only runs of B change it, but there are too few to say so


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One step: a cell for each run, A's others first. `p` and `p_adjusted` are of Fisher's exact test, two-sided."""

    step: int
    title: str
    cells: Sequence[Cell]
    changed_a: int
    changed_b: int
    p: float
    p_adjusted: float
    steadiness: Steadiness


@dataclass(frozen=True, slots=True)
class Matrix:
    """All steps of the reference run. `columns` are the other runs' ids, the first `of_a` of them A's."""

    reference: bytes
    columns: Sequence[bytes]
    of_a: int
    rows: Sequence[MatrixRow]
    alpha: float


def matrix_of(case: CaseRow, titles: Mapping[int, str], *, alpha: float = ALPHA) -> Matrix:
    """Return the matrix of a case. `titles` names the steps of A's first run."""
    pairs = [*case.a_pairs, *case.pairs]
    of_a, of_b = len(case.a_pairs), len(case.pairs)
    cells = {step: [_cell(pair, step) for pair in pairs] for step in sorted(titles)}
    counts = {
        step: (
            sum(cell is not Cell.SAME for cell in found[:of_a]),
            sum(cell is not Cell.SAME for cell in found[of_a:]),
        )
        for step, found in cells.items()
    }
    tests = [fisher_p(a, of_a, b, of_b) for a, b in counts.values()]
    leasts = [_least(a + b, of_a, of_b) for a, b in counts.values()]
    adjusted, _ = correction(list(zip(tests, leasts, strict=True)), alpha)
    rows = [
        MatrixRow(step, titles[step], cells[step], a, b, p, after, _steadiness(a, b, after, of_a, of_b, alpha))
        for (step, (a, b)), p, after in zip(counts.items(), tests, adjusted, strict=True)
    ]
    columns = [run.run_id for run in (*case.a[1:], *case.b)]
    return Matrix(case.a[0].run_id, columns, of_a, rows, alpha)


def _cell(pair: PairSummary, step: int) -> Cell:
    gone = dict(pair.changed_steps).get(step)
    return Cell.SAME if gone is None else Cell.MISSING if gone else Cell.CHANGED


def _steadiness(a: int, b: int, p: float, of_a: int, of_b: int, alpha: float) -> Steadiness:
    if not a and not b:
        return Steadiness.STEADY
    if p <= alpha and of_a and of_b and b / of_b > a / of_a:
        return Steadiness.SYSTEMATIC
    return Steadiness.FLAKY if a else Steadiness.UNSETTLED


def fisher_p(changed_a: int, of_a: int, changed_b: int, of_b: int) -> float:
    """Return Fisher's exact two-sided p-value that a change is as frequent among A's runs as among B's."""
    changed = changed_a + changed_b
    seen = _ways(changed_a, of_a, changed, of_b)
    possible = range(max(0, changed - of_b), min(changed, of_a) + 1)
    as_rare = sum(ways for one in possible if (ways := _ways(one, of_a, changed, of_b)) <= seen)
    return as_rare / math.comb(of_a + of_b, changed)


def _least(changed: int, of_a: int, of_b: int) -> float:
    """Return the smallest p-value that so many changes could give."""
    possible = range(max(0, changed - of_b), min(changed, of_a) + 1)
    return min((fisher_p(one, of_a, changed - one, of_b) for one in possible), default=1.0)


def _ways(changed_a: int, of_a: int, changed: int, of_b: int) -> int:
    return math.comb(of_a, changed_a) * math.comb(of_b, changed - changed_a)
