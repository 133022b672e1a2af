"""The states of a run as pieces, each stored once. Owns how states are cut and in which order their pieces lie.

An agent hands its whole state over at every checkpoint. A state is cut where it differs from one just before it, so
that the pieces that are stored are what was new at each step, and a state is a list of pieces. They are laid out in the
order of the last state, where most of them are, so that the list of each is a few ranges. Knows nothing of files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, TypeAlias
from zlib import crc32

from otel_agent_replay.payload.parts import BORDER, MOST_STATES, StateHistory

SHORTEST, LONGEST = 512, 2048
"""Bytes of a piece: what is new is cut once it is this long where its content says so, at the latest at that."""

Ranges: TypeAlias = list[tuple[int, int]]
"""Of places in the layout: (first, how many)."""

_MOST_ENDS = 64


class _Recipe(NamedTuple):
    """How a state's list of pieces is made: slices of the list of another one (by its place), and new pieces."""

    base: int
    members: list[slice | int]


class StatePieces:
    """Takes the states of one run with `add`, in their order; then gives `pieces` and, for each state, `ranges`.

    Holds the pieces, the last few states, and of each state what differs: memory grows with what is new.
    """

    def __init__(self) -> None:
        self._history = StateHistory(shortest_end=1)
        self._pieces: list[bytes] = []
        self._recipes: list[_Recipe] = []
        self._places: dict[bytes, int] = {}
        self._recent: OrderedDict[bytes, list[int]] = OrderedDict()
        self._ends: deque[list[int]] = deque(maxlen=_MOST_ENDS)  # lists that no later one was made of
        self._continued: set[bytes] = set()

    def add(self, digest: bytes, data: bytes) -> None:
        """Take the next state; one that was taken before is nothing new."""
        if digest in self._places:
            return
        found = self._history.parts(data)
        if found is None or found[0] not in self._recent:
            recipe = _Recipe(-1, list(self._new(data)))
        else:
            recipe = _Recipe(self._places[found[0]], [])
            base = _Cut(self._recent[found[0]], self._pieces)
            self._continued.add(found[0])
            for part in found[1]:
                # Copied and new bytes never share a piece: where a state grows once, it mostly grows again.
                before, whole, after = base.within(part.start, part.start + part.size)
                recipe.members.extend(self._new(part.data))
                recipe.members.extend(self._new(before))
                if whole is not None:
                    recipe.members.append(whole)
                recipe.members.extend(self._new(after))
        self._history.remember(digest, data)
        self._places[digest] = len(self._recipes)
        self._recipes.append(recipe)
        self._recent[digest] = _listed(recipe, [] if found is None else self._recent.get(found[0], []))
        while len(self._recent) > MOST_STATES:
            self._forget_oldest()

    def _new(self, data: bytes) -> Iterator[int]:
        for piece in cut(data):
            self._pieces.append(piece)
            yield len(self._pieces) - 1

    def _forget_oldest(self) -> None:
        digest, pieces = self._recent.popitem(last=False)
        if digest not in self._continued:
            self._ends.append(pieces)

    def laid_out(self) -> tuple[list[bytes], Iterator[tuple[bytes, Ranges]]]:
        """Return the pieces in the order to store them in, and each state's digest with its ranges. Ends the taking."""
        while self._recent:
            self._forget_oldest()
        order: dict[int, int] = {}
        for pieces in reversed(self._ends):
            for piece in pieces:
                order.setdefault(piece, len(order))
        for piece in range(len(self._pieces)):
            order.setdefault(piece, len(order))
        return [self._pieces[piece] for piece in order], self._ranges(order)

    def _ranges(self, order: dict[int, int]) -> Iterator[tuple[bytes, Ranges]]:
        lists: dict[int, list[int]] = {}
        for place, (digest, recipe) in enumerate(zip(self._places, self._recipes, strict=True)):
            pieces = lists[place] = _listed(recipe, lists.get(recipe.base, []))
            lists.pop(place - MOST_STATES, None)
            yield digest, ranges_of(order[piece] for piece in pieces)


class _Cut:
    """A list of pieces with the place where each begins."""

    def __init__(self, pieces: list[int], data: list[bytes]) -> None:
        self._pieces = pieces
        self._data = data
        self._starts = [0, *accumulate(len(data[piece]) for piece in pieces)]

    def within(self, start: int, end: int) -> tuple[bytes, slice | None, bytes]:
        """Return what of the bytes from `start` to `end` lies in whole pieces, and the bytes before and after those."""
        first, last = bisect_left(self._starts, start), bisect_right(self._starts, end) - 1
        if first >= last:
            return self._bytes(start, end), None, b""
        return self._bytes(start, self._starts[first]), slice(first, last), self._bytes(self._starts[last], end)

    def _bytes(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        first, last = bisect_right(self._starts, start) - 1, bisect_left(self._starts, end)
        data = b"".join(self._data[piece] for piece in self._pieces[first:last])
        return data[start - self._starts[first] : end - self._starts[first]]


def cut(data: bytes) -> list[bytes]:
    """Return `data` in pieces; where they end depends on what stands there, so that equal stretches are cut alike."""
    pieces = []
    start = at = 0
    for token in data.split(BORDER):
        at = min(at + len(token) + len(BORDER), len(data))
        while at - start > LONGEST:
            pieces.append(data[start : start + LONGEST])
            start += LONGEST
        if at - start >= SHORTEST and not crc32(token) & 3:
            pieces.append(data[start:at])
            start = at
    if start < len(data):
        pieces.append(data[start:])
    return pieces


def ranges_of(numbers: Iterator[int]) -> Ranges:
    """Return numbers in their order as ranges."""
    ranges: Ranges = []
    first = end = -1
    for number in numbers:
        if number != end:
            if end > first:
                ranges.append((first, end - first))
            first = number
        end = number + 1
    if end > first:
        ranges.append((first, end - first))
    return ranges


def _listed(recipe: _Recipe, base: list[int]) -> list[int]:
    pieces: list[int] = []
    for member in recipe.members:
        if isinstance(member, slice):
            pieces += base[member]
        else:
            pieces.append(member)
    return pieces
