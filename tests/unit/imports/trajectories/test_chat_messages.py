"""Lists of messages become turns: who asked whom with what, and which result belongs to which call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, chat_message, turns_of
from otel_agent_replay.imports.trajectories.trajectory import ModelTurn, ToolTurn, UserTurn
from tests.support.trajectories import call, desk_messages


def turns(messages, **more):
    return turns_of([Message(chat_message(one, "here")) for one in messages], **more)


def test_an_answer_is_a_model_turn_asked_with_all_before_it():
    """Each assistant's message is a model's answer, its request all messages before; tools and users are turns too."""
    found = turns(desk_messages())
    assert [type(turn) for turn in found] == [
        UserTurn, ModelTurn, ToolTurn, ModelTurn, UserTurn, ModelTurn, ToolTurn, ModelTurn,
    ]  # fmt: skip
    models = [turn for turn in found if isinstance(turn, ModelTurn)]
    assert [len(turn.request["messages"]) for turn in models] == [2, 4, 6, 8]
    assert models[0].answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "search_direct_flight"
    assert found[2] == ToolTurn("search_direct_flight", {"to": "OSL"}, {"flights": ["HAT1"]}, "call_1")
    assert found[4] == UserTurn("Yes.", "HAT1 is free. Shall I book it?")


def test_results_pair_with_calls_by_position_then_by_id():
    """Repeated ids pair in order, ids out of order pair by id, and a result that nobody asked for is kept."""
    asked = [call("a", {"n": 1}, "x"), call("b", {"n": 2}, "y"), call("c", {"n": 3}, "x")]
    answers = [
        {"role": "tool", "tool_call_id": one, "content": text}
        for one, text in [("y", "of b"), ("x", "of a"), ("x", "of c"), ("z", "of nobody")]
    ]
    found = turns([{"role": "assistant", "content": None, "tool_calls": asked}, *answers])
    told = [(turn.name, turn.result) for turn in found if isinstance(turn, ToolTurn)]
    assert told == [("b", "of b"), ("a", "of a"), ("c", "of c"), ("tool", "of nobody")]


def test_a_call_without_a_result_is_a_turn_that_never_ended():
    """A call that nothing answers is a tool turn without an answer, at its place."""
    found = turns([{"role": "assistant", "tool_calls": [call("pay", {})]}, {"role": "user", "content": "Stop!"}])
    assert [getattr(turn, "answered", None) for turn in found] == [None, False, None]


def test_a_scripted_greeting_is_no_model_turn():
    """An assistant's message that no model was asked for stands in later requests only."""
    found = turns_of(
        [
            Message({"role": "assistant", "content": "Hi!"}, asked=False),
            Message({"role": "user", "content": "Hello"}),
            Message({"role": "assistant", "content": "Yes?"}),
        ]
    )
    assert [type(turn) for turn in found] == [UserTurn, ModelTurn]
    assert [one["content"] for one in found[1].request["messages"]] == ["Hi!", "Hello"]


@pytest.mark.parametrize(
    "broken", [None, "text", {"content": "x"}, {"role": "boss"}, {"role": "assistant", "tool_calls": [3]}]
)
def test_what_is_no_message_is_named(broken):
    """A broken message is an error that says where it lies."""
    with pytest.raises(DamagedRecording, match=r"file#3 messages\[1\]"):
        chat_message(broken, "file#3 messages[1]")


messages = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "user"]), "content": st.sampled_from(["", "a", "b"])}
        ),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "content": st.none() | st.sampled_from(["", "a", "b"]),
                "tool_calls": st.lists(
                    st.builds(call, st.sampled_from("ab"), st.just({}), st.sampled_from("xyz")), max_size=3
                ),
            }
        ),
        st.fixed_dictionaries(
            {
                "role": st.just("tool"),
                "tool_call_id": st.sampled_from("xyz"),
                "content": st.sampled_from(["", "a", "b"]),
            }
        ),
    ),
    max_size=12,
)


@given(messages)
def test_every_message_is_told_once(given_messages):
    """Whatever the order: a model turn for each answer, a user turn for each user, a tool turn for each result."""
    found = turns(given_messages)
    roles = [one["role"] for one in given_messages]
    assert sum(isinstance(turn, ModelTurn) for turn in found) == roles.count("assistant")
    assert sum(isinstance(turn, UserTurn) for turn in found) == roles.count("user")
    tools = [turn for turn in found if isinstance(turn, ToolTurn)]
    assert sum(turn.answered for turn in tools) == roles.count("tool")
    assert len(tools) >= sum(len(one.get("tool_calls") or ()) for one in given_messages)
