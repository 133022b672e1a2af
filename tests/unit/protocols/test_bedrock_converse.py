"""Bedrock Converse: blocks, tools, thinking, and streams that go wrong."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols.bedrock_converse import BEDROCK_CONVERSE
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE
from tests.support.bedrock_bodies import converse_stream, event, exception, text_answer

URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.nova-micro-v1%3A0/converse"


def fold(body, status=200, media_type=MEDIA_TYPE):
    return BEDROCK_CONVERSE.fold(body, media_type, status)


def facts(body, status=200):
    return BEDROCK_CONVERSE.response_facts(body, MEDIA_TYPE, status)


def delta(index, **what):
    return ("contentBlockDelta", {"contentBlockIndex": index, "delta": what})


def start(index, **what):
    return ("contentBlockStart", {"contentBlockIndex": index, "start": what})


STOP = ("messageStop", {"stopReason": "tool_use"})


def test_blocks_go_by_index_and_texts_have_no_start():
    """Fragments of two tools and a text that arrive mixed are put together each by its index."""
    body = converse_stream(
        ("messageStart", {"role": "assistant"}),
        delta(0, text="a"),
        start(1, toolUse={"toolUseId": "t1", "name": "f"}),
        start(2, toolUse={"toolUseId": "t2", "name": "g"}),
        delta(2, toolUse={"input": '{"b"'}),
        delta(1, toolUse={"input": '{"a": 1.0'}),
        delta(0, text="b"),
        delta(2, toolUse={"input": ":2}"}),
        delta(1, toolUse={"input": "}"}),
        STOP,
    )
    folded = fold(body)
    assert (folded.complete, folded.finish_reason, folded.text) == (True, "tool_use", "ab")
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [
        ("t1", "f", '{"a": 1.0}'),
        ("t2", "g", '{"b":2}'),
    ]
    assert folded.problems == ()


def test_thinking_keeps_its_signature_and_what_was_redacted():
    """Reasoning must be sent back with its signature, so the part carries it."""
    body = converse_stream(
        delta(0, reasoningContent={"text": "h"}),
        delta(0, reasoningContent={"text": "m"}),
        delta(0, reasoningContent={"signature": "SIG"}),
        delta(1, reasoningContent={"redactedContent": "QUJD"}),
        delta(2, text="4"),
        STOP,
    )
    folded = fold(body)
    assert (folded.reasoning, folded.text) == ("hm", "4")
    assert folded.output_messages[0]["parts"][:2] == [
        {"type": "reasoning", "content": "hm", "signature": "SIG"},
        {"type": "reasoning", "content": "", "redactedContent": "QUJD"},
    ]


def test_usage_comes_after_the_stop_and_cached_tokens_are_added_in_the_facts():
    """The wire leaves cached tokens out of the input; the conventions want them in."""
    body = converse_stream(*text_answer("hi"))
    usage = fold(body).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (7, 3, 4)
    assert facts(body) == {
        semconv.RESPONSE_FINISH_REASONS: ("end_turn",),
        semconv.USAGE_INPUT_TOKENS: 11,
        semconv.USAGE_OUTPUT_TOKENS: 3,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: 4,
    }


def test_an_exception_frame_fails_the_call():
    """A frame in which the service gives up is the error, with what came before it."""
    raised = exception("modelStreamErrorException", {"message": "broke", "originalStatusCode": 424})
    body = converse_stream(delta(0, text="half")) + raised
    folded = fold(body)
    assert (folded.complete, folded.text) == (False, "half")
    assert (folded.error.type, folded.error.message) == ("modelStreamErrorException", "broke")
    assert (folded.error.code, folded.error.http_status) == (424, 200)
    assert facts(body)[semconv.ERROR_TYPE] == "modelStreamErrorException"


def test_an_exception_by_name_alone_is_one_too():
    """Where frames were taken off (a gateway's events), the name of the member tells."""
    body = b'data: {"throttlingException":{"message":"slow down"}}\n\n'
    folded = BEDROCK_CONVERSE.fold(body, "text/event-stream", 200)
    assert (folded.error.type, folded.error.message) == ("throttlingException", "slow down")


def test_a_wrong_checksum_fails_the_call_and_keeps_the_rest():
    """The text of a damaged frame is not believed, what lies around it is, and both say so."""
    first, damaged, last = (event(*delta(0, text=text)) for text in "abc")
    damaged = damaged[:-1] + bytes([damaged[-1] ^ 1])
    body = first + damaged + last + event(*STOP)
    folded = fold(body)
    assert (folded.complete, folded.text, folded.finish_reason) == (False, "ac", "tool_use")
    assert folded.error.type == "malformed_response"
    assert folded.problems == ("the checksum of frame 2 is wrong",)
    assert facts(body)[semconv.ERROR_TYPE] == "malformed_response"


def test_a_stream_that_just_ends_was_cut():
    """Without a stop reason the call failed; a cut inside the last frame is named, and loses only that frame."""
    whole = converse_stream(*text_answer("hi"))
    assert fold(converse_stream(*text_answer("hi")[:2])).error.type == "stream_truncated"
    late = fold(whole[:-5])
    assert (late.complete, late.finish_reason, late.usage) == (True, "end_turn", None)
    assert "frame 5 is cut" in late.problems[0]
    assert fold(b"").error.type == "stream_truncated"


def test_a_payload_that_is_no_object_is_a_problem():
    """A frame with right checksums whose payload is no JSON is named, and fails the call."""
    body = event("contentBlockDelta", "no object") + event(*STOP)
    folded = fold(body)
    assert not folded.complete
    assert folded.problems == ("frame 1 is no JSON object: b'\"no object\"'",)


def test_what_is_unknown_is_named():
    """New events and deltas are said, not dropped in silence."""
    problems = fold(converse_stream(("dance", {}), delta(0, dance="x"), STOP)).problems
    assert problems == ("unknown event type 'dance'", "unknown delta type 'dance'")


def test_a_plain_answer_keeps_the_text_of_its_tool_input():
    """The input is the slice of the body: spaces, number forms and repeated keys stay."""
    use = b'{"toolUse":{"toolUseId":"t","name":"f","input": {"n": 1.10, "n": 18446744073709551617} }}'
    body = b'{"output":{"message":{"role":"assistant","content":[{"text":"a"},%s]}},"stopReason":"tool_use"}' % use
    folded = fold(body, media_type="application/json")
    assert (folded.text, folded.complete) == ("a", True)
    assert folded.tool_calls[0].arguments_raw == '{"n": 1.10, "n": 18446744073709551617}'
    assert "duplicate keys" in folded.problems[0]


def test_a_server_tool_is_no_call_of_the_agents():
    """What Bedrock runs itself has parts of its own, and is not among the calls to be made."""
    body = converse_stream(
        start(0, toolUse={"toolUseId": "s", "name": "interpreter", "type": "server_tool_use"}),
        delta(0, toolUse={"input": "{}"}),
        start(1, toolResult={"toolUseId": "s", "type": "interpreter_result", "status": "success"}),
        delta(1, toolResult=[{"json": {"stdOut": "4"}}]),
        STOP,
    )
    folded = fold(body)
    assert folded.tool_calls == ()
    assert folded.output_messages[0]["parts"] == [
        {"type": "server_tool_call", "id": "s", "name": "interpreter", "arguments": "{}"},
        {"type": "server_tool_call_response", "id": "s", "response": [{"json": {"stdOut": "4"}}]},
    ]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b'{"message":"no such model"}', 400, "http_400"),
        (b"<html>bad gateway</html>", 502, "http_502"),
        (b"[1]", 200, "malformed_response"),
    ],
)
def test_an_answer_that_is_none_says_why(body, status, error):
    """Errors of the service and bodies that are no answer are errors, in fold and facts."""
    folded = fold(body, status, "application/json")
    assert (folded.complete, folded.error.type, folded.error.http_status) == (False, error, status)
    assert BEDROCK_CONVERSE.response_facts(body, "application/json", status)[semconv.ERROR_TYPE] == error


