"""What `case.yaml` states for a gate is read strictly, and each invariant has a name that stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agent_replay.casefile.document import schema
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.gate import Case, CaseKind, Rule
from tests.support.case_runs import case_of

PAGE = Path(__file__).parents[3] / "otel_agent_replay" / "gate" / "README.md"


def wrong(**content):
    with pytest.raises(ConfigurationError) as caught:
        Case.of(content, Path("cases/one"))
    return str(caught.value)


def test_every_form_of_invariant_is_read():
    """A case that states all of them has one invariant of each rule."""
    case = case_of(
        effects={"at_most_once": True},
        transitions={"forbidden": ["A -> B"]},
        outcome="ok",
        error="TimeoutError",
        result={"state": "done"},
        final_state="DONE",
        must_call=["a"],
        must_not_call=["b"],
        order=["a", "b"],
        at_most_once=["a"],
        only=["a"],
        object_id=[{"call": "a", "path": "id", "equals": "1"}],
        must_cite=["policy-7"],
        must_refuse=True,
        budget={"tokens": 5},
        sql=[{"query": "SELECT 1"}],
    )
    assert {one.rule for one in case.invariants} == set(Rule)
    known = set(schema()["$defs"]["expect"]["properties"]) - {"events"}
    assert {rule.value for rule in Rule} - {"transitions"} == known


def test_names_stay_while_what_is_said_does():
    """A name is made of what the invariant says, or given; it does not hang on the place in the list."""
    one = case_of(must_call=["a", {"tool": "refund", "arguments": {"id": "17"}}])
    other = case_of(must_call=[{"tool": "refund", "arguments": {"id": "17"}}, "z", "a"])
    names = {invariant.name for invariant in one.invariants}
    assert names == {"must_call a", 'must_call tool refund arguments {"id":"17"}'}
    assert names < {invariant.name for invariant in other.invariants}
    named = case_of(must_call=[{"tool": "a", "name": "asks first", "why": "policy 7"}]).invariants[0]
    assert (named.name, named.why) == ("asks first", "policy 7")
    assert named.content == case_of(must_call=[{"tool": "a"}]).invariants[0].content


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"expects": {}}, "did you mean 'expect'?"),
        ({"expect": {"must_cal": []}}, "did you mean 'must_call'?"),
        ({"expect": {"must_call": [{"tol": "a"}]}}, "did you mean 'tool'?"),
        ({"expect": {"must_call": [{"tool": "a", "http": "b"}]}}, "tool and http"),
        ({"expect": {"must_call": [7]}}, "7 is not a text or a mapping"),
        ({"expect": {"must_call": [{"tool": "a", "arguments": {"x": {"$over": 1}}}]}}, "unknown operator '$over'"),
        ({"expect": {"must_call": [{"tool": "a", "arguments": {"x": {"$matches": "("}}}]}}, "no regular expression"),
        (
            {"expect": {"must_call": [{"tool": "a", "times": {"at_least": 2, "at_most": 1}}]}},
            "at most 1 and at least 2",
        ),
        ({"expect": {"must_call": ["a", "a"]}}, "two invariants are called"),
        ({"expect": {"must_refuse": {"says": "("}}}, "no regular expression"),
        ({"expect": {"order": ["a"]}}, "needs at least 2"),
        ({"expect": {"budget": {"token": 1}}}, "did you mean 'tokens'?"),
        ({"kind": "good"}, "'good' is not one of 'bad', 'control'"),
        ({"run": "0198c2"}, "not of the form"),
    ],
)
def test_what_is_wrong_is_named(content, told):
    """An unknown key, a wrong type, an operator or an expression that is wrong is an error that says where."""
    assert told in wrong(**content)


def test_a_case_without_anything_to_check_has_no_invariant():
    """The rule that is always there needs company: alone in no case it makes none."""
    assert Case.of({}, Path("cases/one")).invariants == ()
    assert [one.rule for one in Case.of({"effects": {"at_most_once": True}}, Path("x")).invariants] == [
        Rule.AT_MOST_ONCE
    ]
    assert case_of(must_refuse=False).invariants == ()


def test_a_case_says_what_its_run_is():
    """Kind, run, step and good runs come out as they were said; the name is the folder's."""
    run = "0" * 32
    case = Case.of({"kind": "control", "run": run, "from_step": 3, "good": ["../other"]}, Path("cases/one"))
    assert (case.name, case.kind, case.run, case.from_step) == ("one", CaseKind.CONTROL, run, 3)
    assert case.good == ("../other",)


def test_what_feeds_the_run_is_its_inputs():
    """Another entry is another test; another sentence about it, or another invariant, is not."""
    base = Case.of({"entry": "a:b", "input": {"x": 1}}, Path("c"))
    assert base.inputs == Case.of({"entry": "a:b", "input": {"x": 1}, "about": "!", "expect": {}}, Path("c")).inputs
    assert base.inputs != Case.of({"entry": "a:c", "input": {"x": 1}}, Path("c")).inputs
    assert base.inputs != Case.of({"entry": "a:b", "input": {"x": 2}}, Path("c")).inputs
