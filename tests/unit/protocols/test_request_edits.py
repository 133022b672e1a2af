"""Edits of model requests: what each changes, what it leaves alone, what it refuses."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.request_edits import RequestEdits, messages_in

OPENAI_CHAT, OPENAI_RESPONSES = "openai.chat_completions", "openai.responses"
ANTHROPIC_MESSAGES = "anthropic.messages"
CHAT = (
    b'{"model": "gpt-4o",  "messages": [{"role": "system", "content": "Be brief."}, '
    b'{"role":"user","content":"caf\\u00e9?"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", '
    b'"type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 1.0}"}}]}, {"role": "tool", '
    b'"tool_call_id": "call_1", "content": "4"}], "tools": [{"type": "function", "function": {"name": "f", '
    b'"description": "old", "parameters": {"type": "object"}}}], "temperature": 0.70}'
)
CLAUDE = (
    b'{"model":"claude","max_tokens":10,"system":[{"type":"text","text":"You are"},{"type":"text","text":"long",'
    b'"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":'
    b'[{"type":"thinking","thinking":"hm","signature":"Ab+/=="},{"type":"tool_use","id":"toolu_1","name":"f",'
    b'"input":{"a":1e2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"4"}]}]}'
)


def no_file(name: str) -> str:
    raise AssertionError(f"nothing was to be read: {name}")


def edited(protocol, body, *arguments, read=no_file):
    return RequestEdits.from_arguments(arguments, read=read).apply(protocol, body)


def test_only_the_model_changes():
    """A new model leaves every other byte as it was, odd spaces and escapes too."""
    assert edited(OPENAI_CHAT, CHAT, "model=gpt-5") == CHAT.replace(b"gpt-4o", b"gpt-5")
    assert edited(ANTHROPIC_MESSAGES, CLAUDE, "model=opus") == CLAUDE.replace(b'"claude"', b'"opus"')


def test_the_prompt_of_a_chat_is_its_leading_system_messages():
    """The first system message gets the prompt, further leading ones go, later ones stay."""
    assert edited(OPENAI_CHAT, CHAT, "prompt=Be kind.") == CHAT.replace(b"Be brief.", b"Be kind.")
    two = (
        b'{"messages":[{"role":"system","content":"a"},{"role":"developer","content":"b"},'
        b'{"role":"user","content":"c"},{"role":"system","content":"d"}]}'
    )
    assert json.loads(edited(OPENAI_CHAT, two, "prompt=x"))["messages"] == [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "d"},
    ]


def test_a_prompt_is_put_in_where_there_was_none():
    """Each protocol gets the prompt at its own place."""
    chat = b'{"messages":[{"role":"user","content":"hi"}]}'
    assert edited(OPENAI_CHAT, chat, "prompt=x") == (
        b'{"messages":[{"role":"system","content":"x"},{"role":"user","content":"hi"}]}'
    )
    assert edited(OPENAI_RESPONSES, b'{"input": "hi"}', "prompt=x") == b'{"input": "hi", "instructions": "x"}'
    assert edited(OPENAI_RESPONSES, b'{"input": "hi", "instructions": null}', "prompt=x") == (
        b'{"input": "hi", "instructions": "x"}'
    )
    assert edited(ANTHROPIC_MESSAGES, b'{"messages":[]}', "prompt=x") == b'{"messages":[],"system":"x"}'


def test_the_prompt_of_responses_may_be_a_developer_item():
    """Without instructions, leading system and developer items are the prompt."""
    body = (
        b'{"input":[{"role":"developer","content":[{"type":"input_text","text":"old"}]},{"role":"user","content":"q"}]}'
    )
    assert edited(OPENAI_RESPONSES, body, "prompt=new") == body.replace(b"old", b"new")


def test_a_prompt_in_parts_keeps_the_part_that_marks_the_cache():
    """One text part is left, with its cache mark; the thinking signature and tool ids are untouched."""
    body = edited(ANTHROPIC_MESSAGES, CLAUDE, "prompt=short")
    assert body == CLAUDE.replace(b'{"type":"text","text":"You are"},', b"").replace(b'"long"', b'"short"')


def test_a_message_is_added_once():
    """Added at the end, in the spacing of the request; adding it again changes nothing."""
    body = edited(OPENAI_CHAT, CHAT, "message=and \u65e5\u672c?")
    assert body == CHAT.replace(
        b'"content": "4"}]', '"content": "4"}, {"role": "user", "content": "and \u65e5\u672c?"}]'.encode()
    )
    assert edited(OPENAI_CHAT, body, "message=and \u65e5\u672c?") == body
    assert json.loads(edited(OPENAI_RESPONSES, b'{"input":"a"}', "message=b", "message=c"))["input"] == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_a_message_goes_where_it_went_before():
    """A later request of the conversation gets the message at the place it was first added at."""
    edits = RequestEdits(messages=("new",))
    messages = json.loads(edits.apply(OPENAI_CHAT, CHAT, at=2))["messages"]
    assert [message["content"] for message in messages] == ["Be brief.", "café?", "new", None, "4"]


def test_the_last_user_message_is_replaced():
    """Its text alone: pictures stay, tool results are no message of the user."""
    assert edited(OPENAI_CHAT, CHAT, "last_user_message=tea?") == CHAT.replace(b"caf\\u00e9?", b"tea?")
    assert edited(ANTHROPIC_MESSAGES, CLAUDE, "last_user_message=bye") == CLAUDE.replace(b'"hi"', b'"bye"')
    seen = (
        b'{"input":[{"role":"user","content":[{"type":"input_image","image_url":"u"},'
        b'{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]}'
    )
    assert json.loads(edited(OPENAI_RESPONSES, seen, "last_user_message=c"))["input"][0]["content"] == [
        {"type": "input_image", "image_url": "u"},
        {"type": "input_text", "text": "c"},
    ]
    assert edited(OPENAI_RESPONSES, b'{"input":"a"}', "last_user_message=b") == b'{"input":"b"}'


def test_any_path_is_set_added_or_taken_out():
    """Values are JSON or else text; a path that is not there is made; an empty value removes the member."""
    assert edited(OPENAI_CHAT, CHAT, "temperature=0") == CHAT.replace(b"0.70", b"0")
    assert edited(OPENAI_CHAT, CHAT, "tools[0].function.description=new") == CHAT.replace(b'"old"', b'"new"')
    assert edited(OPENAI_CHAT, CHAT, "temperature=") == CHAT.replace(b', "temperature": 0.70', b"")
    assert edited(OPENAI_CHAT, CHAT, "model=x", "$.model=") == CHAT.replace(b'"model": "gpt-4o",  ', b"")
    assert edited(OPENAI_CHAT, CHAT, "no.such.thing=") == CHAT
    body = edited(OPENAI_CHAT, CHAT, 'metadata["a.b"].c=[1, null]', "seed=7", "user=me", "x=NaN")
    assert json.loads(body) == {
        **json.loads(CHAT),
        "metadata": {"a.b": {"c": [1, None]}},
        "seed": 7,
        "user": "me",
        "x": "NaN",
    }
    assert body.startswith(CHAT[:-1])
    assert edited(OPENAI_CHAT, b"{}", "a[0]=1") == b'{"a":[1]}'
    assert edited(OPENAI_CHAT, b'{\n  "a": [\n    1\n  ]\n}', "b=2", "a[1]=3") == (
        b'{\n  "a": [\n    1,\n    3\n  ],\n  "b": 2\n}'
    )


def test_a_path_is_of_the_request_as_it_is_sent():
    """With a prompt put in before it, the first message is the prompt."""
    body = edited(OPENAI_CHAT, b'{"messages":[{"role":"user","content":"q"}]}', "prompt=a", "messages[1].content=b")
    assert [message["content"] for message in json.loads(body)["messages"]] == ["a", "b"]


def test_tools_are_replaced_from_a_list():
    """A file of tools takes the place of those offered; an empty value offers none."""
    body = edited(OPENAI_CHAT, CHAT, "tools=@t.json", read={"t.json": '[{"type": "function"}]'}.__getitem__)
    assert json.loads(body)["tools"] == [{"type": "function"}]
    assert "tools" not in json.loads(edited(OPENAI_CHAT, CHAT, "tools="))


def test_a_doubled_at_sign_is_a_plain_one():
    """Text that begins with @ can be written."""
    assert RequestEdits.from_arguments(["prompt=@@home"], read=no_file).prompt == "@home"


def test_of_repeated_members_the_one_that_counts_changes():
    """Parsers take the last of repeated keys."""
    assert edited(OPENAI_CHAT, b'{"model":"a","model":"b"}', "model=c") == b'{"model":"a","model":"c"}'


def test_half_a_character_travels_as_an_escape():
    """A surrogate in a value gives a body that is UTF-8 all the same."""
    assert RequestEdits(prompt="\ud83d").apply(ANTHROPIC_MESSAGES, b"{}") == b'{"system":"\\ud83d"}'


def test_edits_travel_in_a_plan_file():
    """What is written to JSON reads back equal, and names its parts."""
    edits = RequestEdits.from_arguments(
        ["model=m", "prompt=p", "message=q", 'tools=[{"name":"f"}]', "temperature=0", 'a["b.c"][0]=x', "seed="],
        read=no_file,
    )
    assert RequestEdits.from_json(json.loads(json.dumps(edits.to_json()))) == edits
    assert edits.parts == ("model", "prompt", "message", "tools", "temperature", 'a["b.c"][0]', "seed")
    assert RequestEdits.from_json({}) == RequestEdits()
    assert (bool(edits), bool(RequestEdits())) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["temperature"], "is not NAME=VALUE"),
        (["model="], "model= is empty"),
        (["model=a", "model=b"], "given twice"),
        (["message=a", "last_user_message=b"], "not both"),
        (["tools=nothing"], "JSON array of tools"),
        (["seed=1", "seed=2"], "seed and seed contradict"),
        (["a=", "a.b=1"], "contradict"),
        (["a.b=1", "a="], "contradict"),
        (["a..b=1"], "is no path"),
        (['a["\\x"]=1'], "is no path"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, says):
    """The message names what is wrong."""
    with pytest.raises(ConfigurationError, match=says):
        RequestEdits.from_arguments(arguments, read=no_file)


@pytest.mark.parametrize(
    ("protocol", "body", "argument", "says"),
    [
        ("no.such", CHAT, "model=a", "protocol 'no.such' cannot be edited"),
        (OPENAI_CHAT, b"\x1f\x8b", "model=a", "not JSON in UTF-8"),
        (OPENAI_CHAT, b"[1]", "model=a", "no JSON object"),
        (OPENAI_CHAT, b'{"a": 1', "model=a", "not JSON"),
        (OPENAI_CHAT, b'{"messages": 1}', "prompt=a", "no array 'messages'"),
        (OPENAI_CHAT, b'{"messages": []}', "last_user_message=a", "no user message"),
        (OPENAI_CHAT, CHAT, "tools[3].x=1", r"tools\[3\] is not in the request: there are 1"),
        (OPENAI_CHAT, CHAT, "model.x=1", "model is not an object"),
        (OPENAI_CHAT, CHAT, "a[2]=1", "begins with element 0"),
        (OPENAI_CHAT, CHAT, "tools[0]=", "cannot be removed"),
    ],
)
def test_requests_that_an_edit_does_not_fit_are_refused(protocol, body, argument, says):
    """Nothing is sent half edited: the error says why."""
    with pytest.raises(ConfigurationError, match=says):
        edited(protocol, body, argument)


@pytest.mark.parametrize(
    "value",
    [None, [], {"modle": "x"}, {"model": 1}, {"messages": "x"}, {"settings": [{"path": "a"}]}, {"settings": [1]}],
)
def test_a_plan_that_nobody_wrote_is_refused(value):
    """Unknown keys and wrong types are errors, not ignored."""
    with pytest.raises(ConfigurationError):
        RequestEdits.from_json(value)


def test_messages_of_a_request():
    """The messages as values; a text alone is one message."""
    assert messages_in(OPENAI_RESPONSES, b'{"input": [1]}') == [1]
    assert messages_in(OPENAI_RESPONSES, b'{"input": "x"}') == [{"role": "user", "content": "x"}]
    assert messages_in(OPENAI_CHAT, b"{}") == []


OLLAMA = b'{"model": "qwen3", "messages": [{"role": "user", "content": "hi"}], "options": {"temperature": 0.70}}'


def test_an_ollama_or_cohere_chat_is_edited_like_any_chat():
    """Model, prompt, message and settings find their places; other bytes stay."""
    assert edited("ollama.chat", OLLAMA, "model=llama4") == OLLAMA.replace(b"qwen3", b"llama4")
    assert edited("ollama.chat", OLLAMA, "options.temperature=0") == OLLAMA.replace(b"0.70", b"0")
    new = json.loads(edited("cohere.chat", OLLAMA, "prompt=Be kind.", "message=and now?"))["messages"]
    assert new == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "and now?"},
    ]


@pytest.mark.parametrize(
    ("protocol", "body", "text", "prompt"),
    [
        ("ollama.generate", b'{"model":"m","prompt":"hi"}', "prompt", "system"),
        ("cohere.chat_v1", b'{"model":"m","message":"hi","chat_history":[]}', "message", "preamble"),
        ("openai.completions", b'{"model":"m","prompt":"hi"}', "prompt", None),
        ("anthropic.complete", b'{"model":"m","prompt":"hi"}', "prompt", None),
    ],
)
def test_a_request_of_one_text_has_that_text_replaced_and_no_message_added(protocol, body, text, prompt):
    """Its text is the last message of the user; where there is no place for a system prompt, that is said."""
    assert json.loads(edited(protocol, body, "last_user_message=bye", "model=n")) == {
        **json.loads(body),
        text: "bye",
        "model": "n",
    }
    assert messages_in(protocol, body) == [{"role": "user", "content": "hi"}]
    with pytest.raises(ConfigurationError, match="is one text"):
        edited(protocol, body, "message=bye")
    if prompt is None:
        with pytest.raises(ConfigurationError, match="has no system prompt"):
            edited(protocol, body, "prompt=x")
    else:
        assert json.loads(edited(protocol, body, "prompt=x"))[prompt] == "x"


def test_a_prompt_of_tokens_cannot_be_edited_as_a_text():
    """Completions take numbers too: nothing there is a message."""
    with pytest.raises(ConfigurationError, match="no user message with a text"):
        edited("openai.completions", b'{"model":"m","prompt":[1,2]}', "last_user_message=x")
