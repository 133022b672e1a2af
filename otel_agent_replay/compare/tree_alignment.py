"""Pairing the nodes of two span trees by what they are: never by id, time or position alone.

Top-down from the roots. A pair whose subtrees are equal pairs them wholly; else its children are aligned in
layers (equal subtree, equal call, equal shape, equal name), then repaired: a level put in between, a node
renamed, the same thing in another order, a subtree moved elsewhere. Every pair says by which rule it was found
and how strong that is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.fingerprint import Keys
from otel_agent_replay.compare.sequence_alignment import Match, align_sequences, gaps
from otel_agent_replay.compare.tree import ROOT, Tree
from otel_agent_replay.model import AnswerSource, Kind, Word


class Rule(Word):
    """Why two nodes were paired, strongest first."""

    IDENTICAL = "identical subtree"
    SAME_CALL = "same call, in order"
    SAME_BEGINNING = "same first call, in order"
    SAME_SHAPE = "same shape, in order"
    SAME_NAME = "same name, in order"
    REORDERED = "same, in another order"
    MOVED = "same, elsewhere"
    WRAPPED = "a level in between"
    RENAMED = "renamed"
    ROOTS = "the runs themselves"
    BY_HAND = "by hand"

    @property
    def strength(self) -> float:
        """How far a pairing by this rule may be trusted, from 0 to 1."""
        return _STRENGTH[self]


_STRENGTH = {
    Rule.IDENTICAL: 1.0,
    Rule.ROOTS: 1.0,
    Rule.BY_HAND: 1.0,
    Rule.SAME_CALL: 0.9,
    Rule.REORDERED: 0.8,
    Rule.MOVED: 0.8,
    Rule.SAME_BEGINNING: 0.75,
    Rule.SAME_SHAPE: 0.7,
    Rule.WRAPPED: 0.6,
    Rule.SAME_NAME: 0.5,
    Rule.RENAMED: 0.3,
}

_LAYER_RULES = (Rule.IDENTICAL, Rule.SAME_CALL, Rule.SAME_BEGINNING, Rule.SAME_SHAPE, Rule.SAME_NAME)
SPLICE_BUDGET = 5_000_000
"""Nodes that are looked at one level down, in all: two long lists of strangers would else cost the square of them."""
_NEAR = 2
"""Levels up to a common node, within which one call alone may have moved."""
_TELLING_LAYERS = 2
"""Equal subtrees and equal calls are the same in any order; equal shapes and names only in theirs."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Node `a` of the first tree is node `b` of the second."""

    a: int
    b: int
    rule: Rule

    @property
    def strength(self) -> float:
        """How far the pairing may be trusted, from 0 to 1."""
        return self.rule.strength


@dataclass(frozen=True, slots=True)
class Alignment:
    """The pairs by first index; injective. `unobserved_*` lie below a step that one run answered without running it.

    `in_budget` is False when a list of siblings was too long to be aligned cell by cell.
    """

    pairs: Sequence[Pair]
    unobserved_a: frozenset[int]
    unobserved_b: frozenset[int]
    in_budget: bool = True


def align_trees(tree_a: Tree, keys_a: Keys, tree_b: Tree, keys_b: Keys) -> Alignment:
    """Return the alignment. `align_trees(a, b)` mirrors `align_trees(b, a)`: it works in one canonical direction."""
    if keys_a.digest <= keys_b.digest:
        return _Aligner(tree_a, keys_a, tree_b, keys_b).run()
    flipped = _Aligner(tree_b, keys_b, tree_a, keys_a).run()
    pairs = sorted((Pair(pair.b, pair.a, pair.rule) for pair in flipped.pairs), key=lambda pair: pair.a)
    return Alignment(pairs, flipped.unobserved_b, flipped.unobserved_a, flipped.in_budget)


