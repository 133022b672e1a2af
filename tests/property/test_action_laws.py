"""Laws of comparing answers as actions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.compare.action_difference import ActionMatch, compare_actions
from otel_agent_replay.compare.actions import Action, ActionKind, Stop, ToolUse

_arguments = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.text(max_size=2), max_size=2)
_calls = st.lists(st.builds(ToolUse, st.sampled_from(["read", "write"]), _arguments), min_size=1, max_size=4)
_texts = st.text(st.sampled_from("ab \n"), max_size=6)
_stops = st.sampled_from([Stop.END, Stop.LENGTH])
actions = st.one_of(
    st.builds(Action, st.just(ActionKind.TOOLS), _calls, _texts, stop=_stops),
    st.builds(Action, st.just(ActionKind.TEXT), text=_texts.filter(str.strip), stop=_stops),
    st.builds(Action, st.just(ActionKind.REFUSAL), text=_texts, refusal=_texts),
    st.builds(Action, st.just(ActionKind.NOTHING), stop=_stops),
)
MIRROR = {
    ActionMatch.TEXT_FOR_TOOLS: ActionMatch.TOOLS_FOR_TEXT,
    ActionMatch.TOOLS_FOR_TEXT: ActionMatch.TEXT_FOR_TOOLS,
    ActionMatch.REFUSED: ActionMatch.NOT_REFUSED,
    ActionMatch.NOT_REFUSED: ActionMatch.REFUSED,
}


@given(actions)
def test_an_action_agrees_with_itself(action):
    """An answer compared with itself is the same, without a difference."""
    found = compare_actions(action, action)
    assert found.match is ActionMatch.SAME
    assert not found.differences


@given(actions, actions)
def test_comparison_mirrors(one, other):
    """What one is to the other, the other is to the one, with the sides of each difference exchanged."""
    there, back = compare_actions(one, other), compare_actions(other, one)
    assert back.match is MIRROR.get(there.match, there.match)
    assert back.likeness == there.likeness
    assert there.agrees() is back.agrees()
    assert bool(there.differences) is bool(back.differences)


@given(actions, st.randoms(use_true_random=False))
def test_the_order_of_parallel_calls_changes_no_action(action, chance):
    """Calls in any order have the same key and agree."""
    calls = list(action.calls)
    chance.shuffle(calls)
    shuffled = Action(action.kind, calls, action.text, action.refusal, action.stop)
    assert shuffled.key == action.key
    assert compare_actions(action, shuffled).match in {ActionMatch.SAME, ActionMatch.OTHER_ORDER}


@given(actions, actions)
def test_other_arguments_are_always_located(one, other):
    """Where only arguments differ, at least one path says where."""
    found = compare_actions(one, other)
    assert bool(found.differences) is (found.match is ActionMatch.OTHER_ARGUMENTS)
