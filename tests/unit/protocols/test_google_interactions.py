"""Google's Interactions: steps, thoughts, calls, and both versions of its events."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols.google_interactions import GOOGLE_INTERACTIONS as INTERACTIONS

SSE, JSON = "text/event-stream", "application/json"
USAGE = {"total_input_tokens": 7, "total_output_tokens": 3, "total_thought_tokens": 5, "total_cached_tokens": 2}


def events(*values):
    lines = (b"event: %s\ndata: %s\n\n" % (one["event_type"].encode(), json.dumps(one).encode()) for one in values)
    return b"".join(lines) + b"event: done\ndata: [DONE]\n\n"


def interaction(kind, **members):
    return {"event_type": f"interaction.{kind}", "interaction": {"id": "v1_a", "model": "gemini-x", **members}}


def step(index, *deltas, **start):
    yield {"event_type": "step.start", "index": index, "step": start}
    for delta in deltas:
        yield {"event_type": "step.delta", "index": index, "delta": delta}
    yield {"event_type": "step.stop", "index": index}


DONE = interaction("completed", status="completed", usage=USAGE)
WHOLE = [
    interaction("created", status="in_progress"),
    *step(0, {"type": "thought_summary", "content": {"type": "text", "text": "hm"}},
          {"type": "thought_signature", "signature": "SIG"}, type="thought"),
    *step(1, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}, type="model_output"),
    DONE,
]  # fmt: skip


def test_steps_are_parts_and_the_status_is_the_finish_reason():
    """Thought with its signature, then the text; usage and model come with the end."""
    folded = INTERACTIONS.fold(events(*WHOLE), SSE, 200)
    assert (folded.complete, folded.finish_reason, folded.text, folded.reasoning) == (True, "completed", "ab", "hm")
    assert folded.output_messages[0]["parts"] == [
        {"type": "reasoning", "content": "hm", "signature": "SIG"},
        {"type": "text", "content": "ab"},
    ]
    assert (folded.response_id, folded.model, folded.problems) == ("v1_a", "gemini-x", ())
    assert INTERACTIONS.response_facts(events(*WHOLE), SSE, 200) == {
        semconv.RESPONSE_ID: "v1_a",
        semconv.RESPONSE_MODEL: "gemini-x",
        semconv.RESPONSE_FINISH_REASONS: ("completed",),
        semconv.USAGE_INPUT_TOKENS: 7,
        semconv.USAGE_OUTPUT_TOKENS: 8,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: 2,
        semconv.USAGE_REASONING_OUTPUT_TOKENS: 5,
    }


def test_a_call_has_its_arguments_as_they_came():
    """Deltas of arguments are text, put together; the interaction then wants an action."""
    pieces = [{"type": "arguments_delta", "arguments": piece} for piece in ('{"a":', " 1.0}")]
    called = step(0, *pieces, type="function_call", id="c", name="f", arguments={})
    folded = INTERACTIONS.fold(events(*called, interaction("completed", status="requires_action")), SSE, 200)
    assert (folded.complete, folded.finish_reason) == (True, "requires_action")
    assert [(one.id, one.name, one.arguments_raw) for one in folded.tool_calls] == [("c", "f", '{"a": 1.0}')]


def test_a_plain_answer_keeps_the_text_of_arguments():
    """Steps of an answer that does not stream read alike, arguments as the slice of the body."""
    body = (
        b'{"id":"v1_a","status":"requires_action","model":"m","steps":[{"type":"model_output","content":[{"type":"text",'
        b'"text":"a"}]},{"type":"function_call","id":"c","name":"f","arguments": {"n": 1.10, "n": 2} }]}'
    )
    folded = INTERACTIONS.fold(body, JSON, 200)
    assert (folded.complete, folded.text, folded.tool_calls[0].arguments_raw) == (True, "a", '{"n": 1.10, "n": 2}')
    assert "duplicate keys" in folded.problems[0]


def test_the_earlier_version_of_the_api_reads_too():
    """`outputs` and `content.*` events are what `steps` and `step.*` were called before."""
    body = events(
        interaction("start", status="in_progress"),
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "ab"}},
        {"event_type": "content.stop", "index": 0},
        interaction("complete", status="completed"),
    )
    assert INTERACTIONS.fold(body, SSE, 200).text == "ab"
    plain = b'{"status":"completed","outputs":[{"type":"thought","signature":"S"},{"type":"text","text":"ab"}]}'
    folded = INTERACTIONS.fold(plain, JSON, 200)
    assert [part["type"] for part in folded.output_messages[0]["parts"]] == ["reasoning", "text"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (events(*WHOLE[:-1]), 200, "stream_truncated"),
        (events(WHOLE[0], {"event_type": "error", "error": {"status": "UNAVAILABLE"}}), 200, "UNAVAILABLE"),
        (events(interaction("completed", status="failed")), 200, "failed"),
        (b'{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"x"}}', 400, "INVALID_ARGUMENT"),
        (b"<html>", 200, "malformed_response"),
    ],
)  # fmt: skip
def test_an_interaction_that_fails_says_why(body, status, error):
    """Cut, in mid-stream, by its status, by HTTP and by a body that is none: fold and facts agree."""
    media_type = SSE if body.startswith(b"event") else JSON
    folded = INTERACTIONS.fold(body, media_type, status)
    assert (folded.complete, folded.error.type) == (False, error)
    assert INTERACTIONS.response_facts(body, media_type, status)[semconv.ERROR_TYPE] == error


def test_what_is_unknown_is_named():
    """New events and deltas are said, not dropped in silence."""
    folded = INTERACTIONS.fold(
        events({"event_type": "dance"}, *step(0, {"type": "dance"}, type="model_output"), DONE), SSE, 200
    )
    assert folded.problems == ("unknown event type 'dance'", "unknown delta type 'dance'")


def test_requests_read_whether_text_contents_or_turns():
    """An input is one text, the contents of one turn, or turns and earlier steps given back."""

    def read(value):
        return INTERACTIONS.request_messages(json.dumps({"model": "m", "input": value}).encode()).messages

    assert read("hi") == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    image = {"type": "image", "data": "QUJD", "mime_type": "image/png"}
    assert read([{"type": "text", "text": "hi"}, image])[0]["parts"][1]["type"] == "blob"
    turns = read([
        {"role": "user", "content": "hi"},
        {"role": "model", "content": [{"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}}]},
        {"type": "function_result", "call_id": "c", "name": "f", "result": "4"},
    ])  # fmt: skip
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]
    assert turns[1]["parts"] == [{"type": "tool_call", "id": "c", "name": "f", "arguments": '{"a":1}'}]
    assert turns[2]["parts"] == [{"type": "tool_call_response", "id": "c", "response": "4", "name": "f"}]


def test_request_facts_name_the_model_or_the_agent():
    """The body names the model; an agent stands in its place."""
    request = {
        "model": "gemini-x", "input": "hi", "stream": True, "tools": [{"type": "function", "name": "f"}],
        "generation_config": {"temperature": 0.5, "max_output_tokens": 9, "thinking_level": "low"},
    }  # fmt: skip
    found = INTERACTIONS.request_facts(json.dumps(request).encode())
    found.pop(semconv.VERSION_TOOL_SCHEMA)
    assert found == {
        semconv.REQUEST_MODEL: "gemini-x",
        semconv.REQUEST_STREAM: True,
        semconv.REQUEST_TEMPERATURE: 0.5,
        semconv.REQUEST_MAX_TOKENS: 9,
        semconv.REQUEST_REASONING_LEVEL: "low",
    }
    assert INTERACTIONS.request_facts(b'{"agent":"a","input":"x"}')[semconv.REQUEST_MODEL] == "a"
