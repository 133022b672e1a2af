"""Anthropic Messages: exact inputs, thinking with its signature, fallbacks, and streams that go wrong."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.protocols import ANTHROPIC_MESSAGES


def stream(*events):
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events
    )


def start(**rest):
    message = {
        "id": "m1",
        "model": "claude-a",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 5},
        **rest,
    }
    return {"type": "message_start", "message": message}


def block(index, **content):
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index, kind, **rest):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **rest}}


def stop(reason="end_turn", **usage):
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def fold(body, status=200):
    return ANTHROPIC_MESSAGES.fold(body, "", status)


def test_the_input_of_a_plain_answer_keeps_its_text():
    """A tool input is the slice of the body: spaces, number forms and repeated keys stay."""
    call = b'{"type":"tool_use","id":"t","name":"f","input": {"n": 1.10, "n": 18446744073709551617} }'
    body = b'{"type":"message","content":[{"type":"text","text":"a"},%s],"stop_reason":"tool_use","usage":{}}' % call
    folded = fold(body)
    assert folded.tool_calls[0].arguments_raw == '{"n": 1.10, "n": 18446744073709551617}'
    assert "duplicate keys" in folded.problems[0]


def test_thinking_keeps_its_signature():
    """Thinking must be sent back with its signature, so the part carries it."""
    body = stream(
        start(),
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="SIG"),
        *stop(output_tokens=3),
    )
    folded = fold(body)
    assert folded.reasoning == "hm"
    assert folded.output_messages[0]["parts"] == [{"type": "reasoning", "content": "hm", "signature": "SIG"}]


def test_the_model_that_a_fallback_leads_to_answered():
    """With a fallback block the answering model is the one it names, in facts too, plain or streamed."""
    moved = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    streamed = stream(start(), block(0, **moved), block(1, type="text", text="x"), *stop())
    plain = json.dumps({"model": "claude-a", "content": [moved], "stop_reason": "end_turn"}).encode()
    for body in (streamed, plain):
        assert fold(body).model == "claude-b"
        assert ANTHROPIC_MESSAGES.response_facts(body, "", 200)[semconv.RESPONSE_MODEL] == "claude-b"


def test_input_tokens_of_the_facts_hold_the_cached_ones():
    """The wire's input tokens leave the cache out, the attribute's hold it."""
    body = stream(start(usage={"input_tokens": 9}), *stop(cache_read_input_tokens=1000, cache_creation_input_tokens=40))
    facts = ANTHROPIC_MESSAGES.response_facts(body, "", 200)
    assert fold(body).usage.input_tokens == 9
    assert facts[semconv.USAGE_INPUT_TOKENS] == 1049
    assert facts[semconv.USAGE_CACHE_READ_INPUT_TOKENS] == 1000


def test_a_spliced_stream_is_the_message_that_ended():
    """A second message_start begins anew; the first, half message does not leak into it, and this is said."""
    body = stream(
        start(),
        block(0, type="tool_use", id="t1", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"v":"Spark'),
        start(id="m2"),
        block(0, type="text", text=""),
        delta(0, "text_delta", text="done"),
        *stop(),
    )
    folded = fold(body)
    assert (folded.response_id, folded.text, folded.tool_calls) == ("m2", "done", ())
    assert "message_start came again" in folded.problems[0]


def test_a_refusal_says_why():
    """The explanation of a refusal is its text; without one the stop reason alone says it."""
    details = {"type": "refusal", "explanation": "not that"}
    body = stream(
        start(), {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    )
    assert (fold(body).finish_reason, fold(body).refusal) == ("refusal", "not that")


def test_unknown_events_blocks_and_deltas_are_kept_and_named():
    """What is not known today stays a part of its own and is named."""
    body = stream(start(), block(0, type="brand_new", x=1), delta(0, "new_delta", y=2), {"type": "new_event"}, *stop())
    folded = fold(body)
    assert folded.output_messages[0]["parts"] == [{"type": "brand_new", "x": 1}]
    assert folded.problems == ("unknown delta type 'new_delta'", "unknown event type 'new_event'")


def test_an_error_event_has_its_type_in_the_facts():
    """Status 200, then an error event: the cheap facts say it as well."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert ANTHROPIC_MESSAGES.response_facts(stream(start(), error), "", 200)[semconv.ERROR_TYPE] == "overloaded_error"
    assert ANTHROPIC_MESSAGES.response_facts(stream(start()), "", 200)[semconv.ERROR_TYPE] == "stream_truncated"


def test_a_request_reads_as_messages():
    """System, images, tool uses with their exact input, and results with their error mark."""
    body = b"""{"model":"claude","max_tokens":9,"stop_sequences":["X"],"top_k":4,
      "system":[{"type":"text","text":"be brief"}],"messages":[
      {"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
      {"role":"assistant","content":[{"type":"text","text":"ok"},
        {"type":"tool_use","id":"t","name":"f","input":{ "a":1.0 }}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"bad","is_error":true}]}],
      "tools":[{"name":"f","input_schema":{"type":"object"}}]}"""
    read = ANTHROPIC_MESSAGES.request_messages(body)
    assert read.system == [{"type": "text", "content": "be brief"}]
    assert [message["parts"] for message in read.messages] == [
        [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"}],
        [{"type": "text", "content": "ok"}, {"type": "tool_call", "id": "t", "name": "f", "arguments": '{ "a":1.0 }'}],
        [{"type": "tool_call_response", "id": "t", "response": "bad", "is_error": True}],
    ]
    assert read.tools == [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    facts = ANTHROPIC_MESSAGES.request_facts(body)
    assert (facts[semconv.REQUEST_MAX_TOKENS], facts[semconv.REQUEST_TOP_K]) == (9, 4)
    assert facts[semconv.REQUEST_STOP_SEQUENCES] == ("X",)
