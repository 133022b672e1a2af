"""Bedrock InvokeModel: each maker's own answer behind one envelope."""

from __future__ import annotations

import base64
import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols.bedrock_invoke import BEDROCK_INVOKE
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE
from tests.support.bedrock_bodies import chunk, event, exception, text_answer

METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 5, "outputTokenCount": 2, "invocationLatency": 9}}
CLAUDE = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "content": [], "usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0,
     "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", **METRICS},
]  # fmt: skip
NOVA = [{name: value} for name, value in text_answer("a", "b")]
CHAT = [
    {"id": "c", "model": "gpt-oss", "choices": [{"index": 0, "delta": {"content": "ab"}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 5, "completion_tokens": 2}, **METRICS},
]  # fmt: skip


def fold(*values, media_type=MEDIA_TYPE, status=200):
    return BEDROCK_INVOKE.fold(b"".join(map(chunk, values)), media_type, status)


def plain(value):
    return BEDROCK_INVOKE.fold(json.dumps(value).encode(), "application/json", 200)


@pytest.mark.parametrize(
    ("values", "text", "reason", "tokens"),
    [
        (NOVA, "ab", "end_turn", (7, 3)),
        (CHAT, "ab", "stop", (5, 2)),
        ([{"outputText": "ab", "index": 0, "completionReason": "FINISH", "inputTextTokenCount": 5,
           "totalOutputTextTokenCount": 2, **METRICS}], "ab", "FINISH", (5, 2)),
        ([{"generation": "a", "stop_reason": None}, {"generation": "b", "stop_reason": "stop", **METRICS}],
         "ab", "stop", (5, 2)),
        ([{"completion": "ab", "stop_reason": None}, {"completion": "", "stop_reason": "stop_sequence", **METRICS}],
         "ab", "stop_sequence", (5, 2)),
        ([{"outputs": [{"text": "a"}]}, {"outputs": [{"text": "b", "stop_reason": "length"}], **METRICS}],
         "ab", "length", (5, 2)),
        ([{"index": 0, "is_finished": False, "text": "ab"},
          {"index": 0, "is_finished": True, "finish_reason": "COMPLETE"}, METRICS], "ab", "COMPLETE", (5, 2)),
        ([{"event_type": "stream-start"}, {"event_type": "text-generation", "text": "ab"},
          {"event_type": "stream-end", "finish_reason": "COMPLETE", **METRICS}], "ab", "COMPLETE", (5, 2)),
    ],
    ids=["nova", "chat", "titan", "llama", "claude-text", "mistral", "cohere", "command-r"],
)  # fmt: skip
def test_each_makers_stream_is_told_by_its_first_object(values, text, reason, tokens):
    """Text, finish reason and counts come from each spelling; facts say the same."""
    folded = fold(*values)
    assert (folded.complete, folded.text, folded.finish_reason, folded.problems) == (True, text, reason, ())
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == tokens
    found = BEDROCK_INVOKE.response_facts(b"".join(map(chunk, values)), MEDIA_TYPE, 200)
    assert found[semconv.RESPONSE_FINISH_REASONS] == (reason,)
    assert found[semconv.USAGE_OUTPUT_TOKENS] == tokens[1]


def test_claude_behind_the_envelope_is_anthropic_messages():
    """Calls, ids and usage are those of the Messages stream inside."""
    folded = fold(*CLAUDE)
    assert [(call.id, call.name, call.arguments_raw) for call in folded.tool_calls] == [("t", "f", '{"a": 1}')]
    assert (folded.response_id, folded.model, folded.finish_reason) == ("m", "claude", "tool_use")
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == (5, 2)
    assert folded.problems == ()


@pytest.mark.parametrize(
    ("value", "text", "reason"),
    [
        ({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ab"}],
          "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2}}, "ab", "end_turn"),
        ({"output": {"message": {"role": "assistant", "content": [{"text": "ab"}]}}, "stopReason": "end_turn",
          "usage": {"inputTokens": 5, "outputTokens": 2}}, "ab", "end_turn"),
        ({"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}, "ab", "stop"),
        ({"inputTextTokenCount": 5, "results": [{"outputText": "ab", "tokenCount": 2, "completionReason": "LENGTH"}]},
         "ab", "LENGTH"),
        ({"generation": "ab", "prompt_token_count": 5, "generation_token_count": 2, "stop_reason": "stop"},
         "ab", "stop"),
        ({"generations": [{"id": "g", "text": "ab", "finish_reason": "COMPLETE"}], "id": "i"}, "ab", "COMPLETE"),
        ({"outputs": [{"text": "ab", "stop_reason": "stop"}]}, "ab", "stop"),
        ({"type": "completion", "completion": "ab", "stop_reason": "stop_sequence"}, "ab", "stop_sequence"),
        ({"text": "ab", "finish_reason": "COMPLETE", "response_id": "r", "chat_history": []}, "ab", "COMPLETE"),
    ],
    ids=["claude", "nova", "chat", "titan", "llama", "cohere", "mistral", "claude-text", "command-r"],
)  # fmt: skip
def test_each_makers_plain_answer_is_told_by_its_shape(value, text, reason):
    """The same of answers that do not stream."""
    folded = plain(value)
    assert (folded.complete, folded.text, folded.finish_reason, folded.problems) == (True, text, reason, ())


def test_two_generations_are_two_choices():
    """Cohere's `num_generations` interleaves texts by index; each is a message, the first is the text."""
    folded = fold(
        {"index": 0, "text": "a"}, {"index": 1, "text": "x"}, {"index": 0, "text": "b"},
        {"index": 1, "is_finished": True, "finish_reason": "MAX_TOKENS"},
        {"index": 0, "is_finished": True, "finish_reason": "COMPLETE", **METRICS},
    )  # fmt: skip
    assert (folded.text, folded.finish_reason) == ("ab", "COMPLETE")
    assert [message["parts"][0]["content"] for message in folded.output_messages] == ["ab", "x"]


def test_a_guardrail_that_intervened_has_ended_the_call():
    """Bedrock's own word stands where the model has no finish reason."""
    folded = fold({"outputText": "Input blocked", "index": 0, "amazon-bedrock-guardrailAction": "INTERVENED"})
    assert (folded.complete, folded.text, folded.finish_reason) == (True, "Input blocked", None)


def test_streams_that_go_wrong_say_so():
    """A cut stream, an exception in mid-stream and a chunk that is no base64 are failures, each by its name."""
    assert fold({"generation": "a"}).error.type == "stream_truncated"
    assert fold(*CLAUDE[:4]).error.type == "stream_truncated"
    body = b"".join(map(chunk, CLAUDE[:2])) + exception("internalServerException", {"message": "oh"})
    folded = BEDROCK_INVOKE.fold(body, MEDIA_TYPE, 200)
    assert (folded.error.type, folded.error.message) == ("internalServerException", "oh")
    assert len(folded.tool_calls) == 1
    folded = BEDROCK_INVOKE.fold(event("chunk", {"bytes": "%%%"}), MEDIA_TYPE, 200)
    assert (folded.complete, folded.error.type) == (False, "malformed_response")
    assert "no base64 of a JSON object" in folded.problems[0]


def test_an_answer_of_unknown_shape_is_named():
    """A maker nobody knows here gives a problem that names its members."""
    folded = plain({"reply": "ab"})
    assert not folded.complete
    assert folded.problems == ("an object of unknown shape: reply", "the answer has no text")


def test_half_a_surrogate_pair_inside_base64_is_mended():
    """An escape that only shows once the chunk is unpacked cannot break what is written later."""
    raw = b'{"outputText":"\\ud83e","completionReason":"FINISH","index":0}'
    body = event("chunk", {"bytes": base64.b64encode(raw).decode()})
    folded = BEDROCK_INVOKE.fold(body, MEDIA_TYPE, 200)
    assert folded.text == "\ufffd"
    json.dumps(folded.output_messages, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("request_body", "roles", "text", "facts"),
    [
        ({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "system": "s",
          "messages": [{"role": "user", "content": "hi"}]}, ["user"], "hi", {semconv.REQUEST_MAX_TOKENS: 9}),
        ({"schemaVersion": "messages-v1", "messages": [{"role": "user", "content": [{"text": "hi"}]}],
          "inferenceConfig": {"max_new_tokens": 9, "temperature": 0.5}}, ["user"], "hi",
         {semconv.REQUEST_MAX_TOKENS: 9, semconv.REQUEST_TEMPERATURE: 0.5}),
        ({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stop": ["|"]}, ["user"], "hi",
         {semconv.REQUEST_MAX_TOKENS: 9, semconv.REQUEST_STOP_SEQUENCES: ("|",)}),
        ({"inputText": "hi", "textGenerationConfig": {"maxTokenCount": 9, "topP": 0.5, "stopSequences": ["|"]}},
         ["user"], "hi", {semconv.REQUEST_MAX_TOKENS: 9, semconv.REQUEST_TOP_P: 0.5,
                          semconv.REQUEST_STOP_SEQUENCES: ("|",)}),
        ({"prompt": "hi", "max_gen_len": 9, "temperature": 0}, ["user"], "hi",
         {semconv.REQUEST_MAX_TOKENS: 9, semconv.REQUEST_TEMPERATURE: 0}),
        ({"prompt": "hi", "max_tokens": 9, "p": 0.5, "k": 3, "num_generations": 2}, ["user"], "hi",
         {semconv.REQUEST_MAX_TOKENS: 9, semconv.REQUEST_TOP_P: 0.5, semconv.REQUEST_TOP_K: 3,
          semconv.REQUEST_CHOICE_COUNT: 2}),
        ({"message": "hi", "chat_history": [{"role": "CHATBOT", "message": "hello"}], "preamble": "s"},
         ["assistant", "user"], "hi", {}),
    ],
    ids=["claude", "nova", "chat", "titan", "llama", "cohere", "command-r"],
)  # fmt: skip
def test_each_makers_request_reads(request_body, roles, text, facts):
    """Messages and facts come from each maker's own body, the model from the URL."""
    body = json.dumps(request_body).encode()
    read = BEDROCK_INVOKE.request_messages(body)
    assert [message["role"] for message in read.messages] == roles
    assert read.messages[-1]["parts"] == [{"type": "text", "content": text}]
    found = BEDROCK_INVOKE.request_facts(body, "http://127.0.0.1/model/maker.model-v1%3A0/invoke")
    assert found == {semconv.REQUEST_MODEL: "maker.model-v1:0", semconv.REQUEST_STREAM: False, **facts}
