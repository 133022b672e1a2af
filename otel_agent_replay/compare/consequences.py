"""Which later changes follow from the departure, and what that is known from.

Only evidence counts as such: a later request that carries what a departed answer brought, the same difference
once more, an outer step around an inner one. What merely came later is called that: a guess is not a fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import Added, Change, Changed, FieldChange, Moved, Placed, Removed
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.model import EdgeBasis, Word
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.payload.difference import MISSING

_WORD = re.compile(r"\w+")
_WORDS_SHOWN = 5


class Basis(Word):
    """Why a change is, or is not, held for a consequence."""

    CARRIES = "its request carries what a departed answer brought"
    SAME_DIFFERENCE = "the same difference again"
    ENCLOSES = "it contains a step that differs"
    LATER = "it came later; nothing shows that it follows"
    INDEPENDENT = "an equal request was answered differently"

    @property
    def edge(self) -> EdgeBasis | None:
        """Whether the link was seen or guessed; None when there is none."""
        if self is Basis.INDEPENDENT:
            return None
        return EdgeBasis.INFERRED if self is Basis.LATER else EdgeBasis.RECORDED


@dataclass(frozen=True, slots=True)
class Consequence:
    """A later change and its link to the departure; `words` are what it carries, a few of them."""

    change: Change
    basis: Basis
    words: Sequence[str] = ()


@dataclass(slots=True)
class _Trail:
    """What the departure and its consequences have brought into each run so far."""

    only_a: set[str] = field(default_factory=set)
    only_b: set[str] = field(default_factory=set)
    differences: set[tuple[bytes, bytes]] = field(default_factory=set)
    above_a: set[int] = field(default_factory=set)
    above_b: set[int] = field(default_factory=set)


def follow(
    placed: Sequence[Placed], sides: Sides, substance_a: RunSubstance, substance_b: RunSubstance
) -> list[Consequence]:
    """Return one entry for each change after the first, in order. `placed[0]` is the departure."""
    words = _Words(sides, substance_a, substance_b)
    trail = _Trail()
    result: list[Consequence] = []
    for number, item in enumerate(placed):
        change = item.change
        if number:
            consequence = _link(change, trail, words)
            result.append(consequence)
            if consequence.basis in (Basis.INDEPENDENT, Basis.LATER):
                continue
        answers_a, answers_b = words.answers(change)
        trail.only_a |= answers_a - answers_b
        trail.only_b |= answers_b - answers_a
        trail.differences |= _difference_keys(change)
        if not isinstance(change, Added):
            _add_ancestors(trail.above_a, sides.tree_a, change.a.index)
        if not isinstance(change, Removed):
            _add_ancestors(trail.above_b, sides.tree_b, change.b.index)
    return result


def _link(change: Change, trail: _Trail, words: _Words) -> Consequence:
    asks_a, asks_b = words.asks(change)
    carried = sorted(((asks_a - asks_b) & trail.only_a) | ((asks_b - asks_a) & trail.only_b))
    if carried:
        return Consequence(change, Basis.CARRIES, carried[:_WORDS_SHOWN])
    if _difference_keys(change) & trail.differences:
        return Consequence(change, Basis.SAME_DIFFERENCE)
    if isinstance(change, Changed):
        if change.a.index in trail.above_a or change.b.index in trail.above_b:
            return Consequence(change, Basis.ENCLOSES)
        if not any(item.field.is_request for item in change.fields):
            return Consequence(change, Basis.INDEPENDENT)
    return Consequence(change, Basis.LATER)


class _Words:
    """The words that a change asks with and answers with, in each run."""

    def __init__(self, sides: Sides, substance_a: RunSubstance, substance_b: RunSubstance) -> None:
        self._sides = sides
        self._substance_a = substance_a
        self._substance_b = substance_b

    def asks(self, change: Change) -> tuple[set[str], set[str]]:
        if isinstance(change, Changed):
            return _words_of([item for item in change.fields if item.field.is_request])
        return self._one_sided(change, asks=True)

    def answers(self, change: Change) -> tuple[set[str], set[str]]:
        if isinstance(change, Changed):
            return _words_of([item for item in change.fields if not item.field.is_request])
        return self._one_sided(change, asks=False)

    def _one_sided(self, change: Change, *, asks: bool) -> tuple[set[str], set[str]]:
        if isinstance(change, Moved):
            return set(), set()
        if isinstance(change, Removed):
            return self._whole(self._sides.tree_a, self._substance_a, change.a.index, asks=asks), set()
        if isinstance(change, Added):
            return set(), self._whole(self._sides.tree_b, self._substance_b, change.b.index, asks=asks)
        raise AssertionError(f"not a one-sided change: {change!r}")

    @staticmethod
    def _whole(tree: Tree, substance: RunSubstance, index: int, *, asks: bool) -> set[str]:
        recorded = tree.nodes[index].recorded
        if recorded is None:
            return set()
        found = substance.request(recorded) if asks else substance.result(recorded)
        words: set[str] = set()
        if found is not None:
            _add_words(found.tree, words)
        if asks and recorded.node is not None:
            _add_words(recorded.node.name, words)
        return words


def _words_of(fields: Sequence[FieldChange]) -> tuple[set[str], set[str]]:
    before: set[str] = set()
    after: set[str] = set()
    for item in fields:
        for difference in item.differences:
            _add_words(difference.before, before)
            _add_words(difference.after, after)
    return before, after


def _add_words(value: Any, found: set[str]) -> None:
    """Add the words of all leaves; keys count too, where they came with a whole subtree."""
    if isinstance(value, str):
        found.update(_WORD.findall(value.lower()))
    elif isinstance(value, dict):
        for inner in value.values():
            _add_words(inner, found)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _add_words(inner, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found.update(_WORD.findall(str(value)))


def _difference_keys(change: Change) -> set[tuple[bytes, bytes]]:
    if not isinstance(change, Changed):
        return set()
    return {
        (_token(difference.before), _token(difference.after))
        for item in change.fields
        if item.field.is_request
        for difference in item.differences
    }


def _token(value: Any) -> bytes:
    return b"" if value is MISSING else canonical_json(value)


def _add_ancestors(above: set[int], tree: Tree, index: int) -> None:
    parent = tree.nodes[index].parent
    while parent >= 0 and parent not in above:
        above.add(parent)
        parent = tree.nodes[parent].parent
