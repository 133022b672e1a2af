"""Two aligned trees as one list of rows, in order, for whoever draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.change_list import ChangeList, Sides
from otel_agent_replay.compare.changes import Added, Change, Changed, Moved, NodeRef, Removed
from otel_agent_replay.compare.tree import ROOT
from otel_agent_replay.compare.tree_alignment import Rule
from otel_agent_replay.model import Word


class Mark(Word):
    """What a row says, as a letter or shape (never by colour alone)."""

    SAME = "="
    CHANGED = "~"
    REMOVED = "−"
    ADDED = "+"
    REORDERED = "↕"
    MOVED = "⇄"
    UNOBSERVED = "·"  # below a step that one run answered without running it


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a pair, or a node of one run. `rule` is why a pair is one; `change` what counts about it."""

    depth: int
    mark: Mark
    a: NodeRef | None
    b: NodeRef | None
    rule: Rule | None = None
    change: Change | None = None


_Task = tuple[int | None, int | None, int]  # (node of A, node of B, depth)


def merge_rows(sides: Sides, changes: ChangeList) -> list[Row]:
    """Return the rows, parents before children, A's order where the runs agree on none."""
    by_a: dict[int, Change] = {}
    by_b: dict[int, Change] = {}
    for placed in changes.placed:
        change = placed.change
        if isinstance(change, (Removed, Changed, Moved)):
            by_a.setdefault(change.a.index, change)
        if isinstance(change, Added):
            by_b[change.b.index] = change
    reordered = {item.a.index for item in changes.reordered}
    rows: list[Row] = []
    stack: list[_Task] = [(ROOT, ROOT, 0)]
    while stack:
        a, b, depth = stack.pop()
        rows.append(_row(sides, a, b, depth, by_a, by_b, reordered))
        stack.extend(reversed(list(_below(sides, a, b, depth + 1))))
    return rows


def _row(
    sides: Sides,
    a: int | None,
    b: int | None,
    depth: int,
    by_a: Mapping[int, Change],
    by_b: Mapping[int, Change],
    reordered: set[int],
) -> Row:
    one = None if a is None else sides.at_a(a)
    other = None if b is None else sides.at_b(b)
    if a is None or b is None:
        hidden = a in sides.alignment.unobserved_a if a is not None else b in sides.alignment.unobserved_b
        mark = Mark.UNOBSERVED if hidden else (Mark.REMOVED if b is None else Mark.ADDED)
        change = by_a.get(a) if a is not None else by_b.get(b if b is not None else -1)
        return Row(depth, mark, one, other, None, change)
    change = by_a.get(a)
    mark = Mark.SAME
    if isinstance(change, Moved):
        mark = Mark.MOVED
    elif change is not None:
        mark = Mark.CHANGED
    elif a in reordered:
        mark = Mark.REORDERED
    return Row(depth, mark, one, other, sides.to_b[a].rule, change)


def _below(sides: Sides, a: int | None, b: int | None, depth: int) -> Iterator[_Task]:
    children_a: Sequence[int] = () if a is None else sides.tree_a.nodes[a].children
    children_b: Sequence[int] = () if b is None else sides.tree_b.nodes[b].children
    place_b = {child: number for number, child in enumerate(children_b)}
    next_b = 0
    for child in children_a:
        pair = sides.to_b.get(child)
        if pair is None:
            yield child, None, depth
            continue
        if pair.rule is Rule.WRAPPED and a in sides.to_b:
            continue  # shown where B has it, below the level that was put in between
        number = place_b.get(pair.b)
        in_order = number is not None and pair.rule not in (Rule.REORDERED, Rule.MOVED)
        if in_order and number is not None:
            yield from _only_b(sides, children_b[next_b:number], depth)
            next_b = max(next_b, number + 1)
        yield child, pair.b, depth
    yield from _only_b(sides, children_b[next_b:], depth)


def _only_b(sides: Sides, children: Sequence[int], depth: int) -> Iterator[_Task]:
    for child in children:
        pair = sides.to_a.get(child)
        if pair is None:
            yield None, child, depth
        elif pair.rule is Rule.WRAPPED and sides.tree_a.nodes[pair.a].parent in sides.to_b:
            yield pair.a, child, depth
