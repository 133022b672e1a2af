"""Ollama's own API: lines or one object, tool calls as objects, counts at the end."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.protocols import PROTOCOLS, split_request

CHAT, GENERATE = PROTOCOLS["ollama.chat"], PROTOCOLS["ollama.generate"]
LINES = "application/x-ndjson"
END = {"model": "q", "done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3}


def lines(*values):
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def said(**message):
    return {"model": "q", "message": {"role": "assistant", **message}, "done": False}


def test_text_and_thinking_are_joined_and_the_end_has_the_counts():
    """Each line holds a piece; the last one the reason and the tokens."""
    folded = CHAT.fold(
        lines(said(thinking="h"), said(thinking="m"), said(content="4"), said(content="2"), END), LINES, 200
    )
    assert (folded.complete, folded.text, folded.reasoning, folded.finish_reason) == (True, "42", "hm", "stop")
    assert (folded.usage.input_tokens, folded.usage.output_tokens, folded.model) == (7, 3, "q")
    assert folded.output_messages == (
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "42"}],
            "finish_reason": "stop",
        },
    )


def test_arguments_of_calls_keep_the_text_of_the_wire():
    """Calls come whole, on one line or several; a large number and the spacing survive."""
    call = b'{"model":"q","message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f",'
    one = call + b'"arguments":{"n": 12345678901234567890123, "x":1e400}}}]},"done":false}\n'
    two = call.replace(b"c1", b"c2") + b'"arguments":{}}},{"function":{"name":"g"}}]},"done":false}\n'
    folded = CHAT.fold(one + two + lines(END), LINES, 200)
    assert [(made.id, made.name, made.arguments_raw, made.arguments_valid_json) for made in folded.tool_calls] == [
        ("c1", "f", '{"n": 12345678901234567890123, "x":1e400}', True),
        ("c2", "f", "{}", True),
        (None, "g", "", False),
    ]
    whole = one.replace(b'"done":false', b'"done":true')
    assert CHAT.fold(whole, "application/json", 200).tool_calls == folded.tool_calls[:1]


def test_a_plain_answer_is_one_line_that_is_done():
    """Without streaming the one object holds everything, whatever its spacing."""
    body = json.dumps({**END, "response": "hi", "thinking": "t"}, indent=2).encode()
    folded = GENERATE.fold(body, "application/json; charset=utf-8", 200)
    assert (folded.complete, folded.text, folded.reasoning, folded.finish_reason) == (True, "hi", "t", "stop")


def test_lines_without_their_media_type_are_lines():
    """A proxy that drops the media type changes nothing but that the body is read at its end."""
    body = lines({"model": "q", "response": "a", "done": False}, {**END, "response": "b"})
    assert GENERATE.fold(body, "", 200) == GENERATE.fold(body, LINES, 200)
    assert GENERATE.fold(body, "", 200).text == "ab"


def test_an_answer_without_done_was_cut():
    """Lines may end cleanly before the answer has: that is no success."""
    folded = CHAT.fold(lines(said(content="half")), LINES, 200)
    assert (folded.complete, folded.text, folded.error.type) == (False, "half", "stream_truncated")
    assert CHAT.response_facts(lines(said(content="half")), LINES, 200)[semconv.ERROR_TYPE] == "stream_truncated"


def test_an_error_may_come_in_mid_stream_or_alone():
    """A line with `error` fails a call whose status was 200; a status of its own names the error too."""
    folded = CHAT.fold(lines(said(content="a"), {"error": "out of memory"}), LINES, 200)
    assert (folded.complete, folded.error.message, folded.text) == (False, "out of memory", "a")
    folded = CHAT.fold(b'{"error":"model \'x\' not found"}', "", 404)
    assert (folded.error.type, folded.error.message) == ("http_404", "model 'x' not found")
    assert GENERATE.fold(b"<html>", "text/html", 200).error.type == "malformed_response"


def test_facts_of_an_answer_come_from_its_ends():
    """A glance at the first and last line tells what the whole reduction tells."""
    facts = CHAT.response_facts(lines(said(content="a"), said(content="b"), END), LINES, 200)
    assert facts == {
        semconv.RESPONSE_MODEL: "q",
        semconv.RESPONSE_FINISH_REASONS: ("stop",),
        semconv.USAGE_INPUT_TOKENS: 7,
        semconv.USAGE_OUTPUT_TOKENS: 3,
    }


def test_facts_of_a_request_lie_in_its_options():
    """Sampling settings are in `options`; a stream is the default; a schema asks for JSON."""
    options = {"temperature": 0.5, "num_predict": 9, "top_k": 3, "stop": ["x"], "seed": 1}
    body = {"model": "q", "messages": [], "options": options, "format": {"type": "object"}, "think": "high"}
    facts = CHAT.request_facts(json.dumps(body).encode())
    assert facts == {
        semconv.REQUEST_MODEL: "q",
        semconv.REQUEST_TEMPERATURE: 0.5,
        semconv.REQUEST_TOP_K: 3,
        semconv.REQUEST_SEED: 1,
        semconv.REQUEST_MAX_TOKENS: 9,
        semconv.REQUEST_STOP_SEQUENCES: ("x",),
        semconv.REQUEST_STREAM: True,
        semconv.REQUEST_REASONING_LEVEL: "high",
        semconv.OUTPUT_TYPE: "json",
    }
    assert GENERATE.request_facts(b'{"model":"q","prompt":"x","stream":false}')[semconv.REQUEST_STREAM] is False


def test_messages_of_a_chat_keep_calls_results_and_images():
    """Arguments stay text, a result is named by its tool, images are blobs."""
    body = (
        b'{"model":"q","messages":[{"role":"user","content":"see","images":["iVBO"]},{"role":"assistant","content":"",'
        b'"thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"a": 1}}}]},'
        b'{"role":"tool","tool_name":"f","content":"4"}],"tools":[{"type":"function","function":{"name":"f"}}]}'
    )
    read = CHAT.request_messages(body)
    assert [message["role"] for message in read.messages] == ["user", "assistant", "tool"]
    assert [message["parts"] for message in read.messages] == [
        [{"type": "text", "content": "see"}, {"type": "blob", "modality": "image", "content": "iVBO"}],
        [
            {"type": "reasoning", "content": "hm"},
            {"type": "text", "content": ""},
            {"type": "tool_call", "id": None, "name": "f", "arguments": '{"a": 1}'},
        ],
        [{"type": "tool_call_response", "id": "f", "response": "4"}],
    ]
    assert read.tools == [{"type": "function", "name": "f"}]
    roles = [role for _, _, role in split_request("ollama.chat", body)]
    assert roles == ["envelope", "user", "assistant", "tool", "envelope", "tools", "envelope"]


def test_a_prompt_to_generate_is_a_message_of_the_user():
    """System and prompt are what the model was given."""
    read = GENERATE.request_messages(b'{"model":"q","system":"be brief","prompt":"hi","images":["iVBO"]}')
    assert read.system == [{"type": "text", "content": "be brief"}]
    assert read.messages[0]["parts"][0] == {"type": "text", "content": "hi"}
    assert GENERATE.request_messages(b'{"model":"q","system":"","prompt":""}').messages == []
