"""Answers as actions: which are the same, and where they differ."""

from __future__ import annotations

import pytest

from otel_agent_replay.compare.action_difference import ActionMatch, compare_actions, text_likeness
from otel_agent_replay.compare.actions import Action, ActionKind, Stop, ToolUse, action_of, no_answer
from otel_agent_replay.protocols import ANTHROPIC_MESSAGES, OPENAI_CHAT, Folded, ProviderError
from otel_agent_replay.testing.recorded_bodies import chat_answer
from otel_agent_replay.testing.replies import anthropic_message, openai_chat_stream


def chat(text=None, *calls, **more):
    """The action of a Chat Completions answer; calls are (name, arguments)."""
    made = [(f"call_{number}", name, arguments) for number, (name, arguments) in enumerate(calls)]
    return action_of(OPENAI_CHAT.fold(chat_answer(text, tool_calls=made, **more).data, "application/json", 200))


def match(one, other):
    return compare_actions(one, other).match


def test_an_answer_is_an_action_whatever_its_protocol_and_framing():
    """Plain, streamed and of another provider: the same text is the same action, with the same stop."""
    streamed = OPENAI_CHAT.fold(openai_chat_stream(["Hel", "lo"]).body, "text/event-stream", 200)
    other = ANTHROPIC_MESSAGES.fold(anthropic_message("Hello").body, "application/json", 200)
    actions = [chat("Hello"), action_of(streamed), action_of(other)]
    assert [action.kind for action in actions] == [ActionKind.TEXT] * 3
    assert [action.stop for action in actions] == [Stop.END] * 3
    assert {match(one, two) for one in actions for two in actions} == {ActionMatch.SAME}


def test_the_spelling_of_arguments_and_ids_of_calls_do_not_matter():
    """Key order and call ids are no difference, the number 1 and the text "1" are."""
    one = chat(None, ("search", {"q": "x", "n": 1}))
    assert match(one, chat(None, ("search", {"n": 1, "q": "x"}))) is ActionMatch.SAME
    assert match(one, chat("I look.", ("search", {"n": 1, "q": "x"}))) is ActionMatch.SAME
    assert match(one, chat(None, ("search", {"n": "1", "q": "x"}))) is ActionMatch.OTHER_ARGUMENTS


def test_other_arguments_are_named_by_tool_and_path():
    """Of parallel calls the equal ones face each other, so that only what differs is told."""
    one = chat(None, ("book", {"seat": {"row": 1}}), ("book", {"seat": {"row": 2}}), ("mail", {"to": "a"}))
    other = chat(None, ("mail", {"to": "a"}), ("book", {"seat": {"row": 2}}), ("book", {"seat": {"row": 9}}))
    found = compare_actions(one, other)
    assert found.match is ActionMatch.OTHER_ARGUMENTS
    assert [str(one) for one in found.differences] == ["book(seat.row): 1 -> 9"]


def test_parallel_calls_are_a_multiset_and_their_order_is_told_apart():
    """The same calls in another order agree, but are not called the same; one call more is another action."""
    one, two = ("read", {"id": 1}), ("read", {"id": 2})
    assert match(chat(None, one, two), chat(None, two, one)) is ActionMatch.OTHER_ORDER
    assert compare_actions(chat(None, one, two), chat(None, two, one)).agrees()
    assert match(chat(None, one, two), chat(None, one, one)) is ActionMatch.OTHER_ARGUMENTS
    assert match(chat(None, one), chat(None, one, one)) is ActionMatch.OTHER_TOOLS
    assert match(chat(None, one), chat(None, ("write", {"id": 1}))) is ActionMatch.OTHER_TOOLS


REFUSAL = Action(ActionKind.REFUSAL, refusal="I cannot help with that")


@pytest.mark.parametrize(
    ("recorded", "asked", "expected"),
    [
        (chat(None, ("a", {})), chat("no"), ActionMatch.TEXT_FOR_TOOLS),
        (chat("no"), chat(None, ("a", {})), ActionMatch.TOOLS_FOR_TEXT),
        (chat("no"), REFUSAL, ActionMatch.REFUSED),
        (REFUSAL, chat(None, ("a", {})), ActionMatch.NOT_REFUSED),
        (chat("no"), chat("", finish_reason="content_filter"), ActionMatch.REFUSED),
        (chat("no"), chat(""), ActionMatch.NOTHING),
        (chat("no"), chat("no", finish_reason="length"), ActionMatch.OTHER_STOP),
        (chat(None, ("a", {})), chat(None, ("a", {}), finish_reason="length"), ActionMatch.OTHER_STOP),
        (chat("no", finish_reason="length"), chat("no", finish_reason="length"), ActionMatch.SAME),
        (chat(None, ("a", {})), chat(None, ("a", {}), finish_reason="stop"), ActionMatch.SAME),
        (chat("no"), no_answer("HTTP 500"), ActionMatch.NO_ANSWER),
    ],
)
def test_what_an_answer_does_instead_is_named(recorded, asked, expected):
    """Text for tools, tools for text, refusals, empty answers, answers cut short and errors are told apart."""
    assert match(recorded, asked) is expected
    agrees = expected in {ActionMatch.SAME, ActionMatch.OTHER_WORDS}
    assert compare_actions(recorded, asked).agrees() is agrees


def test_other_words_agree_from_a_likeness_on():
    """Text for text takes the agent the same way unless more likeness is asked for; the likeness is stated."""
    found = compare_actions(chat("Your order is on its way."), chat("Your order was lost."))
    assert found.match is ActionMatch.OTHER_WORDS
    assert 0.3 < found.likeness < 0.9
    assert found.agrees()
    assert not found.agrees(0.95)
    assert match(chat("Two  words\n"), chat("Two words")) is ActionMatch.SAME
    assert text_likeness("", " ") is None


def test_an_error_or_a_cut_answer_is_no_action_and_says_why():
    """A provider's error, a stream that ends early and a malformed body have no action; the reason is kept."""
    cut = OPENAI_CHAT.fold(openai_chat_stream(["Hel", "lo"]).body[:-60], "text/event-stream", 200)
    refused = OPENAI_CHAT.fold(b'{"error": {"type": "overloaded", "message": "later"}}', "application/json", 503)
    broken = OPENAI_CHAT.fold(b"<html>", "application/json", 200)
    assert [action_of(one).kind for one in (cut, refused, broken)] == [ActionKind.NONE] * 3
    assert action_of(refused).error == "HTTP 503 overloaded: later"
    assert "malformed" in action_of(broken).error
    assert action_of(Folded(complete=False)).error == "the answer was cut off"
    assert action_of(Folded(complete=True, error=ProviderError("timeout"))).error == "timeout"


def test_arguments_that_are_no_json_are_compared_as_text():
    """Arguments that the model broke are kept as text: equal when spelled equal."""
    assert ToolUse("a", '{"q": ').key == ToolUse("a", '{"q": ').key
    body = chat_answer(None, tool_calls=[("1", "a", {"q": 7})]).data.replace(b"7}", b"")
    action = action_of(OPENAI_CHAT.fold(body, "application/json", 200))
    assert action.calls[0].arguments == '{"q": '
