"""The structural difference of two trees."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.payload import MISSING, Difference, differences
from tests.property import strategies as own


def shown(before, after) -> list[str]:
    return [str(difference) for difference in differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"messages": [{"content": "a"}]}, {"messages": [{"content": "b"}]}, ["messages[0].content: 'a' -> 'b'"]),
        ({"a": 1}, {"b": 1}, ["a: 1 -> (nothing)", "b: (nothing) -> 1"]),
        ({"x y": {"1": 1}}, {"x y": {"1": 2}}, ["['x y']['1']: 1 -> 2"]),
        ({"a": None}, {}, ["a: None -> (nothing)"]),
        (1, 1.0, ["value: 1 -> 1.0"]),
        ([True], [1], ["[0]: True -> 1"]),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"a": []}, {"a": {}}, ["a: [] -> {}"]),
        ([1, 2, 3], [1, 9, 2, 3], ["[1]: (nothing) -> 9"]),
        ([1, 2, 3], [1, 3], ["[1]: 2 -> (nothing)"]),
        ([1, 2], [1, 2, 3], ["[2]: (nothing) -> 3"]),
        ([1, 2, 3, 4], [2, 3, 4, 5], ["[0]: 1 -> (nothing)", "[3]: (nothing) -> 5"]),
        ([1, 2, 3], [3, 2, 1], ["[0]: 1 -> 3", "[2]: 3 -> 1"]),
        ([{"r": "a"}, {"r": "b"}], [{"r": "a"}, {"r": "c"}], ["[1].r: 'b' -> 'c'"]),
        ((1, 2), [1, 2], ["value: (1, 2) -> [1, 2]"]),
    ],
)
def test_differences_by_path(before, after, expected):
    """Each difference has a path and both sides; arrays are aligned by what is equal."""
    assert shown(before, after) == expected


def test_one_inserted_message_is_one_difference():
    """A message put into the middle of a long conversation is one difference, at its place."""
    before = {"messages": [{"role": "user", "content": f"message {number}"} for number in range(50)], "model": "m"}
    after = copy.deepcopy(before)
    after["messages"].insert(20, {"role": "system", "content": "new"})
    (only,) = differences(before, after)
    assert only.path == "messages[20]"
    assert only.before is MISSING
    assert only.after["content"] == "new"


def test_a_message_changed_and_one_added():
    """A change and an addition in one array are two differences, each at its place."""
    before = [{"c": "a"}, {"c": "b"}, {"c": "c"}]
    after = [{"c": "a"}, {"c": "B"}, {"c": "c"}, {"c": "d"}]
    assert shown(before, after) == ["[1].c: 'b' -> 'B'", "[3]: (nothing) -> {'c': 'd'}"]


def test_long_texts_show_where_they_part():
    """Of two long texts the part around the first difference is shown, bounded."""
    text = shown({"p": "x" * 5_000 + "old" + "y" * 5_000}, {"p": "x" * 5_000 + "new" + "y" * 5_000})[0]
    assert "old" in text
    assert "new" in text
    assert len(text) < 350


def test_printing_is_bounded():
    """However large the sides are, the text of a difference is short."""
    big = {str(number): list(range(1_000)) for number in range(1_000)}
    assert len(str(Difference("a", big, 10**5_000))) < 600


def test_the_limit_holds():
    """No more differences than asked for are made, the first ones in order."""
    assert [d.path for d in differences(list(range(1_000)), [-1] * 1_000, limit=3)] == ["[0]", "[1]", "[2]"]
    assert len(differences(list(range(1_000)), [-1] * 1_000)) == 200


def test_values_of_the_codec_can_be_compared():
    """Values whose comparison is no yes or no (arrays) are compared by their text."""
    assert shown({"a": np.arange(3)}, {"a": np.arange(3)}) == []
    assert len(shown({"a": np.arange(3)}, {"a": np.arange(4)})) == 1


def test_nothing_stays_nothing():
    """The mark for `nothing` survives a copy and a pickle, so differences can be sent."""
    assert copy.deepcopy(MISSING) is MISSING
    assert pickle.loads(pickle.dumps(Difference("a", 1, MISSING))).after is MISSING


@given(own.json_values())
def test_a_tree_does_not_differ_from_itself(tree):
    """A tree compared with a copy of itself has no differences."""
    assert differences(tree, json.loads(json.dumps(tree))) == []


@given(own.json_values(), own.json_values())
def test_sides_mirror(one, two):
    """There are differences one way exactly when there are the other way."""
    assert bool(differences(one, two)) == bool(differences(two, one))


@given(st.lists(own.json_values(3), max_size=8), own.json_values(3), st.data())
def test_an_insertion_is_one_difference(items, new, data):
    """One item inserted into any array is one difference."""
    place = data.draw(st.integers(0, len(items)))
    (only,) = differences(items, [*items[:place], new, *items[place:]])
    assert only.before is MISSING