REQUEST = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1.0}}}]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "t", "content": [{"text": "no"}], "status": "error"}},
            {"document": {"format": "pdf", "name": "d", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        ]},
    ],
    "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["|"]},
    "toolConfig": {"tools": [
        {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"type": "object"}}}},
        {"systemTool": {"name": "interpreter"}},
    ]},
    "additionalModelRequestFields": {"reasoningConfig": {"maxReasoningEffort": "low"}},
}  # fmt: skip


def test_a_request_reads_in_the_form_of_the_conventions():
    """System, messages with media and results, tools: each in its place, arguments as they are on the wire."""
    read = BEDROCK_CONVERSE.request_messages(json.dumps(REQUEST).encode())
    assert read.system[0] == {"type": "text", "content": "Be brief."}
    assert [message["role"] for message in read.messages] == ["user", "assistant", "user"]
    assert read.messages[0]["parts"][1] == {"type": "blob", "modality": "image", "format": "png", "content": "QUJD"}
    assert read.messages[1]["parts"] == [{"type": "tool_call", "id": "t", "name": "f", "arguments": '{"a": 1.0}'}]
    assert read.messages[2]["parts"] == [
        {"type": "tool_call_response", "id": "t", "response": [{"text": "no"}], "is_error": True},
        {"type": "uri", "modality": "document", "format": "pdf", "uri": "s3://b/k"},
    ]
    assert read.tools == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {"systemTool": {"name": "interpreter"}},
    ]


def test_request_facts_have_the_model_of_the_url():
    """The body names no model; the URL does, and says whether the answer streams."""
    body = json.dumps(REQUEST).encode()
    found = BEDROCK_CONVERSE.request_facts(body, URL + "-stream")
    digest = found.pop(semconv.VERSION_TOOL_SCHEMA)
    assert len(digest) == 64
    assert found == {
        semconv.REQUEST_MODEL: "amazon.nova-micro-v1:0",
        semconv.REQUEST_STREAM: True,
        semconv.REQUEST_MAX_TOKENS: 9,
        semconv.REQUEST_TEMPERATURE: 0.5,
        semconv.REQUEST_TOP_P: 0.9,
        semconv.REQUEST_STOP_SEQUENCES: ("|",),
        semconv.REQUEST_REASONING_LEVEL: "low",
    }
    assert semconv.REQUEST_MODEL not in BEDROCK_CONVERSE.request_facts(body)
