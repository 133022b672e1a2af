"""Whether a step that stands in another order ran beside the steps that it changed places with.

Owns the line between "reordered" and "moved". Near-linear in the number of siblings: each is held not against every
other one but against the last to begin, or the first to end, among those that were over, or had not begun.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, product

from otel_agent_replay.compare.timeline import Timeline
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.compare.tree_alignment import Pair

_Side = tuple[Tree, Timeline]
_Place = tuple[float, int]  # when, and where in the tree: what happened at one moment stays in the tree's order


class SwappedSiblings:
    """The pairs under one pair of parents; `a` and `b` are trees with their times."""

    def __init__(self, a: _Side, b: _Side, pairs: Sequence[Pair]) -> None:
        self._a, self._b = a, b
        self._pairs = pairs
        self._all = _Order(a, b, pairs)
        self._related: dict[tuple[str, str], _Order] | None = None
        self._parallel: bool | None = None

    def ran_beside(self, pair: Pair) -> bool:
        """Return whether `pair` ran beside every sibling that it changed places with, in one of the runs.

        Two that ran at the same time did; so did two of different threads of control below a parent whose threads ran
        at the same time, even where these two happened not to.
        """
        if not self._all.holds_swapped(pair):
            return True
        if self._parallel is None:
            self._parallel = any(
                _is_parallel(tree, time, tree.nodes[tree.nodes[one].parent].children)
                for (tree, time), one in ((self._a, pair.a), (self._b, pair.b))
            )
        if not self._parallel:
            return False
        if self._related is None:
            self._related = self._by_strand()
        asked = product(_looked_up(_strand(self._a[0], pair.a)), _looked_up(_strand(self._b[0], pair.b)))
        return not any(key in self._related and self._related[key].holds_swapped(pair) for key in asked)

    def _by_strand(self) -> dict[tuple[str, str], _Order]:
        """Return the pairs by what their threads of control are related to, in both runs."""
        members: dict[tuple[str, str], list[Pair]] = {}
        for one in self._pairs:
            for key in product(_filed_under(_strand(self._a[0], one.a)), _filed_under(_strand(self._b[0], one.b))):
                members.setdefault(key, []).append(one)
        return {key: _Order(self._a, self._b, pairs) for key, pairs in members.items()}


class _Order:
    """Finds out whether any of some pairs was over before another began in one run, and the reverse in the other."""

    def __init__(self, a: _Side, b: _Side, pairs: Sequence[Pair]) -> None:
        (_, time_a), (_, time_b) = a, b
        self._time_a, self._time_b = time_a, time_b
        over = sorted(pairs, key=lambda one: (time_a.end(one.a), one.a))
        to_come = sorted(pairs, key=lambda one: (time_a.begin(one.a), one.a), reverse=True)
        self._ends_a: list[_Place] = [(time_a.end(one.a), one.a) for one in over]
        self._begins_a: list[_Place] = [(-time_a.begin(one.a), -one.a) for one in to_come]
        self._latest_b: list[_Place] = list(accumulate(((time_b.begin(one.b), one.b) for one in over), max))
        self._earliest_b: list[_Place] = list(accumulate(((time_b.end(one.b), one.b) for one in to_come), min))

    def holds_swapped(self, pair: Pair) -> bool:
        """Return whether one of the pairs and `pair` came one after the other in both runs, in another order."""
        before = bisect_right(self._ends_a, (self._time_a.begin(pair.a), pair.a - 1))
        if before and self._latest_b[before - 1] > (self._time_b.end(pair.b), pair.b):
            return True
        after = bisect_right(self._begins_a, (-self._time_a.end(pair.a), -pair.a - 1))
        return bool(after) and self._earliest_b[after - 1] < (self._time_b.begin(pair.b), pair.b)


def _strand(tree: Tree, index: int) -> str:
    node = tree.nodes[index].node
    return "" if node is None else node.strand


# A thread of control is related to itself, to those that started it and to those it started, and one that is not known
# to all. What a step is filed under and looked up by meet in one key for each related one, and in none for others.
_BELOW, _ITSELF, _ANY = "<", "=", "*"


def _above(strand: str) -> Iterator[str]:
    parts = strand.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _filed_under(strand: str) -> list[str]:
    return [_ANY, _ITSELF + strand, *(_BELOW + one for one in _above(strand))]


def _looked_up(strand: str) -> list[str]:
    if not strand:
        return [_ANY]
    return [_ITSELF, _ITSELF + strand, _BELOW + strand, *(_ITSELF + one for one in _above(strand))]


def are_apart(first: str, second: str) -> bool:
    """Whether two threads of control are known, and neither started the other."""
    if not first or not second:
        return False
    ways = (f"{first}.", f"{second}.")
    return not (ways[0].startswith(ways[1]) or ways[1].startswith(ways[0]))


def _is_parallel(tree: Tree, time: Timeline, siblings: Sequence[int]) -> bool:
    """Whether any two children in different threads of control ran at the same time."""
    running: dict[str, float] = {}  # until when, by thread; none of them is apart from another, so they are few
    for index in sorted(siblings, key=time.begin):
        begun, strand = time.begin(index), _strand(tree, index)
        running = {one: until for one, until in running.items() if until > begun}
        if any(are_apart(strand, one) for one in running):
            return True
        running[strand] = max(time.end(index), running.get(strand, begun))
    return False
