"""A request in another protocol's words: what is taken over, and what is named as lost."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.protocols.translation import SPOKEN, translate

NO = {"type": "text", "text": "no"}
CHAT = {
    "model": "gpt-5",
    "messages": [
        {"role": "system", "content": "You run a refund desk."},
        {"role": "user", "content": "Where is order 17?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call:1", "type": "function", "function": {"name": "find", "arguments": '{"order": 17}'}},
                {"id": "call:2", "type": "function", "function": {"name": "price", "arguments": '{"order": 17}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call:2", "content": "12 EUR"},
        {"role": "tool", "tool_call_id": "call:1", "content": '{"state": "lost"}'},
        {"role": "user", "content": "Well?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "Find an order.",
                "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}},
            },
        },
        {"type": "function", "function": {"name": "price"}},
    ],
    "max_completion_tokens": 300,
    "temperature": 0.2,
    "stop": "END",
    "stream": True,
    "stream_options": {"include_usage": True},
}


def translated(request: dict, target: str, source: str = "openai.chat_completions", model: str = "new"):
    found = translate(json.dumps(request).encode(), source, target, model=model)
    return json.loads(found.body), found.lost


def test_a_conversation_with_tools_in_anthropics_words():
    """Results of parallel calls come together in the next message; ids keep to the letters that are taken."""
    request, lost = translated(CHAT, "anthropic.messages")
    assert lost == ()
    assert request == {
        "model": "new",
        "max_tokens": 300,
        "system": "You run a refund desk.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Where is order 17?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "call_1", "name": "find", "input": {"order": 17}},
                    {"type": "tool_use", "id": "call_2", "name": "price", "input": {"order": 17}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "12 EUR"},
                    {"type": "tool_result", "tool_use_id": "call_1", "content": '{"state": "lost"}'},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
        "tools": [
            {
                "name": "find",
                "description": "Find an order.",
                "input_schema": {"type": "object", "properties": {"order": {"type": "integer"}}},
            },
            {"name": "price", "input_schema": {"type": "object", "properties": {}}},
        ],
        "temperature": 0.2,
        "stop_sequences": ["END"],
    }


def test_a_conversation_with_tools_in_googles_words():
    """The model is in the URL there; results are told by the function's name."""
    request, lost = translated(CHAT, "google.generate_content")
    assert lost == ()
    assert "model" not in request
    assert request["systemInstruction"] == {"parts": [{"text": "You run a refund desk."}]}
    assert request["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "find", "args": {"order": 17}}},
                {"functionCall": {"name": "price", "args": {"order": 17}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "price", "response": {"result": "12 EUR"}}},
                {"functionResponse": {"name": "find", "response": {"state": "lost"}}},
                {"text": "Well?"},
            ],
        },
    ]
    assert request["generationConfig"] == {"maxOutputTokens": 300, "temperature": 0.2, "stopSequences": ["END"]}


def test_a_conversation_with_tools_as_responses():
    """The whole conversation travels; what this protocol has no word for is said."""
    request, lost = translated(CHAT, "openai.responses")
    assert lost == ("`stop`",)
    assert request["instructions"] == "You run a refund desk."
    assert request["store"] is False
    assert [item["type"] for item in request["input"]] == [
        "message", "function_call", "function_call", "function_call_output", "function_call_output", "message",
    ]  # fmt: skip
    assert request["input"][3] == {"type": "function_call_output", "call_id": "call_2", "output": "12 EUR"}


def test_anthropics_request_in_openais_words():
    """Thoughts and caching marks stay behind, and the first is said; a forced tool is forced there too."""
    request = {
        "model": "claude",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"big": 1.50}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [NO]},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ],
            },
        ],
        "tools": [
            {"name": "look", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        "top_k": 5,
    }
    made, lost = translated(request, "openai.chat_completions", "anthropic.messages")
    assert lost == (
        "the provider's own tool 'web_search'",
        "the model's earlier reasoning: it is its provider's own",
        "`top_k`",
    )
    assert made["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"big": 1.5}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "no"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    ]
    assert made["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert made["parallel_tool_calls"] is False
    assert made["max_completion_tokens"] == 100


def test_calls_without_ids_are_paired_with_their_results():
    """Google's calls have no ids: the first result of a name answers the first call of it."""
    call, result = "functionCall", "functionResponse"
    schema = {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}}
    request = {
        "contents": [
            {"role": "user", "parts": [{"text": "two"}]},
            {"role": "model", "parts": [{call: {"name": "f", "args": {"x": x}}} for x in (1, 2)]},
            {
                "role": "user",
                "parts": [{result: {"name": "f", "response": {"r": 1}}}, {result: {"name": "f", "response": {"r": 2}}}],
            },
        ],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
        "safetySettings": [{"category": "x"}],
    }
    made, lost = translated(request, "openai.chat_completions", "google.generate_content")
    assert lost == ("`safetySettings`",)
    assert [call["id"] for call in made["messages"][1]["tool_calls"]] == ["call_1", "call_2"]
    assert [(one["tool_call_id"], one["content"]) for one in made["messages"][2:]] == [
        ("call_1", '{"r":1}'),
        ("call_2", '{"r":2}'),
    ]
    parameters = made["tools"][0]["function"]["parameters"]
    assert parameters == {"type": "object", "properties": {"x": {"type": "number"}}}


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("logit_bias", {"50256": -100}, "`logit_bias`"),
        ("n", 3, "3 answers to one request: one is asked for"),
        ("seed", 7, "`seed`"),
        ("temperature", 1.5, "a temperature of 1.5: this API takes 1 at most, which is sent"),
        ("response_format", {"type": "json_object"}, "the form of the answer (JSON): only the prompt asks for it"),
        ("reasoning_effort", "low", "an effort of 'low': sent as a bound of 2048 thinking tokens"),
        ("max_completion_tokens", None, "no bound on the answer: this API needs one, 4096 tokens are asked for"),
    ],
)
def test_a_setting_without_a_counterpart_is_named(member, value, said):
    """Nothing is left out in silence."""
    _, lost = translated({**CHAT, member: value}, "anthropic.messages")
    assert said in lost


def test_a_conversation_that_the_provider_holds_is_named():
    """A request that leans on the provider's memory cannot ask the same elsewhere."""
    request = {"model": "m", "input": "more", "previous_response_id": "resp_1"}
    _, lost = translated(request, "anthropic.messages", "openai.responses")
    assert lost[0] == "`previous_response_id`: that part of the conversation is held by the recorded provider"


@pytest.mark.parametrize("name", SPOKEN)
def test_its_own_protocol_comes_back_as_it_is(name):
    """Byte for byte, even what is no request."""
    assert translate(b'{"x": 1 }', name, name, model="m").body == b'{"x": 1 }'


@pytest.mark.parametrize(("source", "body"), [("cohere.chat", b"{}"), ("openai.chat_completions", b"[1]")])
def test_what_cannot_be_translated_is_refused(source, body):
    """A protocol that nobody wrote down, or no request at all."""
    with pytest.raises(CannotJudge):
        translate(body, source, "anthropic.messages", model="m")
