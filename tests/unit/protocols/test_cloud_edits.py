"""Edits of Google's and Amazon's requests: each keeps its own shape, and the model is changed in the URL."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.request_edits import RequestEdits, messages_in

GEMINI, CONVERSE, INVOKE = "google.generate_content", "aws.bedrock_converse", "aws.bedrock_invoke"
CLAUDE = "anthropic.messages"
ASKED = (
    b'{"systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},  "contents": [{"role": "user", '
    b'"parts": [{"text": "caf\\u00e9?"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]}, '
    b'{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": 1.0}}, "thoughtSignature": "Ab+/=="}]}, '
    b'{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"text": "4"}}}]}]}'
)
CONVERSED = (
    b'{"system":[{"text":"Be brief."},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":'
    b'"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f","input":{"n":1e2}}}]},{"role":"user",'
    b'"content":[{"toolResult":{"toolUseId":"t","content":[{"text":"4"}]}}]}],"toolConfig":{"tools":[{"toolSpec":'
    b'{"name":"f"}}]}}'
)


def edited(protocol, body, *arguments):
    return RequestEdits.from_arguments(arguments, read=str).apply(protocol, body)


def test_the_prompt_is_changed_where_it_stands():
    """The text of the system instruction changes, every other byte stays, cache points too."""
    assert edited(GEMINI, ASKED, "prompt=Be kind.") == ASKED.replace(b"Be brief.", b"Be kind.")
    assert edited(CONVERSE, CONVERSED, "prompt=Be kind.") == CONVERSED.replace(b"Be brief.", b"Be kind.")
    snake = ASKED.replace(b"systemInstruction", b"system_instruction")
    assert edited(GEMINI, snake, "prompt=Be kind.") == snake.replace(b"Be brief.", b"Be kind.")


def test_a_prompt_is_put_in_in_each_protocols_form():
    """Where there was none it is a content with parts, a list of blocks, or a text."""
    assert json.loads(edited(GEMINI, b'{"contents":[]}', "prompt=x")) == {
        "contents": [],
        "systemInstruction": {"parts": [{"text": "x"}]},
    }
    assert json.loads(edited(CONVERSE, b'{"messages":[]}', "prompt=x"))["system"] == [{"text": "x"}]
    assert json.loads(edited(INVOKE, b'{"anthropic_version":"b","messages":[]}', "prompt=x"))["system"] == "x"


def test_a_message_is_added_once_and_the_last_one_replaced():
    """New messages have the protocol's form; images beside a replaced text stay, results are no text of the user's."""
    cases = ((GEMINI, ASKED, "parts", "contents"), (CONVERSE, CONVERSED, "content", "messages"))
    for protocol, body, parts, key in cases:
        added = edited(protocol, body, "message=more")
        assert json.loads(added)[key][-1] == {"role": "user", parts: [{"text": "more"}]}
        assert edited(protocol, added, "message=more") == added
    replaced = json.loads(edited(GEMINI, ASKED, "last_user_message=tea?"))
    assert replaced["contents"][0]["parts"] == [
        {"text": "tea?"},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
    ]
    assert edited(CONVERSE, CONVERSED, "last_user_message=tea?") == CONVERSED.replace(b'"hi"', b'"tea?"')


def test_tools_stand_where_the_protocol_has_them():
    """Converse keeps its tools one level down."""
    tools = '[{"toolSpec":{"name":"g"}}]'
    for body in (CONVERSED, b'{"messages":[]}'):
        assert json.loads(edited(CONVERSE, body, "tools=" + tools))["toolConfig"] == {"tools": json.loads(tools)}
    assert json.loads(edited(GEMINI, ASKED, 'tools=[{"googleSearch":{}}]'))["tools"] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    ("protocol", "body", "before", "after"),
    [
        (GEMINI, ASKED, "http://h/v1/models/gemini-2.5-pro:generateContent", "http://h/v1/models/new%3A1:generateContent"),
        (CONVERSE, CONVERSED, "http://h/model/old%3A0/converse-stream", "http://h/model/new%3A1/converse-stream"),
        (INVOKE, b'{"prompt":"hi"}', "http://h/model/old/invoke", "http://h/model/new%3A1/invoke"),
        (CLAUDE, b'{"anthropic_version":"vertex-2023-10-16","messages":[]}', "http://h/p/models/old@1:rawPredict",
         "http://h/p/models/new%3A1:rawPredict"),
    ],
)  # fmt: skip
def test_the_model_changes_in_the_url_alone(protocol, body, before, after):
    """A body that names no model gets none; the path gets the new one."""
    edits = RequestEdits(model="new:1")
    assert edits.apply(protocol, body) == body
    assert edits.address(before) == after
    assert RequestEdits(prompt="x").address(before) == before


def test_claude_at_anthropic_still_names_its_model_in_the_body():
    """Only requests without a model of their own are left without one."""
    assert edited(CLAUDE, b'{"model":"a","messages":[]}', "model=b") == b'{"model":"b","messages":[]}'
    with_version = b'{"anthropic_version":"v","model":"a","messages":[]}'
    assert json.loads(edited(CLAUDE, with_version, "model=b"))["model"] == "b"


@pytest.mark.parametrize(
    ("body", "argument", "key", "value"),
    [
        ({"anthropic_version": "b", "messages": [{"role": "user", "content": "hi"}]}, "last_user_message=x", "messages",
         [{"role": "user", "content": "x"}]),
        ({"schemaVersion": "messages-v1", "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
         "last_user_message=x", "messages", [{"role": "user", "content": [{"text": "x"}]}]),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]}, "prompt=x", "messages",
         [{"role": "system", "content": "x"}, {"role": "user", "content": "hi"}]),
        ({"inputText": "hi"}, "last_user_message=x", "inputText", "x"),
        ({"prompt": "hi", "max_gen_len": 9}, "last_user_message=x", "prompt", "x"),
        ({"message": "hi", "chat_history": []}, "prompt=x", "preamble", "x"),
    ],
    ids=["claude", "nova", "chat", "titan", "llama", "command-r"],
)  # fmt: skip
def test_a_bedrock_body_is_edited_in_its_makers_shape(body, argument, key, value):
    """Each maker's request stays one of its maker's."""
    assert json.loads(edited(INVOKE, json.dumps(body).encode(), argument))[key] == value


def test_what_a_text_model_cannot_take_is_refused():
    """A prompt of one text has no place for a message or a system prompt."""
    for argument in ("message=x", "prompt=x"):
        with pytest.raises(ConfigurationError, match="last_user_message="):
            edited(INVOKE, b'{"prompt":"hi"}', argument)
    with pytest.raises(ConfigurationError, match="last_user_message="):
        edited("google.interactions", b'{"model":"m","input":"hi"}', "message=x")
    assert edited("google.interactions", b'{"model":"m","input":"hi"}', "model=n") == b'{"model":"n","input":"hi"}'


def test_messages_of_a_request_are_its_own():
    """The conversation of each protocol is found where it keeps it."""
    assert len(messages_in(GEMINI, ASKED)) == 3
    assert len(messages_in(CONVERSE, CONVERSED)) == 3
    assert messages_in(INVOKE, b'{"inputText":"hi"}') == [{"role": "user", "content": "hi"}]
