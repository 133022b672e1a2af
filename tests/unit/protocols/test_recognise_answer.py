"""Recognition from an answer's bytes alone, and protocols by the names that people give them."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.protocols import PROTOCOLS, protocol_named, recognise_answer
from otel_agent_replay.protocols.event_stream import written_frame

CHAT = "openai.chat_completions"


def sse(*values: object) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def frame(kind: str, value: object) -> bytes:
    return written_frame({":event-type": kind, ":message-type": "event"}, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (sse({"object": "chat.completion.chunk", "choices": []}), CHAT),
        (sse({"choices": []}, {"choices": [{"delta": {}}]}), CHAT),
        (b'{"object": "chat.completion", "choices": []}', CHAT),
        (b'{"error": {"message": "no", "type": "invalid_request_error"}}', CHAT),
        (sse({"type": "response.created", "response": {}}), "openai.responses"),
        (b'{"object": "response", "output": []}', "openai.responses"),
        (b"event: ping\ndata: {}\n\n" + sse({"type": "message_start", "message": {}}), "anthropic.messages"),
        (b'{"type": "message", "content": [], "stop_reason": null}', "anthropic.messages"),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}', "anthropic.messages"),
        (sse({"type": "completion", "completion": "a", "stop_reason": None}), "anthropic.complete"),
        (b'[{"generated_text": "a"}]', "huggingface.text_generation"),
        (b'{"object": "text_completion", "choices": [{"text": "a"}]}', "openai.completions"),
        (sse({"candidates": [{"content": {}}]}), "google.generate_content"),
        (b'[{"candidates": []}, {"usageMetadata": {}}]', "google.generate_content"),
        (b'{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}', "google.generate_content"),
        (sse({"event_type": "interaction.start", "interaction": {}}), "google.interactions"),
        (frame("messageStart", {"role": "assistant"}), "aws.bedrock_converse"),
        (b'{"output": {"message": {}}, "stopReason": "end_turn"}', "aws.bedrock_converse"),
        (frame("chunk", {"bytes": "eyJhIjoxfQ=="}), "aws.bedrock_invoke"),
        (b'{"created_at": "", "done": false, "message": {}}\n{"created_at": "", "done": true}', "ollama.chat"),
        (b'{"created_at": "", "done": false, "response": "a"}\n', "ollama.generate"),
        (sse({"type": "message-start", "delta": {}}), "cohere.chat"),
        (b'{"event_type": "stream-start", "generation_id": "g", "is_finished": false}\n', "cohere.chat_v1"),
    ],
)
def test_an_answer_tells_its_protocol(body, name):
    """The first objects decide, streamed or not, whatever comes before them."""
    assert recognise_answer(body) is PROTOCOLS[name]


@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b"[]", b"[1]", b'{"a": 1}', b"data: 1\n\n", b"\0" * 32])
def test_bytes_of_nobody_are_nobodys(body):
    """What no protocol sends is not guessed at."""
    assert recognise_answer(body) is None


def test_a_shared_form_of_error_is_taken_only_when_asked_for():
    """The form of error that everybody has tells no protocol where the request was there to tell it."""
    assert recognise_answer(b'{"error": {"message": "no"}}', errors=False) is None


@pytest.mark.parametrize(
    "name", [CHAT, "openai.chat.completions", "OpenAI-Chat-Completions", "openai", " openai/chat ", "groq", "Mistral"]
)
def test_a_protocol_has_the_names_that_people_use(name):
    """Dots, dashes, case and common short names all name the same protocol."""
    assert protocol_named(name) is PROTOCOLS[CHAT]


def test_every_protocol_is_found_by_its_own_name():
    """No alias hides a protocol's own name."""
    assert {protocol_named(name) for name in PROTOCOLS} == set(PROTOCOLS.values())


def test_a_name_of_nobody_is_none():
    """An unknown name gives nothing."""
    assert protocol_named("smoke.signals") is None
