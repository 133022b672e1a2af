"""Aligning two lists of siblings: layers of keys, each only inside the gaps that the layer before left open.

Knows integers only. Keys are dense integers because rapidfuzz compares by hash, where 1, True and 1.0 are
equal. Ties prefer the later difference: common beginnings are paired first, so that the first departure is not
pulled forward.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
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


def align_sequences(
    layers: Sequence[tuple[Sequence[int], Sequence[int]]], *, cell_budget: int = CELL_BUDGET
) -> tuple[list[Match], bool]:
    """Return the matches, in order of both lists, and whether the budget was kept.

    Each layer holds the left and the right list of keys, all of the same two lengths; the first is the most
    telling. Over the budget only keys that occur once on both sides are paired in the part that is too large.
    """
    if not layers:
        return [], True
    within = True
    matches: list[Match] = []
    for number, (left, right) in enumerate(layers):
        found: list[Match] = []
        for low_l, high_l, low_r, high_r in gaps(matches, len(left), len(right)):
            if low_l == high_l or low_r == high_r:
                continue
            pairs, kept = _match(left[low_l:high_l], right[low_r:high_r], cell_budget)
            within = within and kept
            found.extend(Match(low_l + i, low_r + j, number) for i, j in pairs)
        if found:
            matches = sorted([*matches, *found], key=lambda match: match.left)
    return matches, within


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
