"""Chat Completions: the rules that real providers force on a fold, and requests as messages."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import OPENAI_CHAT


def stream(*deltas, finish="stop", done=True, **rest):
    chunks = [{"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        chunks.append(
            {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **rest}
        )
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return body + (b"data: [DONE]\n\n" if done else b"")


def fold(body, media_type="text/event-stream", status=200):
    return OPENAI_CHAT.fold(body, media_type, status)


def fragment(index, **function):
    call = {"index": index, "function": function}
    return {"tool_calls": [call]}


def test_another_id_at_the_same_index_starts_another_call():
    """Servers that give index 0 to every parallel call: two calls, and the oddity is named."""
    first = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    second = {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "g", "arguments": "[]"}}]}
    folded = fold(stream(first, second))
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [
        ("a", "f", "{}"),
        ("b", "g", "[]"),
    ]
    assert "index 0" in folded.problems[0]


def test_a_repeated_name_is_one_name():
    """Servers that send the name with every fragment do not make it longer."""
    folded = fold(stream(fragment(0, name="f", arguments="{"), fragment(0, name="f", arguments="}")))
    assert [(call.name, call.arguments_raw) for call in folded.tool_calls] == [("f", "{}")]


def test_repeated_ids_in_a_plain_answer_are_separate_calls():
    """Ids repeat in real answers: calls of a plain answer go by place."""
    call = {"id": "same", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).encode()
    assert len(fold(body, "application/json").tool_calls) == 2


def test_every_choice_has_its_own_output_message():
    """With n=2 the deltas of both choices mix; text is of the first, messages are of all."""
    chunks = [
        {"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    folded = fold(body)
    assert folded.complete
    assert [(m["parts"][0]["content"], m["finish_reason"]) for m in folded.output_messages] == [
        ("a", "stop"),
        ("b", "length"),
    ]
    assert OPENAI_CHAT.response_facts(body, "", 200)[semconv.RESPONSE_FINISH_REASONS] == ("stop", "length")


def test_one_choice_without_an_end_is_a_cut_stream():
    """Two choices of which one never ended: not complete."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]},
              {"choices": [{"index": 1, "delta": {"content": "b"}}]}]  # fmt: skip
    folded = fold(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks))
    assert (folded.complete, folded.error.type) == (False, "stream_truncated")


def test_an_error_in_a_stream_fails_the_call_and_keeps_its_text():
    """An error object after text: failed, with the text that had come."""
    body = (
        stream({"content": "par"}, finish=None, done=False)
        + b'event: error\ndata: {"error":{"message":"boom","code":502}}\n\n'
    )
    folded = fold(body)
    assert (folded.complete, folded.text, folded.error.message, folded.error.code) == (False, "par", "boom", 502)
    assert OPENAI_CHAT.response_facts(body, "", 200)[semconv.ERROR_TYPE] == folded.error.type == "502"


def test_halves_of_a_surrogate_pair_in_two_fragments_are_one_character():
    """An emoji whose escapes are cut over two chunks is that emoji."""
    body = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    body += b'data: {"choices":[{"delta":{"content":"\\ude80"},"finish_reason":"stop"}]}\n\n'
    folded = fold(body)
    assert (folded.text, folded.problems) == ("\U0001f680", ())


def test_half_a_surrogate_pair_is_shown_as_replaced_and_named():
    """A lone surrogate cannot be written as UTF-8: U+FFFD, and a problem says so."""
    folded = fold(b'data: {"choices":[{"delta":{"content":"x\\ud83e"},"finish_reason":"stop"}]}\n\n')
    assert folded.text == "x�"
    assert "surrogate" in folded.problems[0]


def test_an_event_that_is_no_json_is_named_and_the_rest_is_read():
    """A broken event loses nothing but itself."""
    body = b"data: {broken\n\n" + stream({"content": "ok"})
    folded = fold(body)
    assert (folded.complete, folded.text) == (True, "ok")
    assert "event 1 is no JSON object: '{broken'" in folded.problems


def test_a_json_error_in_answer_to_a_stream_request_is_read_as_json():
    """The body decides, not the media type that was asked for."""
    body = b'{"error":{"message":"no","type":"invalid_request_error","code":null}}'
    folded = fold(body, "text/event-stream", 400)
    assert (folded.error.type, folded.error.message, folded.error.http_status) == ("invalid_request_error", "no", 400)


def test_a_page_instead_of_json_is_malformed_not_lost():
    """A gateway's HTML under status 200 is an error with its first characters."""
    folded = fold(b"<html>Bad gateway</html>", "text/html")
    assert (folded.complete, folded.error.type) == (False, "malformed_response")
    assert "<html>" in folded.problems[0]
    assert OPENAI_CHAT.response_facts(b"<html>", "text/html", 200) == {semconv.ERROR_TYPE: "malformed_response"}