class _Aligner:
    """One alignment, left to right."""

    def __init__(self, left: Tree, left_keys: Keys, right: Tree, right_keys: Keys) -> None:
        self.left, self.left_keys = left, left_keys
        self.right, self.right_keys = right, right_keys
        self.to_right: dict[int, tuple[int, Rule]] = {}
        self.to_left: dict[int, int] = {}
        # Nodes whose children were paired one level above them: they are no partner of anything then, for what lies
        # below a pair must lie below both, and their children would be paired a second time.
        self.opened_left: set[int] = set()
        self.opened_right: set[int] = set()
        self.queue: deque[tuple[int, int]] = deque()
        self.unobserved_left: set[int] = set()
        self.unobserved_right: set[int] = set()
        self.in_budget = True
        self.splice_budget = SPLICE_BUDGET

    def run(self) -> Alignment:
        """Align the whole."""
        self._pair(ROOT, ROOT, Rule.ROOTS)
        self._drain()
        self._pair_moved()
        pairs = [Pair(left, right, rule) for left, (right, rule) in sorted(self.to_right.items())]
        return Alignment(pairs, frozenset(self.unobserved_left), frozenset(self.unobserved_right), self.in_budget)

    def _pair(self, left: int, right: int, rule: Rule) -> None:
        self.to_right[left] = (right, rule)
        self.to_left[right] = left
        self.queue.append((left, right))

    def _drain(self) -> None:
        while self.queue:
            left, right = self.queue.popleft()
            if self.left_keys.exact[left] == self.right_keys.exact[right]:
                for offset in range(1, self.left_keys.size[left]):
                    self.to_right[left + offset] = (right + offset, Rule.IDENTICAL)
                    self.to_left[right + offset] = left + offset
                continue
            if self._only_answered(left, right):
                continue
            self._align_children(self.left.nodes[left].children, self.right.nodes[right].children)

    def _only_answered(self, left: int, right: int) -> bool:
        """Whether one side was answered without running: what happened below the other cannot be compared."""
        for one, other, tree, keys, unobserved in (
            (self.left.nodes[left], right, self.right, self.right_keys, self.unobserved_right),
            (self.right.nodes[right], left, self.left, self.left_keys, self.unobserved_left),
        ):
            node = one.node
            answered = node is not None and node.source is not AnswerSource.LIVE and node.kind is not Kind.RUN
            if answered and not one.children and tree.nodes[other].children:
                unobserved.update(range(other + 1, other + keys.size[other]))
                return True
        return False

    def _align_children(self, left: Sequence[int], right: Sequence[int]) -> None:
        if not left or not right:
            return
        layers = [
            ([keys_l[i] for i in left], [keys_r[j] for j in right])
            for keys_l, keys_r in zip(self.left_keys.layers(), self.right_keys.layers(), strict=True)
        ]
        found = align_sequences(layers, any_order=_TELLING_LAYERS)
        matches = found.matches
        self.in_budget = self.in_budget and found.within
        open_left, open_right = set(range(len(left))), set(range(len(right)))
        ruled = [(match, _LAYER_RULES[match.layer]) for match in matches]
        for match, rule in (*ruled, *((match, Rule.REORDERED) for match in found.crossed)):
            self._pair(left[match.left], right[match.right], rule)
            open_left.discard(match.left)
            open_right.discard(match.right)
        if not open_left or not open_right:
            self._splice_all(left, right, matches)
            return
        self._pair_reordered(left, right, open_left, open_right)
        self._splice_all(left, right, matches)
        self._pair_renamed(left, right, matches)

    def _pair_reordered(
        self, left: Sequence[int], right: Sequence[int], open_left: set[int], open_right: set[int]
    ) -> None:
        """Pair what is left over in another order: equal subtrees and calls anywhere, names where there is but one."""
        for layer, (keys_l, keys_r) in enumerate(zip(self.left_keys.layers(), self.right_keys.layers(), strict=True)):
            waiting: dict[int, deque[int]] = {}
            for j in sorted(open_right):
                waiting.setdefault(keys_r[right[j]], deque()).append(j)
            must_be_alone = layer >= _TELLING_LAYERS
            alone = _once(keys_l[i] for i in left) & _once(keys_r[j] for j in right) if must_be_alone else None
            for i in sorted(open_left):
                key = keys_l[left[i]]
                if not waiting.get(key) or (alone is not None and key not in alone):
                    continue
                j = waiting[key].popleft()
                self._pair(left[i], right[j], Rule.REORDERED)
                open_left.discard(i)
                open_right.discard(j)

    def _pair_renamed(self, left: Sequence[int], right: Sequence[int], matches: Sequence[Match]) -> None:
        """Pair the only two left over in a gap when they are of one kind and their payload or children agree."""
        for unpaired_l, unpaired_r in self._open_gaps(left, right, matches):
            if len(unpaired_l) == len(unpaired_r) == 1:
                i, j = unpaired_l[0], unpaired_r[0]
                if i in self.opened_left or j in self.opened_right:
                    continue
                one, other = self.left.nodes[i].node, self.right.nodes[j].node
                same_kind = (one and one.kind) == (other and other.kind)
                same_request = self.left_keys.telling[i] and self.left_keys.request[i] == self.right_keys.request[j]
                below_l = [self.left_keys.exact[child] for child in self.left.nodes[i].children]
                below_r = [self.right_keys.exact[child] for child in self.right.nodes[j].children]
                if same_kind and (same_request or (below_l and below_l == below_r)):
                    self._pair(i, j, Rule.RENAMED)

    def _splice_all(self, left: Sequence[int], right: Sequence[int], matches: Sequence[Match]) -> None:
        """Look one level down where a node was put in between, or taken out, around steps that are still there."""
        for unpaired_l, unpaired_r in self._open_gaps(left, right, matches):
            for j in list(unpaired_r):
                self._splice(unpaired_l, j, flipped=False)
            for i in list(unpaired_l):
                if i not in self.to_right:
                    self._splice(unpaired_r, i, flipped=True)

    def _splice(self, outer: list[int], between: int, *, flipped: bool) -> None:
        """Pair what is left over at one level with the children of `between`, which the other tree does not have."""
        inner = (self.left if flipped else self.right).nodes[between].children
        if not inner or self.splice_budget < 0:
            return
        outer_keys, inner_keys = (self.right_keys, self.left_keys) if flipped else (self.left_keys, self.right_keys)
        paired, opened = (self.to_left, self.opened_right) if flipped else (self.to_right, self.opened_left)
        waiting = [index for index in outer if index not in paired and index not in opened]
        if not waiting:
            return
        self.splice_budget -= len(waiting) + len(inner)
        if self.splice_budget < 0:
            self.in_budget = False
            return
        layers = [
            ([keys_o[i] for i in waiting], [keys_i[j] for j in inner])
            for keys_o, keys_i in zip(outer_keys.layers(), inner_keys.layers(), strict=True)
        ]
        matches = align_sequences(layers).matches
        if 2 * len(matches) < len(inner):
            return
        if matches:
            (self.opened_left if flipped else self.opened_right).add(between)
        for match in matches:
            one, other = waiting[match.left], inner[match.right]
            self._pair(*((other, one) if flipped else (one, other)), Rule.WRAPPED)

    def _open_gaps(
        self, left: Sequence[int], right: Sequence[int], matches: Sequence[Match]
    ) -> Iterable[tuple[list[int], list[int]]]:
        for low_l, high_l, low_r, high_r in gaps(matches, len(left), len(right)):
            unpaired_l = [index for index in left[low_l:high_l] if index not in self.to_right]
            unpaired_r = [index for index in right[low_r:high_r] if index not in self.to_left]
            if unpaired_l and unpaired_r:
                yield unpaired_l, unpaired_r

    def _pair_moved(self) -> None:
        """Pair unpaired subtrees that occur exactly once in both trees and are telling enough."""
        open_left = _unpaired(self.left, self.to_right, self.unobserved_left)
        open_right = _unpaired(self.right, self.to_left, self.unobserved_right)
        if not open_left or not open_right:
            return
        alone = _once(self.left_keys.exact) & _once(self.right_keys.exact)
        place = {self.right_keys.exact[j]: j for j in open_right}
        for i in open_left:
            key = self.left_keys.exact[i]
            j = place.get(key)
            if j is None or key not in alone or i in self.to_right or j in self.to_left:
                continue
            if i in self.opened_left or j in self.opened_right:
                continue
            if self.left_keys.size[i] >= 2 or (self.left_keys.telling[i] and self._near(i, j)):
                self._pair(i, j, Rule.MOVED)
                self._drain()

    def _near(self, left: int, right: int) -> bool:
        """Whether two nodes lie under the same node, each at most a few levels below it.

        One call alone may be asked again far away; only a whole subtree is known by what is in it.
        """
        below_left = self.left.nodes[left].parent
        for _ in range(_NEAR):
            paired = self.to_right.get(below_left)
            other = self.right.nodes[right].parent
            for _ in range(_NEAR):
                if paired is not None and paired[0] == other:
                    return True
                other = self.right.nodes[other].parent if other > ROOT else ROOT
            if below_left <= ROOT:
                return False
            below_left = self.left.nodes[below_left].parent
        return False


def _unpaired(
    tree: Tree, paired: dict[int, object] | dict[int, int] | dict[int, tuple[int, Rule]], unobserved: set[int]
) -> list[int]:
    return [node.index for node in tree.nodes if node.index not in paired and node.index not in unobserved]


def _once(keys: Iterable[int]) -> set[int]:
    return {key for key, count in Counter(keys).items() if count == 1}
