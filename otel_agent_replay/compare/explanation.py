"""The way back to its source for every change of a comparison. Pure.

Apart from comparing itself, because most comparisons of a cohort are never asked why.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_agent_replay.compare.cause_walk import Walker
from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import Changed
from otel_agent_replay.compare.comparison import Comparison
from otel_agent_replay.compare.tree import ROOT, build_tree
from otel_agent_replay.compare.walk import Walk
from otel_agent_replay.model import RecordedRun

_MOST_WALKED = 50


def explain(a: RecordedRun, b: RecordedRun, comparison: Comparison) -> dict[int, Walk]:
    """Return the walks of a comparison's changes by their number, of the first ones and of the runs' own results."""
    tree_a, tree_b = build_tree(a), build_tree(b)
    walker = Walker(a, b, Sides.of(tree_a, tree_b, comparison.alignment), comparison.changes)
    found = {}
    for number, change in enumerate(comparison.changes):
        is_end = isinstance(change, Changed) and change.a.index == ROOT
        walk = walker.walk(change) if number < _MOST_WALKED or is_end else None
        if walk is not None:
            found[number] = walk
    return found


def final_answer(comparison: Comparison, walks: Mapping[int, Walk]) -> Walk | None:
    """Return the walk of the run's own result.

    None where that does not differ, is where the runs part, or where one recording does not tell how the run would
    have ended.
    """
    if comparison.departure is None or not comparison.departure.cause.is_comparable:
        return None
    for number, change in enumerate(comparison.changes):
        if isinstance(change, Changed) and change.a.index == ROOT and number:
            return walks.get(number)
    return None
