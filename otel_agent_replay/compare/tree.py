"""The span tree of one run, as comparison walks it.

Built from a `RecordedRun` alone: orphans and cycles are tolerated and counted, never an error. Parents come
from the logical path for spans of ours (so that another library's span in between changes nothing) and from
the parent span id for the rest. Order and shape depend on no id and on no order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.model import Kind, Node, RecordedRun, RecordedSpan
from otel_agent_replay.model.making import maker_of

ROOT = 0
"""Index of the root of every tree: the run's own span, or a stand-in when the recording has none."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One place of the tree. `recorded` is None for the stand-in root; indexes follow preorder.

    `node` is the replay side of what is recorded, None for a foreign span.
    """

    index: int
    parent: int
    depth: int
    children: tuple[int, ...]
    recorded: RecordedSpan | None
    node: Node | None


_make_tree_node = maker_of(TreeNode)


@dataclass(frozen=True, slots=True)
class Tree:
    """All nodes in preorder; `nodes[ROOT]` is the root. `orphans` were hung on the root, `cycles` were cut.

    `sharing` spans have the id of another one: each is a node, and what names it as a parent lies below the first.
    """

    nodes: Sequence[TreeNode]
    orphans: int = 0
    cycles: int = 0
    sharing: int = 0


def build_tree(run: RecordedRun) -> Tree:
    """Return the tree of `run`. Linear but for sorting the children of each node."""
    spans = sorted(run.spans, key=_arrival)
    root = next((i for i, span in enumerate(spans) if span.node is not None and span.node.kind is Kind.RUN), None)
    parents, orphans = _parents(spans, root)
    children: dict[int | None, list[int]] = {}
    for child, parent in enumerate(parents):
        if child != root:
            children.setdefault(parent if parent is not None else root, []).append(child)
    cycles = _hang_unreachable(root, children, parents)
    ordered = {parent: _in_order(spans, members) for parent, members in children.items()}
    sharing = sum(count for count in Counter(one.span.span_id for one in spans).values() if count > 1)
    return Tree(_preorder(spans, root, ordered), orphans, cycles, sharing)


def _arrival(recorded: RecordedSpan) -> tuple[int, int, int, str | tuple[str, ...], int]:
    """Order spans without their ids: by recorded sequence where there is one, else by time, then by what they are."""
    span, node = recorded.span, recorded.node
    if node is not None:
        return (0, node.sequence, span.start_ns, node.path, span.end_ns)
    return (1, 0, span.start_ns, span.name, span.end_ns)


def _parents(spans: Sequence[RecordedSpan], root: int | None) -> tuple[list[int | None], int]:
    by_path: dict[tuple[str, ...], int] = {}
    by_id: dict[bytes, int] = {}
    for index, recorded in enumerate(spans):
        if recorded.node is not None:
            by_path.setdefault(recorded.node.path, index)
        by_id.setdefault(recorded.span.span_id, index)
    parents: list[int | None] = []
    orphans = 0
    for index, recorded in enumerate(spans):
        if index == root:
            parents.append(None)
            continue
        parent = None
        if recorded.node is not None:
            parent = by_path.get(recorded.node.parent_path)
        if parent is None:
            parent = by_id.get(recorded.span.parent_span_id)
        if parent is None and (recorded.node is not None or recorded.span.parent_span_id):
            orphans += 1
        parents.append(parent if parent != index else None)
    return parents, orphans


def _hang_unreachable(root: int | None, children: dict[int | None, list[int]], parents: Sequence[int | None]) -> int:
    """Cut each cycle at its earliest span and hang that on the root. Returns how many were cut."""
    reached = [False] * len(parents)
    if root is not None:
        reached[root] = True
    _reach(root, children, reached)
    cycles = 0
    for index, parent in enumerate(parents):
        if reached[index]:
            continue
        cycles += 1
        children[parent].remove(index)
        children.setdefault(root, []).append(index)
        reached[index] = True
        _reach(index, children, reached)
    return cycles


def _reach(start: int | None, children: dict[int | None, list[int]], reached: list[bool]) -> None:
    queue: list[int | None] = [start]
    while queue:
        for child in children.get(queue.pop(), ()):
            if not reached[child]:
                reached[child] = True
                queue.append(child)


def _in_order(spans: Sequence[RecordedSpan], members: list[int]) -> list[int]:
    """Sort siblings: ours by sequence, foreign ones between them by start time."""
    if all(spans[index].node is not None for index in members):
        return sorted(members)  # `spans` is sorted by arrival
    keys: dict[int, tuple[int, int, int]] = {}
    latest = 0
    for rank, index in enumerate(sorted(members)):  # `spans` is sorted by arrival: ours first, in sequence
        recorded = spans[index]
        if recorded.node is not None:
            latest = max(latest, recorded.span.start_ns)
            keys[index] = (latest, 0, rank)
        else:
            keys[index] = (recorded.span.start_ns, 1, rank)
    return sorted(members, key=keys.__getitem__)


def _preorder(spans: Sequence[RecordedSpan], root: int | None, children: dict[int | None, list[int]]) -> list[TreeNode]:
    order: list[tuple[int | None, int, int]] = []
    stack: list[tuple[int | None, int, int]] = [(root, -1, 0)]
    places: dict[int, list[int]] = {}
    while stack:
        source, parent, depth = stack.pop()
        index = len(order)
        order.append((source, parent, depth))
        if parent >= 0:
            places.setdefault(parent, []).append(index)
        below = children.get(source, ())
        stack.extend((child, index, depth + 1) for child in reversed(below))
    made = []
    for index, (source, parent, depth) in enumerate(order):
        recorded = None if source is None else spans[source]
        node = None if recorded is None else recorded.node
        made.append(_make_tree_node(index, parent, depth, tuple(places.get(index, ())), recorded, node))
    return made
