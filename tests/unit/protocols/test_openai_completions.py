"""OpenAI Completions: choices of text, and what Writer and Mistral make of the same path."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.protocols import PROTOCOLS, split_request

COMPLETIONS = PROTOCOLS["openai.completions"]
SSE = "text/event-stream"


def stream(*values, done=True):
    body = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    return body + (b"data: [DONE]\n\n" if done else b"")


def piece(text, finish=None, index=0, **rest):
    return {"id": "c", "object": "text_completion", "model": "m",
            "choices": [{"text": text, "index": index, "finish_reason": finish}], **rest}  # fmt: skip


def test_pieces_of_text_are_joined_by_choice():
    """Two prompts or n=2 give choices whose pieces mix; usage comes last, without choices."""
    usage = {"id": "c", "choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3}}
    body = stream(piece("a"), piece("x", index=1), piece("b", "stop"), piece("y", "length", index=1), usage)
    folded = COMPLETIONS.fold(body, SSE, 200)
    assert (folded.complete, folded.text, folded.finish_reason) == (True, "ab", "stop")
    assert [message["parts"][0]["content"] for message in folded.output_messages] == ["ab", "xy"]
    assert COMPLETIONS.response_facts(body, SSE, 200) == {
        semconv.RESPONSE_ID: "c",
        semconv.RESPONSE_MODEL: "m",
        semconv.RESPONSE_FINISH_REASONS: ("stop", "length"),
        semconv.USAGE_INPUT_TOKENS: 4,
        semconv.USAGE_OUTPUT_TOKENS: 3,
    }


def test_a_plain_completion_is_its_choices():
    """Not streamed, the same."""
    folded = COMPLETIONS.fold(json.dumps(piece("ab", "stop")).encode(), "application/json", 200)
    assert (folded.complete, folded.text, folded.output_messages[0]["role"]) == (True, "ab", "assistant")
    assert COMPLETIONS.fold(b"[]", "application/json", 200).error.type == "malformed_response"


def test_a_cut_stream_is_not_complete():
    """Neither finish reason nor end mark: cut."""
    folded = COMPLETIONS.fold(stream(piece("a"), done=False), SSE, 200)
    assert (folded.complete, folded.error.type) == (False, "stream_truncated")


def test_bare_values_have_no_end_and_that_is_said():
    """Writer streams `{"value"}` and nothing else: all that came is there, whether it is all nobody knows."""
    body = stream({"value": "a"}, {"value": "b"}, done=False)
    folded = COMPLETIONS.fold(body, SSE, 200)
    assert (folded.complete, folded.text) == (True, "ab")
    assert folded.problems == ("the stream has no end mark: nothing tells whether it is whole",)
    assert COMPLETIONS.response_facts(body, SSE, 200) == {}
    cut = COMPLETIONS.fold(body + b'data: {"val', SSE, 200)
    assert (cut.complete, cut.error.type) == (False, "stream_truncated")


def test_code_completions_are_answered_with_messages():
    """Mistral's `fim` takes a prompt and answers like a chat."""
    answer = {"id": "c", "choices": [{"index": 0, "message": {"content": "x = 1"}, "finish_reason": "stop"}]}
    assert COMPLETIONS.fold(json.dumps(answer).encode(), "application/json", 200).text == "x = 1"


def test_every_prompt_is_a_message():
    """A text, several texts or tokens: each is what the model was given."""

    def prompts(prompt):
        read = COMPLETIONS.request_messages(json.dumps({"model": "m", "prompt": prompt}).encode())
        return [message["parts"][0] for message in read.messages]

    assert prompts("hi") == [{"type": "text", "content": "hi"}]
    assert prompts(["a", "b"]) == [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}]
    assert prompts([1, 2]) == [{"type": "token_ids", "content": [1, 2]}]
    assert prompts([[1], [2]]) == [{"type": "token_ids", "content": [1]}, {"type": "token_ids", "content": [2]}]
    assert prompts(None) == []


def test_a_prompt_of_tokens_is_one_piece():
    """Thousands of numbers are not thousands of pieces to store."""
    body = json.dumps({"model": "m", "prompt": list(range(1000)), "n": 2}).encode()
    assert [role for _, _, role in split_request("openai.completions", body)] == ["envelope", "user", "envelope"]
    assert COMPLETIONS.request_facts(body) == {semconv.REQUEST_MODEL: "m", semconv.REQUEST_CHOICE_COUNT: 2}
