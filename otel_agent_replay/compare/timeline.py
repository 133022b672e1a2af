"""When things happened inside one run, and how two runs' moments are put in one order.

A request is known when a step begins, an answer when it ends: a change lies at the event that first shows it,
so an inner step's changed answer comes before the outer one's that contains it. Moments of two runs are compared
by how many events of paired steps went before: a number that ids, clocks and inserted steps do not shift.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from otel_agent_replay.compare.tree import ROOT, Tree, TreeNode


class Timeline:
    """Begin and end of every node of a tree, in the order of its own run."""

    def __init__(self, tree: Tree) -> None:
        marks: list[tuple[int, int]] = []  # (time, sequence) of our events: places foreign spans between them
        for item in tree.nodes:
            if item.node is not None and item.recorded is not None:
                marks.append((item.recorded.span.start_ns, item.node.sequence))
                if item.node.end_sequence:
                    marks.append((item.recorded.span.end_ns, item.node.end_sequence))
        marks.sort(key=lambda mark: mark[1])
        self._times: list[int] = []
        latest = 0
        for time_ns, _ in marks:
            latest = max(latest, time_ns)
            self._times.append(latest)
        self._sequences = [sequence for _, sequence in marks]
        self._ours = bool(marks)
        self._begins = [self._begin(item) for item in tree.nodes]
        self._ends = [self._end(item) for item in tree.nodes]
        self._events: list[float] = []
        self._last_begin = -math.inf

    def begin(self, index: int) -> float:
        """When the node began."""
        return self._begins[index]

    def end(self, index: int) -> float:
        """When it ended; infinity when it never did."""
        return self._ends[index]

    def _begin(self, item: TreeNode) -> float:
        if item.recorded is None:
            return -math.inf
        return float(item.node.sequence) if item.node is not None else self._foreign(item.recorded.span.start_ns)

    def _end(self, item: TreeNode) -> float:
        if item.recorded is None:
            return math.inf
        if item.node is not None:
            return float(item.node.end_sequence) if item.node.end_sequence else math.inf
        return self._foreign(item.recorded.span.end_ns) if item.recorded.span.end_ns else math.inf

    def watch(self, paired: Iterable[int]) -> None:
        """Take the events of these nodes as the measure of `before`."""
        nodes = [index for index in paired if index != ROOT]
        events = [moment for index in nodes for moment in (self.begin(index), self.end(index))]
        self._events = sorted(moment for moment in events if moment < math.inf)
        self._last_begin = max((self.begin(index) for index in nodes), default=-math.inf)

    def before(self, moment: float) -> int:
        """How many watched events lie before `moment`."""
        return bisect_left(self._events, moment)

    def nothing_begins_after(self, count: int) -> bool:
        """Whether every watched node had begun when `count` watched events had happened."""
        return self.before(self._last_begin) < count or self._last_begin == -math.inf

    def _foreign(self, time_ns: int) -> float:
        if not self._ours:
            return float(time_ns)
        at = bisect_right(self._times, time_ns)
        return self._sequences[at - 1] + 0.5 if at else 0.0
