"""Cohere's chat in both versions of its API."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import PROTOCOLS, cost_usd, split_request

CHAT, V1 = PROTOCOLS["cohere.chat"], PROTOCOLS["cohere.chat_v1"]
SSE, LINES = "text/event-stream", "application/stream+json"
USAGE = {"billed_units": {"input_tokens": 8, "output_tokens": 5}, "tokens": {"input_tokens": 90, "output_tokens": 7},
         "cached_tokens": 80}  # fmt: skip


def events(*values):
    return b"".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode() for value in values)


def message(kind, index=None, **inner):
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": inner}}


START = {"id": "c1", **message("message-start", role="assistant", content=[], tool_calls=[])}
END = {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": USAGE}}


def test_text_thinking_plan_and_calls_are_put_together():
    """Fragments of calls go by their index; thinking and the plan before calls are reasoning."""
    folded = CHAT.fold(
        events(
            START,
            message("content-start", 0, content={"type": "thinking", "thinking": ""}),
            message("content-delta", 0, content={"thinking": "hm"}),
            {"type": "content-end", "index": 0},
            message("content-start", 1, content={"type": "text", "text": ""}),
            message("content-delta", 1, content={"text": "4"}),
            message("tool-plan-delta", tool_plan=", I will"),
            message("tool-call-start", 0, tool_calls={"id": "a", "function": {"name": "f", "arguments": ""}}),
            message("tool-call-start", 1, tool_calls={"id": "b", "function": {"name": "g", "arguments": ""}}),
            message("tool-call-delta", 1, tool_calls={"function": {"arguments": "[1"}}),
            message("tool-call-delta", 0, tool_calls={"function": {"arguments": "{}"}}),
            message("tool-call-delta", 1, tool_calls={"function": {"arguments": "]"}}),
            {"type": "tool-call-end", "index": 0},
            END,
        ),
        SSE,
        200,
    )
    assert (folded.complete, folded.text, folded.reasoning, folded.response_id) == (True, "4", "hm, I will", "c1")
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [
        ("a", "f", "{}"),
        ("b", "g", "[1]"),
    ]
    assert folded.problems == ()


def test_the_billed_tokens_count():
    """Where a provider tells used and billed tokens, the billed ones are reported; the price is theirs."""
    body = events(START, message("content-delta", 0, content={"text": "x"}), END)
    folded, facts = CHAT.fold(body, SSE, 200), CHAT.response_facts(body, SSE, 200)
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == (8, 5)
    assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == (8, 5)
    assert cost_usd("cohere", "command-r-08-2024", facts) == pytest.approx(8 * 0.15e-6 + 5 * 0.6e-6)
    only = {**END, "delta": {"finish_reason": "COMPLETE", "usage": {"tokens": {"input_tokens": 3}}}}
    assert CHAT.fold(events(START, only), SSE, 200).usage.input_tokens == 3


def test_a_plain_answer_reads_like_a_stream():
    """The same message, whole, with its citations."""
    citation = {"start": 0, "end": 1, "text": "4", "sources": []}
    answer = {
        "id": "c1",
        "finish_reason": "COMPLETE",
        "usage": USAGE,
        "message": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}],
            "citations": [citation],
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    }
    whole = CHAT.fold(json.dumps(answer).encode(), "application/json", 200)
    streamed = CHAT.fold(
        events(
            START,
            message("content-delta", 0, content={"thinking": "hm"}),
            message("content-delta", 1, content={"text": "4"}),
            message("tool-call-start", 0, tool_calls={"id": "a", "function": {"name": "f", "arguments": "{}"}}),
            message("citation-start", 0, citations=citation),
            {"type": "citation-end", "index": 0},
            END,
        ),
        SSE,
        200,
    )
    assert whole == streamed
    assert {"type": "citations", "citations": [citation]} in whole.output_messages[0]["parts"]


def test_only_the_end_event_ends_an_answer_and_some_ends_are_failures():
    """A stream that just stops was cut, even after `[DONE]`; finish reason ERROR says why it failed."""
    cut = CHAT.fold(events(START, message("content-delta", 0, content={"text": "a"})) + b"data: [DONE]\n\n", SSE, 200)
    assert (cut.complete, cut.text, cut.error.type) == (False, "a", "stream_truncated")
    failed = events(START, {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "overloaded"}})
    folded = CHAT.fold(failed, SSE, 200)
    assert (folded.complete, folded.error.type, folded.error.message) == (False, "ERROR", "overloaded")
    assert CHAT.response_facts(failed, SSE, 200)[semconv.ERROR_TYPE] == "ERROR"
    assert CHAT.fold(b'{"id":"x","message":"invalid api token"}', "application/json", 401).error.message == (
        "invalid api token"
    )


def test_what_is_unknown_is_named():
    """Another event or part does not vanish silently."""
    folded = CHAT.fold(events(START, {"type": "hologram-start"}, END), SSE, 200)
    assert folded.problems == ("unknown event type 'hologram-start'",)
    answer = {"message": {"content": [{"type": "hologram"}]}, "finish_reason": "COMPLETE"}
    folded = CHAT.fold(json.dumps(answer).encode(), "application/json", 200)
    assert folded.problems == ("content has a part of unknown type 'hologram'",)
    assert {"type": "hologram"} in folded.output_messages[0]["parts"]
    assert CHAT.fold(b'{"message":"what?"}', "application/json", 200).error.type == "malformed_response"


def test_version_1_takes_the_answer_of_the_last_line():
    """Lines of pieces, then the whole answer; parameters of calls keep their text."""
    body = (
        b'{"event_type":"stream-start","generation_id":"g"}\n{"event_type":"text-generation","text":"4"}\n'
        b'{"event_type":"tool-calls-generation","tool_calls":[{"name":"f","parameters":{"a": 1.0}}]}\n'
        b'{"event_type":"stream-end","finish_reason":"COMPLETE","response":{"response_id":"r","text":"4",'
        b'"tool_calls":[{"name":"f","parameters":{"a": 1.0}}],"documents":[{"id":"d"}],'
        b'"meta":{"billed_units":{"input_tokens":8,"output_tokens":5}}}}\n'
    )
    folded = V1.fold(body, LINES, 200)
    assert (folded.complete, folded.text, folded.response_id, folded.finish_reason) == (True, "4", "r", "COMPLETE")
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [(None, "f", '{"a": 1.0}')]
    assert folded.output_messages[0]["parts"][1] == {"type": "documents", "documents": [{"id": "d"}]}
    assert V1.response_facts(body, LINES, 200) == {
        semconv.RESPONSE_ID: "r",
        semconv.RESPONSE_FINISH_REASONS: ("COMPLETE",),
        semconv.USAGE_INPUT_TOKENS: 8,
        semconv.USAGE_OUTPUT_TOKENS: 5,
    }


def test_version_1_cut_gives_what_had_come():
    """Without the last line there are the pieces of text and of calls."""
    call = {"event_type": "tool-calls-chunk", "tool_call_delta": {"index": 0, "name": "f"}}
    pieces = [
        {"event_type": "tool-calls-chunk", "tool_call_delta": {"index": 0, "parameters": p}} for p in ('{"a"', ":1}")
    ]
    texts = [{"event_type": "text-generation", "text": text} for text in ("a", "b")]
    body = b"".join(json.dumps(value).encode() + b"\n" for value in (*texts, call, *pieces))
    folded = V1.fold(body, LINES, 200)
    assert (folded.complete, folded.text, folded.error.type) == (False, "ab", "stream_truncated")
    assert folded.tool_calls[0].arguments_raw == '{"a":1}'


def test_version_1_as_events_or_plain_reads_the_same():
    """Whoever asks for server-sent events gets the same objects in them."""
    response = {"generation_id": "g", "text": "4", "finish_reason": "COMPLETE", "meta": USAGE}
    end = {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": response}
    framed = b"event: stream-end\ndata: " + json.dumps(end).encode() + b"\n\n"
    streamed, whole = V1.fold(framed, SSE, 200), V1.fold(json.dumps(response).encode(), "application/json", 200)
    assert streamed == whole
    assert whole.text == "4"
    assert V1.response_facts(framed, SSE, 200) == V1.response_facts(json.dumps(response).encode(), "", 200)


def test_requests_of_both_versions_have_facts_and_messages():
    """`p` and `k` are top_p and top_k; roles, preamble and results are those of OpenTelemetry."""
    body = {
        "model": "command-r", "messages": [
            {"role": "system", "content": "s"},
            {"role": "assistant", "tool_plan": "plan", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "4"},
        ],
        "p": 0.5, "k": 3, "stop_sequences": ["x"], "response_format": {"type": "json_object"},
    }  # fmt: skip
    facts = CHAT.request_facts(json.dumps(body).encode())
    assert facts == {
        semconv.REQUEST_MODEL: "command-r",
        semconv.REQUEST_TOP_P: 0.5,
        semconv.REQUEST_TOP_K: 3,
        semconv.REQUEST_STOP_SEQUENCES: ("x",),
        semconv.OUTPUT_TYPE: "json",
    }
    turns = CHAT.request_messages(json.dumps(body).encode()).messages
    assert [part["type"] for turn in turns for part in turn["parts"]] == [
        "text", "reasoning", "tool_call", "tool_call_response",
    ]  # fmt: skip
    old = (
        b'{"model":"command","preamble":"s","message":"now","chat_history":[{"role":"USER","message":"hi"},'
        b'{"role":"CHATBOT","message":"","tool_calls":[{"name":"f","parameters":{"a": 1.0}}]},'
        b'{"role":"TOOL","tool_results":[{"call":{"name":"f"},"outputs":[{"x":1}]}]}],"tools":[{"name":"f"}]}'
    )
    read = V1.request_messages(old)
    assert [turn["role"] for turn in read.messages] == ["user", "assistant", "tool", "user"]
    assert read.messages[1]["parts"] == [{"type": "tool_call", "id": None, "name": "f", "arguments": '{"a": 1.0}'}]
    assert read.messages[2]["parts"] == [{"type": "tool_call_response", "id": "f", "response": [{"x": 1}]}]
    assert (read.system, read.tools) == ([{"type": "text", "content": "s"}], [{"type": "function", "name": "f"}])
    assert [role for _, _, role in split_request("cohere.chat_v1", old) if role != "envelope"] == [
        "system", "user", "user", "assistant", "tool", "tools",
    ]  # fmt: skip