def test_usage_is_found_where_groq_and_moonshot_put_it():
    """`x_groq.usage` and a usage inside the choice count too."""
    groq = stream({"content": "a"}, x_groq={"usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    inside = (
        b'data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":4}}]}\n\n'
    )
    for body in (groq, inside):
        usage = fold(body).usage
        assert (usage.input_tokens, usage.output_tokens) == (3, 4)
        assert OPENAI_CHAT.response_facts(body, "", 200)[semconv.USAGE_OUTPUT_TOKENS] == 4


def test_response_facts_are_complete_for_a_plain_answer():
    """Ids, model, tier, fingerprint, reasons and every token count of a plain answer."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    answer = {
        "id": "c",
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": usage,
    }
    assert OPENAI_CHAT.response_facts(json.dumps(answer).encode(), "application/json", 200) == {
        semconv.RESPONSE_ID: "c",
        semconv.RESPONSE_MODEL: "gpt-4o-2024-08-06",
        semconv.RESPONSE_FINISH_REASONS: ("stop",),
        semconv.OPENAI_SERVICE_TIER: "default",
        semconv.OPENAI_SYSTEM_FINGERPRINT: "fp",
        semconv.USAGE_INPUT_TOKENS: 10,
        semconv.USAGE_OUTPUT_TOKENS: 5,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: 8,
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: 1,
        semconv.USAGE_REASONING_OUTPUT_TOKENS: 2,
    }


def test_request_facts_name_every_parameter():
    """Parameters of a request under their attribute keys."""
    request = {
        "model": "gpt-4o",
        "messages": [],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "max_completion_tokens": 7,
        "stop": "END",
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "seed": 3,
        "n": 2,
        "stream": True,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {}},
        "service_tier": "flex",
    }
    assert OPENAI_CHAT.request_facts(json.dumps(request).encode()) == {
        semconv.REQUEST_MODEL: "gpt-4o",
        semconv.REQUEST_TEMPERATURE: 0.5,
        semconv.REQUEST_TOP_P: 0.9,
        semconv.REQUEST_MAX_TOKENS: 7,
        semconv.REQUEST_STOP_SEQUENCES: ("END",),
        semconv.REQUEST_FREQUENCY_PENALTY: 0.1,
        semconv.REQUEST_PRESENCE_PENALTY: 0.2,
        semconv.REQUEST_SEED: 3,
        semconv.REQUEST_CHOICE_COUNT: 2,
        semconv.REQUEST_STREAM: True,
        semconv.REQUEST_REASONING_LEVEL: "low",
        semconv.OUTPUT_TYPE: "json",
        semconv.OPENAI_REQUEST_SERVICE_TIER: "flex",
        semconv.OPENAI_API_TYPE: "chat_completions",
    }


def test_the_digest_of_the_tools_ignores_key_order_and_tells_tools_apart():
    """The same tools in another key order have the same digest, another description has another."""

    def digest(tools):
        return OPENAI_CHAT.request_facts(json.dumps({"messages": [], "tools": tools}).encode())[
            semconv.VERSION_TOOL_SCHEMA
        ]

    tool = {"type": "function", "function": {"name": "f", "description": "d"}}
    turned = {"function": {"description": "d", "name": "f"}, "type": "function"}
    other = {"type": "function", "function": {"name": "f", "description": "e"}}
    assert digest([tool]) == digest([turned]) != digest([other])


def test_a_request_reads_as_messages():
    """Images, audio, refusals, reasoning and legacy calls keep their place in the turn."""
    request = {
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                    {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
                    {"type": "brand_new", "x": 1},
                ],
            },
            {"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": "no"},
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{ }"}},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    }
    read = OPENAI_CHAT.request_messages(json.dumps(request).encode())
    assert read.messages == [
        {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
        {
            "role": "user",
            "name": "ann",
            "parts": [
                {"type": "text", "content": "see"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
                {"type": "uri", "modality": "image", "uri": "https://x/y.png"},
                {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "BBBB"},
                {"type": "brand_new", "x": 1},
            ],
        },
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "refusal", "content": "no"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": ""},
                {"type": "tool_call", "id": None, "name": "f", "arguments": "{ }"},
            ],
        },
    ]
    assert read.tools == [{"type": "function", "name": "f", "parameters": {}}]


@pytest.mark.parametrize("size", [1, 5000])
def test_a_request_without_messages_keeps_what_stands_after_them(size):
    """An empty conversation is not taken to end where the tools do, however long the request is."""
    tool = {"type": "function", "function": {"name": "f", "description": "d" * size}}
    body = json.dumps({"messages": [], "tools": [tool], "model": "m"}).encode()
    found = OPENAI_CHAT.request_facts(body)
    assert semconv.VERSION_TOOL_SCHEMA in found
    assert found[semconv.REQUEST_MODEL] == "m"
