"""Edits over a run's requests: a message stays where it was first put, in its own conversation."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Call, Kind, Payload, SideEffect
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.edited_requests import EditedRequests

CALL = Call(Kind.MODEL, "chat", SideEffect.READ, Payload.of(b"", "application/json"))
PLACE = Place.root("agent")
CHAT, RESPONSES, CLAUDE = "openai.chat_completions", "openai.responses", "anthropic.messages"


def sent(rewriter, messages, protocol=CHAT, key="messages"):
    body = json.dumps({"model": "m", key: messages}).encode()
    edited = rewriter.rewrite(CALL, PLACE, protocol, body, ())
    return None if edited is None else json.loads(edited)[key]


def user(text, **more):
    return {"role": "user", "content": text, **more}


def test_a_message_stays_where_it_was_added():
    """The second request of the conversation, which knows nothing of it, gets it at the same place."""
    rewriter = EditedRequests(RequestEdits(messages=("new",)))
    system, answer = {"role": "system", "content": "at noon"}, {"role": "assistant", "content": "yes"}
    assert sent(rewriter, [system, user("a")]) == [system, user("a"), user("new")]
    later = {"role": "system", "content": "at one"}
    assert sent(rewriter, [later, user("a"), answer, user("b")]) == [
        later,
        user("a"),
        user("new"),
        answer,
        user("b"),
    ]


def test_another_conversation_gets_no_message():
    """A sub-agent's requests get the other edits alone."""
    rewriter = EditedRequests(RequestEdits(messages=("new",)))
    sent(rewriter, [user("a")])
    assert sent(rewriter, [user("find it")]) is None
    assert sent(rewriter, []) is None
    rewriter = EditedRequests(RequestEdits(last_user_message="new", prompt="p"))
    assert sent(rewriter, [user("a")])[1] == user("new")
    assert sent(rewriter, [user("other")]) == [{"role": "system", "content": "p"}, user("other")]
    assert sent(rewriter, [user("a"), user("b")])[1:] == [user("new"), user("b")]


def test_cache_marks_may_move():
    """Marks of cached prefixes make no other conversation of it."""
    rewriter = EditedRequests(RequestEdits(messages=("new",)))
    marked = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    plain = [{"type": "text", "text": "a"}]
    sent(rewriter, [user(marked)], CLAUDE)
    assert sent(rewriter, [user(plain), user("b")], CLAUDE) == [user(plain), user("new"), user("b")]


def test_an_input_of_one_text_becomes_a_list_later():
    """What was sent as a text and comes back as an item is the same conversation."""
    rewriter = EditedRequests(RequestEdits(messages=("new",)))
    assert sent(rewriter, "a", RESPONSES, "input") == [user("a"), user("new")]
    item = user("a", type="message")
    assert sent(rewriter, [item, user("b")], RESPONSES, "input") == [item, user("new"), user("b")]


def test_nothing_to_change_is_said():
    """None means that the client's own bytes go out."""
    assert sent(EditedRequests(RequestEdits(model="m")), [user("a")]) is None


def test_an_edit_that_does_not_fit_is_an_error():
    """Nobody sends the request unedited instead."""
    with pytest.raises(ConfigurationError, match="no user message"):
        sent(EditedRequests(RequestEdits(last_user_message="x")), [])
