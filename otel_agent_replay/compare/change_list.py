"""All changes between two aligned trees, in the order in which they happened.

Splits what counts (added, removed, changed, moved) from what does not (order among concurrent steps, durations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.compare.changes import (
    Added,
    Changed,
    FieldChange,
    Moved,
    NodeRef,
    Placed,
    Removed,
    Reordered,
    TimingOnly,
    reference,
)
from otel_agent_replay.compare.concurrency import SwappedSiblings
from otel_agent_replay.compare.node_changes import PairComparer
from otel_agent_replay.compare.timeline import Timeline
from otel_agent_replay.compare.tree import ROOT, Tree
from otel_agent_replay.compare.tree_alignment import Alignment, Pair, Rule

TIMING_TOLERANCE = 0.2
"""Share of the longer duration within which two durations count as equal."""
TIMING_FLOOR_NS = 1_000_000
"""Durations that differ by less than this many nanoseconds count as equal."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Two trees with their pairs and clocks."""

    tree_a: Tree
    tree_b: Tree
    alignment: Alignment
    time_a: Timeline
    time_b: Timeline
    to_b: Mapping[int, Pair]
    to_a: Mapping[int, Pair]
    references_a: dict[int, NodeRef] = field(default_factory=dict)
    references_b: dict[int, NodeRef] = field(default_factory=dict)

    @classmethod
    def of(cls, tree_a: Tree, tree_b: Tree, alignment: Alignment) -> Sides:
        """Return the sides of an alignment, with each run's events of paired nodes as its measure."""
        time_a, time_b = Timeline(tree_a), Timeline(tree_b)
        time_a.watch(pair.a for pair in alignment.pairs)
        time_b.watch(pair.b for pair in alignment.pairs)
        to_b = {pair.a: pair for pair in alignment.pairs}
        to_a = {pair.b: pair for pair in alignment.pairs}
        return cls(tree_a, tree_b, alignment, time_a, time_b, to_b, to_a)

    def at_a(self, index: int) -> NodeRef:
        """Return the reference to a node of A, the same one each time."""
        return _kept(self.references_a, self.tree_a, index)

    def at_b(self, index: int) -> NodeRef:
        """Return the reference to a node of B, the same one each time."""
        return _kept(self.references_b, self.tree_b, index)


def _kept(references: dict[int, NodeRef], tree: Tree, index: int) -> NodeRef:
    found = references.get(index)
    if found is None:
        found = references[index] = reference(tree, index)
    return found


@dataclass(frozen=True, slots=True)
class ChangeList:
    """`placed` in order of their moments; the first is where the runs part."""

    placed: Sequence[Placed]
    reordered: Sequence[Reordered]
    timing: Sequence[TimingOnly]


def list_changes(sides: Sides, comparer: PairComparer, *, a_first: bool) -> ChangeList:
    """Return the changes. `a_first` breaks ties between the runs; it must not depend on which one was given first."""
    placed: list[tuple[tuple[int, int, bool, int], Placed]] = []
    reordered: list[Reordered] = []
    timing: list[TimingOnly] = []
    swapped = _Swapped(sides)
    for pair in sides.alignment.pairs:
        fields = _fields(sides, pair, comparer)
        is_elsewhere = pair.rule in (Rule.MOVED, Rule.REORDERED)
        if not fields:
            timing.extend(_timing(sides, pair))
            if not is_elsewhere:
                continue
        a, b = sides.at_a(pair.a), sides.at_b(pair.b)
        tie = pair.a if a_first else pair.b
        begin = min(sides.time_a.before(sides.time_a.begin(pair.a)), sides.time_b.before(sides.time_b.begin(pair.b)))
        if fields:
            moment = begin if any(change.field.is_request for change in fields) else _end(sides, pair)
            placed.append(((moment, 1, False, tie), Placed(Changed(a, b, fields, pair.rule), moment)))
        if pair.rule is Rule.REORDERED and swapped.ran_beside(pair):
            reordered.append(Reordered(a, b))
        elif is_elsewhere:
            placed.append(((begin, 2, False, tie), Placed(Moved(a, b), begin)))
    placed.extend(_one_sided(sides, a_first=a_first))
    placed.sort(key=lambda item: item[0])
    return ChangeList([change for _, change in placed], reordered, timing)


