"""Laws of comparison: self, mirror, one insertion, injective and ancestor-keeping pairs, no early change, row order."""

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_agent_replay.compare import Added, Changed, Removed, Rule, Verdict, compare
from otel_agent_replay.compare.sequence_alignment import align_sequences
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.testing.builders import run

NAMES = st.sampled_from(["search", "refund", "weather"])
SMALL = st.integers(0, 3)

leaf = (
    st.tuples(st.just("tool"), NAMES, SMALL, SMALL)
    | st.tuples(st.just("model"), SMALL, SMALL)
    | st.tuples(st.just("foreign"), NAMES)
)
plan = st.recursive(
    st.lists(leaf, max_size=5),
    lambda inner: st.lists(
        leaf | st.tuples(st.just("step"), NAMES, inner) | st.tuples(st.just("together"), inner), max_size=5
    ),
    max_leaves=14,
)


def play(builder, actions):
    for kind, *rest in actions:
        if kind == "tool":
            builder.tool(rest[0], {"n": rest[1]}, {"value": rest[2]})
        elif kind == "model":
            builder.model(f"question {rest[0]}", f"answer {rest[1]}")
        elif kind == "foreign":
            builder.foreign(rest[0])
        elif kind == "step":
            builder.step(rest[0], lambda inner, below=rest[1]: play(inner, below))
        else:
            flat = [action for action in rest[0] if action[0] != "together"]
            builder.together(lambda same, below=flat: play(same, below))
    return builder


def recorded(actions, seed=1):
    return play(run("agent", seed=seed, started_ns=10**18 + seed * 10**12), actions).build(output="done")


UNDER_ONE = [("step", "search", [("foreign", "search")])]
BESIDE_AND_UNDER_ANOTHER = [("foreign", "search"), ("step", "refund", [("foreign", "search")])]
"""Found by chance: what was paired with the call beside was paired a second time below the renamed step."""


def signature(change):
    if isinstance(change, Added):
        return ("added", change.b.path or change.b.name, change.below, change.wraps)
    if isinstance(change, Removed):
        return ("removed", change.a.path or change.a.name, change.below, change.wraps)
    if isinstance(change, Changed):
        fields = tuple(item.field for item in change.fields)
        return ("changed", change.a.index, change.b.index, fields, change.rule)
    return ("moved", change.a.index, change.b.index)


def mirrored(entry):
    kind, *rest = entry
    if kind in {"added", "removed"}:
        return ("removed" if kind == "added" else "added", *rest)
    return (kind, rest[1], rest[0], *rest[2:])


@given(plan)
@settings(deadline=None)
def test_a_run_compared_with_itself_has_no_changes(actions):
    """compare(x, x) is identical, and so is the same agent under other ids and another clock."""
    one, again = recorded(actions), recorded(actions, seed=2)
    for other in (one, again):
        comparison = compare(one, other)
        assert comparison.verdict is Verdict.IDENTICAL, comparison.changes
        assert not comparison.changes
        assert not comparison.reordered


@given(plan, plan)
@settings(deadline=None)
def test_compare_mirrors(left, right):
    """compare(b, a) says the same as compare(a, b) with the sides exchanged."""
    a, b = recorded(left), recorded(right, seed=2)
    forward, backward = compare(a, b), compare(b, a)
    assert forward.verdict is backward.verdict
    assert [mirrored(signature(change)) for change in forward.changes] == [
        signature(change) for change in backward.changes
    ]
    assert {(pair.b, pair.a, pair.rule) for pair in forward.alignment.pairs} == {
        (pair.a, pair.b, pair.rule) for pair in backward.alignment.pairs
    }
    if forward.departure is not None:
        assert forward.departure.cause is backward.departure.cause
        assert [item.basis for item in forward.departure.consequences] == [
            item.basis for item in backward.departure.consequences
        ]


@given(plan, st.data())
@settings(deadline=None)
def test_one_inserted_span_gives_one_added(actions, data):
    """A leaf put anywhere among the top steps is one Added and nothing else."""
    at = data.draw(st.integers(0, len(actions)))
    inserted = [*actions[:at], ("tool", "inserted", 1, 1), *actions[at:]]
    changes = compare(recorded(actions), recorded(inserted, seed=2)).changes
    assert [type(change) for change in changes] == [Added]
    assert changes[0].b.name == "inserted"


