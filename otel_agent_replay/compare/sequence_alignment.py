"""Aligning two lists of siblings: layers of keys, each only inside the gaps that the layer before left open.

Knows integers only. Keys are dense integers because rapidfuzz compares by hash, where 1, True and 1.0 are
equal. Ties prefer the later difference: common beginnings are paired first, so that the first departure is not
pulled forward.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

CELL_BUDGET = 200_000_000
"""Largest product of two list lengths, in machine words of 64 cells, that is aligned cell by cell."""


@dataclass(frozen=True, slots=True)
class Match:
    """Position `left` pairs with position `right`, found by layer number `layer`."""

    left: int
    right: int
    layer: int


@dataclass(frozen=True, slots=True)
class SequenceAlignment:
    """`matches` in order of both lists; `crossed` stand in another order; `within` tells of the budget."""

    matches: Sequence[Match]
    crossed: Sequence[Match]
    within: bool


def align_sequences(
    layers: Sequence[tuple[Sequence[int], Sequence[int]]], *, any_order: int = 0, cell_budget: int = CELL_BUDGET
) -> SequenceAlignment:
    """Return the matches of two lists.

    Each layer holds the left and the right list of keys, all of the same two lengths; the first is the most
    telling. What the first `any_order` layers leave over with one key on both sides is matched across, so that a
    weaker layer does not join what is merely in the same place. Over the budget only keys that occur once on
    both sides are paired in the part that is too large.
    """
    within = True
    matches: list[Match] = []
    crossed: list[Match] = []
    for number, (left, right) in enumerate(layers):
        if len(matches) + len(crossed) == min(len(left), len(right)):
            break  # there is nothing left to pair on one side
        taken_left, taken_right = {match.left for match in crossed}, {match.right for match in crossed}
        found: list[Match] = []
        for low_l, high_l, low_r, high_r in gaps(matches, len(left), len(right)):
            open_left = [index for index in range(low_l, high_l) if index not in taken_left]
            open_right = [index for index in range(low_r, high_r) if index not in taken_right]
            if not open_left or not open_right:
                continue
            pairs, kept = _match([left[i] for i in open_left], [right[j] for j in open_right], cell_budget)
            within = within and kept
            found.extend(Match(open_left[i], open_right[j], number) for i, j in pairs)
        if found:
            matches = sorted([*matches, *found], key=lambda match: match.left)
        if number < any_order:
            crossed += _crossed(matches, crossed, left, right, number)
    return SequenceAlignment(matches, crossed, within)


def _crossed(
    matches: Sequence[Match], before: Sequence[Match], left: Sequence[int], right: Sequence[int], layer: int
) -> list[Match]:
    """Match what is left over: a key that is left over once on both sides anywhere, others inside one gap."""
    done_left = {match.left for match in (*matches, *before)}
    done_right = {match.right for match in (*matches, *before)}
    once_left = Counter(key for i, key in enumerate(left) if i not in done_left)
    once_right = {key: j for j, key in enumerate(right) if j not in done_right}
    count_right = Counter(key for j, key in enumerate(right) if j not in done_right)
    found = [
        Match(i, once_right[key], layer)
        for i, key in enumerate(left)
        if i not in done_left and once_left[key] == count_right[key] == 1
    ]
    done_left.update(match.left for match in found)
    done_right.update(match.right for match in found)
    for low_l, high_l, low_r, high_r in gaps(matches, len(left), len(right)):
        if low_l == high_l or low_r == high_r:
            continue
        waiting: dict[int, deque[int]] = {}
        for j in range(low_r, high_r):
            if j not in done_right:
                waiting.setdefault(right[j], deque()).append(j)
        found += [
            Match(i, waiting[left[i]].popleft(), layer)
            for i in range(low_l, high_l)
            if i not in done_left and waiting.get(left[i])
        ]
    return found


def gaps(matches: Sequence[Match], left: int, right: int) -> list[tuple[int, int, int, int]]:
    """Return the open stretches between matches: (left from, left to, right from, right to), ends excluded."""
    result = []
    from_left = from_right = 0
    for match in matches:
        result.append((from_left, match.left, from_right, match.right))
        from_left, from_right = match.left + 1, match.right + 1
    result.append((from_left, left, from_right, right))
    return result


def _match(left: Sequence[int], right: Sequence[int], cell_budget: int) -> tuple[list[tuple[int, int]], bool]:
    shorter = min(len(left), len(right))
    head = 0
    while head < shorter and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < shorter - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    middle_left, middle_right = left[head : len(left) - tail], right[head : len(right) - tail]
    pairs = [(i, i) for i in range(head)]
    within = True
    if middle_left and middle_right:
        if len(middle_left) * len(middle_right) // 64 <= cell_budget:
            middle = _blocks(middle_left, middle_right)
        else:
            middle, within = _unique_in_order(middle_left, middle_right), False
        pairs.extend((head + i, head + j) for i, j in middle)
    pairs.extend((len(left) - tail + i, len(right) - tail + i) for i in range(tail))
    return pairs, within


def _blocks(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    from rapidfuzz.distance import Levenshtein

    blocks = Levenshtein.opcodes(list(left), list(right)).as_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def _unique_in_order(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    """Pair the keys that occur once on both sides, as many as lie in the same order (patience)."""
    once_left, once_right = Counter(left), Counter(right)
    place = {key: j for j, key in enumerate(right) if once_right[key] == 1}
    candidates = [(i, place[key]) for i, key in enumerate(left) if once_left[key] == 1 and key in place]
    tails: list[int] = []
    tail_at: list[int] = []
    previous: list[int] = []
    for number, (_, j) in enumerate(candidates):
        at = bisect_left(tails, j)
        previous.append(tail_at[at - 1] if at else -1)
        tails[at : at + 1] = [j]
        tail_at[at : at + 1] = [number]
    pairs = []
    number = tail_at[-1] if tail_at else -1
    while number >= 0:
        pairs.append(candidates[number])
        number = previous[number]
    return pairs[::-1]
