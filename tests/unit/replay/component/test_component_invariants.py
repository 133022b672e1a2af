"""The rules that hold of a case's event log: changes of state, ends, and effects."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.event_log import Event
from otel_agent_replay.replay.component.invariants import broken_rules, states


def case(**transitions):
    return Case.of({"entry": "a:b", "transitions": transitions}, Path())


def checkpoint(name, state=None):
    return Event(0, 0, "checkpoint", name, state=state, status="ok")


def effect(what="tool refund", *, key="", happened=True):
    return Event(0, 0, "tool", "refund", effect=what, key=key, happened=happened, status="ok")


def ended(status="ok", error=""):
    return Event(0, 0, "end", "agent", status=status, error=error)


def rules_broken(of, *events):
    for number, event in enumerate(events, 1):
        event.number = number
    return [(one.rule, one.event) for one in broken_rules(of, events)]


def test_a_forbidden_change_is_named_at_its_event():
    """What waits for a person must not go on by itself, whatever comes after."""
    of = case(forbidden=["WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE"])
    events = [checkpoint(name) for name in ("NEW", "WAITING_HUMAN_APPROVAL", "AUTO_EXECUTE", "DONE")]
    assert rules_broken(of, *events) == [("forbidden_transition", 3)]


def test_the_same_states_by_another_way_are_fine():
    """Only the direct change is forbidden."""
    of = case(forbidden=["WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE"])
    assert rules_broken(of, *[checkpoint(n) for n in ("WAITING_HUMAN_APPROVAL", "APPROVED", "AUTO_EXECUTE")]) == []


def test_with_a_list_of_allowed_changes_every_other_is_broken():
    """Each wrong change is told, not only the first."""
    of = case(start="NEW", allowed=["NEW -> PLANNED", "PLANNED -> DONE", "* -> FAILED"])
    assert rules_broken(of, *[checkpoint(n) for n in ("PLANNED", "FAILED")]) == []
    assert rules_broken(of, *[checkpoint(n) for n in ("DONE", "PLANNED", "DONE")]) == [
        ("transition_not_allowed", 1),
        ("transition_not_allowed", 2),
    ]


def test_staying_in_a_state_is_no_change():
    """Two checkpoints of one state in a row break nothing."""
    of = case(allowed=[])
    assert rules_broken(of, checkpoint("A"), checkpoint("A")) == []


def test_the_state_may_lie_inside_the_checkpoint():
    """`state` is a path; a checkpoint without it tells none."""
    of = case(state="order.status", forbidden=["NEW -> LOST"])
    events = [
        checkpoint("planned", {"order": {"status": "NEW"}}),
        checkpoint("aside", {"note": 1}),
        checkpoint("planned", {"order": {"status": "LOST"}}),
    ]
    assert [name for _, name in states(of.transitions, events)] == ["NEW", "LOST"]
    assert rules_broken(of, *events) == [("forbidden_transition", 3)]


def test_nothing_follows_a_terminal_state():
    """Neither another state nor an effect; one that did not come about is none."""
    of = case(terminal=["DONE"])
    assert rules_broken(of, checkpoint("DONE"), checkpoint("DONE"), effect(happened=False)) == []
    assert rules_broken(of, checkpoint("DONE"), checkpoint("AGAIN"), effect()) == [
        ("after_terminal_state", 2),
        ("after_terminal_state", 3),
    ]


def test_no_effect_follows_a_failure():
    """Not after a failed state, and not after a run that ended in an error; a run that ended well may be followed."""
    assert rules_broken(case(failed=["FAILED"]), checkpoint("FAILED"), effect()) == [("effect_after_failure", 2)]
    assert rules_broken(case(), ended("error", "builtins:ValueError"), effect()) == [("effect_after_failure", 2)]
    assert rules_broken(case(), ended(), effect()) == []


def test_an_effect_happens_once():
    """Twice without a key, or under another one, is twice; under the same key the system can tell."""
    assert rules_broken(case(), effect(), effect()) == [("effect_twice", 2)]
    assert rules_broken(case(), effect(key="k1"), effect(key="k2")) == [("effect_twice", 2)]
    assert rules_broken(case(), effect(key="k1"), effect()) == [("effect_twice", 2)]
    assert rules_broken(case(), effect(key="k1"), effect(key="k1")) == []
    assert rules_broken(case(), effect("refund 17"), effect("refund 18")) == []
    assert rules_broken(case(), effect(happened=False), effect()) == []


def test_a_case_may_allow_an_effect_twice():
    """`effects: {at_most_once: false}` is said, never guessed."""
    of = Case.of({"entry": "a:b", "effects": {"at_most_once": False}}, Path())
    assert rules_broken(of, effect(), effect()) == []