@example(UNDER_ONE, BESIDE_AND_UNDER_ANOTHER)
@given(plan, plan)
@settings(deadline=None)
def test_pairs_are_injective_and_keep_ancestors(left, right):
    """No node is in two pairs; but for moved subtrees, a node inside another stays inside it."""
    a, b = recorded(left), recorded(right, seed=2)
    comparison = compare(a, b)
    pairs = comparison.alignment.pairs
    assert len({pair.a for pair in pairs}) == len({pair.b for pair in pairs}) == len(pairs)
    tree_a, tree_b = build_tree(a), build_tree(b)
    to_b = {pair.a: pair for pair in pairs}

    def above(tree, index):
        while (index := tree.nodes[index].parent) >= 0:
            yield index

    for pair in pairs:
        line = [pair.a, *above(tree_a, pair.a)]
        if any(to_b[index].rule is Rule.MOVED for index in line if index in to_b):
            continue
        ancestors_b = set(above(tree_b, pair.b))
        assert {to_b[index].b for index in line[1:] if index in to_b} <= ancestors_b


@example(UNDER_ONE, BESIDE_AND_UNDER_ANOTHER)
@given(plan, plan)
@settings(deadline=None)
def test_every_node_is_paired_or_reported(left, right):
    """What is in no pair is under an Added or a Removed: counts add up, and every row is there once."""
    a, b = recorded(left), recorded(right, seed=2)
    comparison = compare(a, b)
    added = sum(1 + change.below for change in comparison.changes if isinstance(change, Added))
    removed = sum(1 + change.below for change in comparison.changes if isinstance(change, Removed))
    assert len(comparison.alignment.pairs) + removed == len(a.spans)
    assert len(comparison.alignment.pairs) + added == len(b.spans)
    assert len(comparison.rows) == len(comparison.alignment.pairs) + added + removed
    assert len({row.a.index for row in comparison.rows if row.a}) == len(a.spans)
    assert len({row.b.index for row in comparison.rows if row.b}) == len(b.spans)


@given(plan, plan)
@settings(deadline=None)
def test_the_departure_never_lies_after_a_reported_change(left, right):
    """The departure is the first change; where no step changed its place, no other change is over when it begins."""
    a, b = recorded(left), recorded(right, seed=2)
    comparison = compare(a, b)
    assert (comparison.departure is None) == (not comparison.changes)
    # A step that moved lies at two moments, one in each run, so that "before" has no one meaning beside it.
    if not comparison.changes or any(pair.rule in {Rule.MOVED, Rule.REORDERED} for pair in comparison.alignment.pairs):
        return
    first, tree_a, tree_b = comparison.changes[0], build_tree(a), build_tree(b)
    assert comparison.departure.change is first
    for change in comparison.changes[1:]:
        shared = [
            (times(tree, getattr(first, side)), times(tree, getattr(change, side)))
            for side, tree in (("a", tree_a), ("b", tree_b))
            if hasattr(first, side) and hasattr(change, side)
        ]
        assert not shared or not all(other_end < first_begin for (first_begin, _), (_, other_end) in shared)


def times(tree, reference):
    span = tree.nodes[reference.index].recorded.span
    return span.start_ns, span.end_ns


@given(plan, plan, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_shuffled_rows_change_nothing(left, right, shuffle: random.Random):
    """The order in which spans come out of storage is no input."""
    a, b = recorded(left), recorded(right, seed=2)
    rows = list(b.spans)
    shuffle.shuffle(rows)
    straight, shuffled = compare(a, b), compare(a, replace(b, spans=tuple(rows)))
    assert [signature(change) for change in straight.changes] == [signature(change) for change in shuffled.changes]
    assert straight.sentence == shuffled.sentence


@given(st.lists(st.integers(0, 4), max_size=30), st.lists(st.integers(0, 4), max_size=30), st.sampled_from([0, 10**9]))
@settings(deadline=None)
def test_sequence_alignment_is_monotone(left, right, budget):
    """Matches rise on both sides and join equal keys, within the budget and above it."""
    found = align_sequences([(left, right)], cell_budget=budget)
    matches, within = found.matches, found.within
    assert all(left[match.left] == right[match.right] for match in matches)
    assert all(one.left < two.left and one.right < two.right for one, two in zip(matches, matches[1:]))
    assert within or budget == 0
    if left == right:
        assert len(matches) == len(left)
