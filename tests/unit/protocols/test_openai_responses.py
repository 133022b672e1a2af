"""The Responses API: items, their deltas, and who answers a call."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.protocols import OPENAI_RESPONSES


def plain(output, status="completed", **rest):
    return json.dumps({"id": "r", "model": "m", "status": status, "output": output, **rest}).encode()


def stream(*events):
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events
    )


def fold(body, status=200):
    return OPENAI_RESPONSES.fold(body, "", status)


def test_items_become_parts_in_their_order():
    """Reasoning, text, refusal and calls of one answer, with the encrypted reasoning kept for a later request."""
    output = [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "think"}],
            "encrypted_content": "E",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1.0}'},
    ]
    folded = fold(plain(output))
    assert (folded.text, folded.reasoning, folded.refusal) == ("hi", "think", "no")
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [("c1", "f", '{"a": 1.0}')]
    assert folded.output_messages[0]["parts"] == [
        {"type": "reasoning", "content": "think", "id": "rs", "encrypted_content": "E"},
        {"type": "text", "content": "hi"},
        {"type": "refusal", "content": "no"},
        {"type": "tool_call", "id": "c1", "name": "f", "arguments": '{"a": 1.0}'},
    ]


def test_a_call_the_provider_answered_is_no_call_for_the_agent():
    """A shell call with its output beside it ran at the provider; without it, the agent must run it."""
    call = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}}
    answer = {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "x"}]}
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}}
    assert fold(plain([call, answer, search])).tool_calls == ()
    alone = fold(plain([call, search])).tool_calls
    assert [(one.id, one.name, one.arguments_raw) for one in alone] == [("s1", "shell", '{"commands":["ls"]}')]


def test_a_cut_stream_gives_what_had_come():
    """Text and half the arguments of an item that never ended are kept, and the cut is said."""
    body = stream(
        {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {"type": "function_call", "call_id": "c", "name": "f"},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"a'},
    )
    folded = fold(body)
    assert (folded.complete, folded.error.type, folded.finish_reason) == (False, "stream_truncated", None)
    assert (folded.text, folded.tool_calls[0].arguments_raw, folded.response_id) == ("Hel", '{"a', "r")
    assert OPENAI_RESPONSES.response_facts(body, "", 200)[semconv.ERROR_TYPE] == "stream_truncated"


def test_an_incomplete_response_ended_well_with_its_reason():
    """A limit is an end like `length` in chat: complete, with the reason."""
    folded = fold(plain([], status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert (folded.complete, folded.finish_reason) == (True, "max_output_tokens")


def test_a_failed_response_is_an_error():
    """`response.failed` and an error event both fail the call, whose HTTP status was 200."""
    error = {"code": "server_error", "message": "boom"}
    failed = {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": error, "output": []}}
    flat = {"type": "error", "code": "server_error", "message": "boom", "param": None}
    for body in (stream(failed), stream(flat), plain([], status="failed", error=error)):
        folded = fold(body)
        assert (folded.complete, folded.error.type, folded.error.message) == (False, "server_error", "boom")
        assert OPENAI_RESPONSES.response_facts(body, "", 200)[semconv.ERROR_TYPE] == "server_error"


def test_a_background_response_is_not_complete_yet():
    """A queued response is no answer and no error."""
    folded = fold(plain([], status="queued"))
    assert (folded.complete, folded.error) == (False, None)
    assert "queued" in folded.problems[0]


def test_request_facts_and_messages():
    """Instructions are apart, items keep their roles, references and calls keep their ids."""
    request = {
        "model": "gpt-5",
        "instructions": "be brief",
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
            {"type": "item_reference", "id": "x"},
        ],
        "max_output_tokens": 9,
        "reasoning": {"effort": "high"},
        "previous_response_id": "r0",
        "conversation": {"id": "conv"},
        "text": {"format": {"type": "json_object"}},
    }
    body = json.dumps(request).encode()
    assert OPENAI_RESPONSES.request_facts(body) == {
        semconv.REQUEST_MODEL: "gpt-5",
        semconv.REQUEST_MAX_TOKENS: 9,
        semconv.REQUEST_REASONING_LEVEL: "high",
        semconv.REQUEST_PREVIOUS_RESPONSE_ID: "r0",
        semconv.CONVERSATION_ID: "conv",
        semconv.OUTPUT_TYPE: "json",
        semconv.OPENAI_API_TYPE: "responses",
    }
    read = OPENAI_RESPONSES.request_messages(body)
    assert read.system == [{"type": "text", "content": "be brief"}]
    assert read.messages == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}]},
        {"role": "assistant", "parts": [{"type": "item_reference", "id": "x"}]},
    ]
