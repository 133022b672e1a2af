"""Messages in the forms that frameworks, SDKs and providers write them: all come out in OpenTelemetry's form."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.imports.dialects.message_forms import answered, asked, system_parts
from otel_agent_replay.imports.dialects.tool_definitions import tools_in
from tests.support.foreign_spans import text, told

HI = [("user", "Hi", [])]
WEATHER = [("assistant", "", [("weather", {"city": "Oslo"})])]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def lc(name: str, **kwargs):
    """What LangChain's serializer writes of a message."""
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name], "kwargs": kwargs}


@pytest.mark.parametrize(
    "value",
    [
        "Hi",
        '"Hi"',
        ["Hi"],
        [text("user", "Hi")],
        json.dumps([text("user", "Hi")]),
        [{"role": "user", "content": "Hi"}],
        {"role": "user", "content": "Hi"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "model": "m"},
        {"messages": [[{"type": "human", "content": "Hi"}]]},
        {"messages": [lc("HumanMessage", content="Hi")]},
        [[lc("HumanMessage", content="Hi")]],
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        {"contents": "Hi"},
        {"new_message": {"role": "user", "parts": [{"text": "Hi"}]}},
        {"prompt": "Hi"},
        {"input": "Hi", "model": "m"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
        {"args": ["Hi"]},
        [{"message": {"role": "user", "content": "Hi"}}],
        [{"role": "user", "content": "Hi", "event.name": "gen_ai.user.message", "gen_ai.message.index": 0}],
        "user: Hi",
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_question_in_every_form(value):
    """A user's question is one message of one text, however it was written down."""
    assert [told(one) for one in asked(value).messages] == HI


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "assistant", "parts": [
            {"type": "tool_call", "id": "1", "name": "weather", "arguments": {"city": "Oslo"}}]}],
        {"role": "assistant", "tool_calls": [
            {"id": "1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "weather", "args": {"city": "Oslo"}}]},
        {"choices": [{"message": {"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}]}}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}}]},
        [{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}}],
        [{"toolCallId": "1", "toolName": "weather", "input": '{"city":"Oslo"}'}],
        [{"type": "tool-call", "toolCallId": "1", "toolName": "weather", "args": {"city": "Oslo"}}],
        {"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}]}}]},
        {"content": {"role": "model", "parts": [{"function_call": {"name": "weather", "args": {"city": "Oslo"}}}]}},
        {"output": [{"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"city":"Oslo"}'}],
         "object": "response"},
        [{"type": "function_call", "call_id": "1", "name": "weather", "arguments": '{"city":"Oslo"}'}],
        lc("AIMessage", content="", tool_calls=[{"id": "1", "name": "weather", "args": {"city": "Oslo"}}]),
        {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [
            {"id": "1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}]}},
        {"role": "assistant", "function_call": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
        {"index": 0, "message": {"role": "assistant", "tool_calls": [
            {"id": "1", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}]}},
        {"generations": [[{"text": "", "message": lc("AIMessage", content="", tool_calls=[
            {"id": "1", "name": "weather", "args": {"city": "Oslo"}}])}]]},
    ],
    ids=lambda value: json.dumps(value)[:40],
)  # fmt: skip
def test_a_call_in_every_form(value):
    """An answer that calls a tool says so, with the arguments as they were, however it was written down."""
    assert [told(one) for one in answered(value).messages] == WEATHER


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"role": "tool", "tool_call_id": "1", "content": "7"}, ("tool", "7", [])),
        ({"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "result": "7"}]}, ("tool", "7", [])),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "7"}]}, ("user", "7", [])),
        ({"type": "function_call_output", "call_id": "1", "output": "7"}, ("tool", "7", [])),
        ({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "toolName": "w",
          "output": {"type": "text", "value": "7"}}]}, ("tool", "7", [])),
        (lc("ToolMessage", content="7", tool_call_id="1"), ("tool", "7", [])),
    ],
)  # fmt: skip
def test_a_tools_answer_in_every_form(value, expected):
    """What a tool answered is a response part under the id of its call."""
    (message,) = asked([value]).messages
    assert told(message) == expected
    assert [part["id"] for part in message["parts"]] == ["1"]


def test_arguments_that_came_as_text_stay_that_text():
    """Spelling of a call's arguments is kept where the source kept it: it is what the model wrote."""
    raw = '{"n": 1e2,  "n": 2}'
    (message,) = answered({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": raw}}]}).messages
    assert message["parts"] == [{"type": "tool_call", "id": None, "name": "f", "arguments": raw}]


def test_a_call_that_langchain_writes_twice_is_one():
    """Calls of Anthropic's lie in LangChain's content and beside it: they count once."""
    content = [{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}}]
    beside = [{"id": "1", "name": "weather", "args": {"city": "Oslo"}}]
    assert [told(one) for one in answered(lc("AIMessage", content=content, tool_calls=beside)).messages] == WEATHER


@pytest.mark.parametrize("value", [None, "", [], {}, 7, {"order": 7}, [1, 2], ["role='user' content='Hi'"], [{"a": 1}]])
def test_what_is_no_message_is_none(value):
    """A value that is no message in any form is left alone, never guessed at."""
    assert asked(value) is None


def test_roles_have_one_word():
    """Roles of other vocabularies come out in OpenTelemetry's."""
    found = asked(
        [{"role": "human", "content": "a"}, {"role": "model", "content": "b"}, {"role": "ai", "content": "c"}]
    )
    assert [one["role"] for one in found.messages] == ["user", "assistant", "assistant"]


def test_what_lies_beside_the_messages_is_taken_along():
    """Instructions and tools that a request holds apart come with its conversation."""
    tools = [{"name": "w", "input_schema": SCHEMA}]
    found = asked({"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}], "tools": tools})
    assert found.system == [{"type": "text", "content": "Be brief."}]
    assert found.tools == [{"type": "function", "name": "w", "parameters": SCHEMA}]
    google = asked({"config": {"system_instruction": "Be brief."}, "contents": "Hi"})
    assert google.system == [{"type": "text", "content": "Be brief."}]


def test_plain_text_is_told_from_messages():
    """Text alone gives messages of lesser worth, and says so."""
    assert not asked("Hi").structured
    assert asked([{"role": "user", "content": "Hi"}]).structured


def test_a_transcript_is_cut_at_its_roles():
    """A text in which turns begin with their role is as many messages; other text stays whole."""
    found = asked("system: Be brief.\nuser: Hi\nthere\nassistant: Hello")
    assert [told(one)[:2] for one in found.messages] == [
        ("system", "Be brief."), ("user", "Hi\nthere"), ("assistant", "Hello"),
    ]  # fmt: skip
    assert [told(one)[1] for one in asked("I said\nuser: x").messages] == ["I said\nuser: x"]


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "function", "function": {"name": "w", "parameters": SCHEMA}}],
        [{"name": "w", "input_schema": SCHEMA}],
        [{"type": "function", "name": "w", "inputSchema": SCHEMA}],
        [json.dumps({"type": "function", "name": "w", "parameters": SCHEMA})],
        [{"tool": {"json_schema": json.dumps({"type": "function", "function": {"name": "w", "parameters": SCHEMA}})}}],
        [{"function_declarations": [{"name": "w", "parameters": SCHEMA}]}],
        json.dumps([{"name": "w", "parameters": SCHEMA}]),
        {"w": {"name": "w", "parameters": SCHEMA}},
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_tools_in_every_form(value):
    """A tool that was offered is its name and its schema, however it was written down."""
    assert tools_in(value) == [{"type": "function", "name": "w", "parameters": SCHEMA}]


def test_tools_that_come_as_messages_are_tools():
    """One exporter writes the tools of a LangChain call as messages of a tool: they are no messages."""
    tool = {"role": "tool", "content": {"type": "function", "function": {"name": "w", "parameters": SCHEMA}}}
    found = asked([{"role": "user", "content": "Hi"}, tool])
    assert [told(one) for one in found.messages] == HI
    assert [one["name"] for one in found.tools] == ["w"]


@pytest.mark.parametrize(
    "value", ["Be brief.", [{"type": "text", "content": "Be brief."}], {"role": "system", "content": "Be brief."}]
)
def test_instructions_in_every_form(value):
    """System instructions are parts of text."""
    assert system_parts(value) == [{"type": "text", "content": "Be brief."}]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/y.png"}},
         {"type": "uri", "modality": "image", "uri": "https://x/y.png"}),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
         {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AA=="}),
        ({"type": "image", "image": {"image": {"url": "data:image/png;base64,AA=="}}},
         {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AA=="}),
        ({"type": "thinking", "thinking": "hm"}, {"type": "reasoning", "content": "hm"}),
        ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "content": "no"}),
        ({"type": "unheard_of", "x": 1}, {"type": "unheard_of", "x": 1}),
    ],
)  # fmt: skip
def test_other_parts(part, expected):
    """Images, reasoning and refusals have parts of their own; a part of no known type is kept as it is."""
    (message,) = asked([{"role": "user", "content": [part]}]).messages
    assert message["parts"] == [expected]
