"""Whether another order is a difference: by what ran at the same time, and by threads of control."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel_agent_replay.compare import Verdict, compare
from tests.support.lake_runs import RunMaker


def made(number, steps):
    """A run of tools given as (name, strand, begin, end), by their sequence numbers."""
    maker = RunMaker(number)
    for name, *_ in steps:
        maker.tool(name, {"of": name}, f"answer of {name}")
    recorded = maker.run()
    root, *rest = recorded.spans
    placed = [
        replace(one, node=replace(one.node, strand=strand, sequence=begin, end_sequence=end))
        for one, (_, strand, begin, end) in zip(rest, steps, strict=True)
    ]
    ended = max(end for *_, end in steps) + 1
    spans = (replace(root, node=replace(root.node, sequence=1, end_sequence=ended)), *placed)
    return replace(recorded, spans=spans)


@pytest.mark.parametrize(
    ("parallel", "strands", "verdict"),
    [
        (True, ("1", "2", "3"), Verdict.REORDERED),  # `w` runs beside `z`: this parent's threads are parallel
        (False, ("1", "2", "3"), Verdict.DIFFERENT),  # tasks one after the other: their order was decided
        (True, ("", "", ""), Verdict.DIFFERENT),  # one thread of control
        (True, ("1", "1", "3"), Verdict.DIFFERENT),  # `x` and `y` in one thread beside another one
        (True, ("1", "1.2", "3"), Verdict.DIFFERENT),  # the thread of `x` started that of `y`
    ],
)
def test_the_order_of_steps_side_by_side_is_chance(parallel, strands, verdict):
    """Steps of threads that ran in parallel may come in any order, though these two never overlapped."""
    x, y, z = strands
    rest = [("z", z, 6, 9), ("w", "4", 7 if parallel else 10, 11)]
    there = made(1, [("x", x, 2, 3), ("y", y, 4, 5), *rest])
    back = made(2, [("y", y, 2, 3), ("x", x, 4, 5), *rest])
    assert compare(there, back).verdict is verdict
    assert compare(back, there).verdict is verdict