def _fields(sides: Sides, pair: Pair, comparer: PairComparer) -> list[FieldChange]:
    one, other = sides.tree_a.nodes[pair.a].recorded, sides.tree_b.nodes[pair.b].recorded
    return [] if one is None or other is None else comparer.compare(one, other)


def _end(sides: Sides, pair: Pair) -> int:
    return min(sides.time_a.before(sides.time_a.end(pair.a)), sides.time_b.before(sides.time_b.end(pair.b)))


def _one_sided(sides: Sides, *, a_first: bool) -> list[tuple[tuple[int, int, bool, int], Placed]]:
    placed = []
    alignment = sides.alignment
    for tree, time, paired, hidden, is_a in (
        (sides.tree_a, sides.time_a, sides.to_b, alignment.unobserved_a, True),
        (sides.tree_b, sides.time_b, sides.to_a, alignment.unobserved_b, False),
    ):
        open_nodes = {node.index for node in tree.nodes if node.index not in paired and node.index not in hidden}
        tops, below, wrapping = _fold(tree, open_nodes)
        for index in tops:
            moment = time.before(time.begin(index))
            here = sides.at_a(index) if is_a else sides.at_b(index)
            count, wraps = below[index], index in wrapping
            change = Removed(here, count, wraps) if is_a else Added(here, count, wraps)
            placed.append(((moment, 0, is_a is not a_first, index), Placed(change, moment)))
    return placed


def _fold(tree: Tree, open_nodes: set[int]) -> tuple[list[int], dict[int, int], set[int]]:
    """Fold open nodes under the topmost open one. Returns tops, counts below, tops with pairs inside."""
    tops: list[int] = []
    top_of: dict[int, int] = {}
    below: dict[int, int] = {}
    wrapping: set[int] = set()
    for node in tree.nodes:
        parent_top = top_of.get(node.parent)
        if node.index not in open_nodes:
            if parent_top is not None and node.parent in open_nodes:
                wrapping.add(parent_top)
            continue
        top = node.index if parent_top is None else parent_top
        top_of[node.index] = top
        if top == node.index:
            tops.append(top)
            below[top] = 0
        else:
            below[top] += 1
    return tops, below, wrapping


class _Swapped:
    """Tells which reordered pairs ran beside those that they changed places with, the pairs under a parent at once."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._siblings: dict[tuple[int, int], SwappedSiblings] = {}

    def ran_beside(self, pair: Pair) -> bool:
        sides = self._sides
        parents = sides.tree_a.nodes[pair.a].parent, sides.tree_b.nodes[pair.b].parent
        siblings = self._siblings.get(parents)
        if siblings is None:
            found = (sides.to_b.get(child) for child in sides.tree_a.nodes[parents[0]].children)
            pairs = [one for one in found if one is not None and sides.tree_b.nodes[one.b].parent == parents[1]]
            ends = (sides.tree_a, sides.time_a), (sides.tree_b, sides.time_b)
            siblings = self._siblings[parents] = SwappedSiblings(*ends, pairs)
        return siblings.ran_beside(pair)


def _timing(sides: Sides, pair: Pair) -> list[TimingOnly]:
    one, other = sides.tree_a.nodes[pair.a].recorded, sides.tree_b.nodes[pair.b].recorded
    if pair.a == ROOT or one is None or other is None or not one.span.end_ns or not other.span.end_ns:
        return []
    before, after = one.span.end_ns - one.span.start_ns, other.span.end_ns - other.span.start_ns
    delta = abs(after - before)
    if delta <= max(TIMING_FLOOR_NS, int(TIMING_TOLERANCE * max(before, after))):
        return []
    return [TimingOnly(sides.at_a(pair.a), sides.at_b(pair.b), before, after)]
