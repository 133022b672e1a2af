"""Steps that a person says belong together are compared with each other, and the report says so."""

from otel_agent_replay.compare import Changed, Rule, Verdict, compare
from otel_agent_replay.testing.builders import run


def pair():
    """A tool that was replaced by another with other arguments: by itself one step fewer and one more."""
    a = run(seed=1).tool("first", {}, 1).tool("find_order", {"order": 1}, "late").tool("last", {}, 2).build()
    b = run(seed=2).tool("first", {}, 1).tool("lookup", {"id": "1"}, "late!").tool("last", {}, 2).build()
    return a, b


def kinds(comparison):
    return [type(change).__name__ for change in comparison.changes]


def test_two_steps_that_belong_together_are_one_changed_step():
    """Without a hint one is removed and one added; with it what differs between them is told, and who paired them."""
    a, b = pair()
    assert sorted(kinds(compare(a, b))) == ["Added", "Removed"]
    comparison = compare(a, b, by_hand=[(2, 2)])
    (change,) = comparison.changes
    assert isinstance(change, Changed)
    assert change.rule is Rule.BY_HAND
    assert {"name", "request", "result"} <= {item.field.value for item in change.fields}
    assert [notice.code for notice in comparison.notices] == ["by_hand"]


def test_the_mirrored_hint_gives_the_mirrored_comparison():
    """The hint works from either side."""
    a, b = pair()
    back = compare(b, a, by_hand=[(2, 2)])
    assert kinds(back) == ["Changed"]
    assert back.changes[0].a.name == "lookup"


def test_a_hint_of_equal_steps_changes_nothing():
    """What is paired anyway stays as it is, and what is below an equal pair too."""
    inside = lambda tool: tool.http("GET", "https://x.example/a", {"v": 1})
    a, b = (run(seed=seed).tool("x", {}, 1, inside=inside).tool("y", {}, 2).build() for seed in (1, 2))
    assert compare(a, b, by_hand=[(1, 1)]).verdict is Verdict.IDENTICAL


def test_a_hint_that_cannot_be_kept_is_said():
    """A step that is not there, or steps that others cross, are named; everything else is compared as ever."""
    a, b = pair()
    comparison = compare(a, b, by_hand=[(2, 9)])
    assert "B has no step 9" in comparison.notices[0].text
    assert sorted(kinds(comparison)) == ["Added", "Removed"]
