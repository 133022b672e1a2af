"""Comparing two large values stops after a stated amount of work, counted, and says that it did."""

import pytest

from otel_agent_replay.payload.difference import differences, differences_within

WORK = 20_000


class Leaf:
    """A value that counts how often any of its kind is looked at."""

    looks = 0

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        Leaf.looks += 1
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)

    def __repr__(self):
        Leaf.looks += 1
        return f"leaf {self.number}"


def nested(count, depth, offset=0):
    items = [Leaf(number + offset) for number in range(count)]
    for _ in range(depth):
        items = [{"below": items}, Leaf(0)]
    return items


SHAPES = {
    "long list, all else": lambda offset: [Leaf(n + offset) for n in range(60_000)],
    "list under lists": lambda offset: nested(2_000, 40, offset),
    "few values, often": lambda offset: [Leaf((n * 7 + offset) % 3) for n in range(1_900)],
    "wide object": lambda offset: {f"key {n}": Leaf(n + offset) for n in range(60_000)},
    "lists of lists": lambda offset: [[Leaf(n + m + offset) for m in range(60)] for n in range(1_000)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_takes_more_than_its_budget(shape):
    """Whatever the shape, no more values are looked at than the budget allows, but for two looks at one value."""
    before, after = SHAPES[shape](0), SHAPES[shape](1)
    Leaf.looks = 0
    differences_within(before, after, limit=10**9, work=WORK)
    assert Leaf.looks <= 2 * WORK


def test_five_megabytes_end_within_the_default_budget():
    """Two bodies of some 5 MB that differ everywhere are told as not looked at to the end, under a small budget."""
    before = {"rows": [{"id": n, "text": "x" * 80} for n in range(50_000)]}
    after = {"rows": [{"id": n, "text": "y" * 80} for n in range(50_000)]}
    found, to_the_end = differences_within(before, after, limit=10**9, work=WORK)
    assert not to_the_end
    assert 0 < len(found) < WORK
    assert str(found[0]).startswith("rows[0].text")


def test_within_the_budget_it_is_the_plain_search():
    """Where the work suffices the answer is that of `differences`, and complete."""
    before, after = {"m": [1, 2, {"a": 1.0}]}, {"m": [1, 9, 2, {"a": 1}]}
    assert differences_within(before, after) == (differences(before, after), True)
