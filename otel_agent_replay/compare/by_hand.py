"""Steps that a person says belong together: an alignment hint, which the aligner then takes for the same call. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from otel_agent_replay.compare.fingerprint import Interner, Keys
from otel_agent_replay.compare.notices import Notice
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.compare.tree_alignment import Alignment, Rule

_ELSEWHERE = (Rule.REORDERED, Rule.MOVED, Rule.WRAPPED)  # which says more than who paired them

StepPair = tuple[int, int]
"""A step of A and the step of B that it is."""


def with_hints(
    tree_a: Tree, keys_a: Keys, tree_b: Tree, keys_b: Keys, hints: Sequence[StepPair], intern: Interner
) -> tuple[Keys, Keys]:
    """Return the keys with which hinted steps are equal to each other, and to no other step of either run."""
    for number, (step_a, step_b) in enumerate(hints):
        a, b = _index(tree_a, step_a), _index(tree_b, step_b)
        if a is not None and b is not None:
            keys_a, keys_b = _keyed(keys_a, a, number, "a", intern), _keyed(keys_b, b, number, "b", intern)
    return keys_a, keys_b


def _keyed(keys: Keys, index: int, number: int, side: str, intern: Interner) -> Keys:
    def with_key(of: Sequence[int], key: int) -> list[int]:
        changed = list(of)
        changed[index] = key
        return changed

    same = intern(("by hand", number))
    return replace(
        keys,
        exact=with_key(keys.exact, intern(("by hand", number, side))),  # what is below may differ
        call=with_key(keys.call, same),
        head=with_key(keys.head, same),
        shape=with_key(keys.shape, same),
        name=with_key(keys.name, same),
    )


def told(alignment: Alignment, tree_a: Tree, tree_b: Tree, hints: Sequence[StepPair]) -> tuple[Alignment, list[Notice]]:
    """Return the alignment with the rule of hinted pairs, and a notice for each hint, kept or not."""
    pairs, notices = list(alignment.pairs), []
    places = {(pair.a, pair.b): place for place, pair in enumerate(pairs)}
    for step_a, step_b in hints:
        a, b = _index(tree_a, step_a), _index(tree_b, step_b)
        place = None if a is None or b is None else places.get((a, b))
        if place is None:
            missing = [
                f"{run} has no step {step}" for run, step, at in (("A", step_a, a), ("B", step_b, b)) if at is None
            ]
            why = "; ".join(missing) or "they lie below steps that are not paired, or other steps cross them"
            text = f"step {step_a} of A could not be paired by hand with step {step_b} of B: {why}"
            notices.append(Notice("not_paired", "A and B", text))
            continue
        if pairs[place].rule not in _ELSEWHERE:
            pairs[place] = replace(pairs[place], rule=Rule.BY_HAND)
        text = f"step {step_a} of A was paired by hand with step {step_b} of B"
        notices.append(Notice("by_hand", "A and B", text))
    return replace(alignment, pairs=pairs), notices


def _index(tree: Tree, step: int) -> int | None:
    return next((item.index for item in tree.nodes if item.node is not None and item.node.step == step), None)
