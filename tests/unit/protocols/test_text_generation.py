"""Protocols that take one text and give one: Hugging Face's and Anthropic's older one."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.protocols.anthropic_complete import ANTHROPIC_COMPLETE
from otel_agent_replay.protocols.huggingface_generation import HUGGINGFACE_GENERATION

SSE = "text/event-stream"


def stream(*values):
    return b"".join(b"data:" + json.dumps(value).encode() + b"\n\n" for value in values)


def token(text, *, special=False, **end):
    return {"token": {"text": text, "special": special}, "generated_text": None, "details": None, **end}


DETAILS = {"finish_reason": "eos_token", "generated_tokens": 3, "input_length": 7}


def test_a_generated_text_comes_by_tokens_and_whole_at_the_end():
    """The last event has the text and the details; a plain answer is a list of one or an object."""
    body = stream(token("a"), token(" b"), token("</s>", special=True, generated_text="a b", details=DETAILS))
    folded = HUGGINGFACE_GENERATION.fold(body, SSE, 200)
    assert (folded.complete, folded.text, folded.finish_reason) == (True, "a b", "eos_token")
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == (7, 3)
    answer = {"generated_text": "a b", "details": DETAILS}
    for whole in (answer, [answer]):
        assert HUGGINGFACE_GENERATION.fold(json.dumps(whole).encode(), "application/json", 200) == folded
    facts = HUGGINGFACE_GENERATION.response_facts(body, SSE, 200)
    assert facts[semconv.RESPONSE_FINISH_REASONS] == ("eos_token",)
    assert facts[semconv.USAGE_OUTPUT_TOKENS] == 3


def test_a_cut_or_failed_generation_keeps_its_tokens():
    """Without the whole text the tokens that came are the text; an error in the stream is one."""
    cut = HUGGINGFACE_GENERATION.fold(stream(token("a"), token("</s>", special=True)), SSE, 200)
    assert (cut.complete, cut.text, cut.error.type) == (False, "a", "stream_truncated")
    failed = stream(token("a"), {"error": "out of memory", "error_type": "generation"})
    folded = HUGGINGFACE_GENERATION.fold(failed, SSE, 200)
    assert (folded.complete, folded.error.type, folded.error.message) == (False, "generation", "out of memory")
    assert HUGGINGFACE_GENERATION.response_facts(failed, SSE, 200)[semconv.ERROR_TYPE] == "generation"
    assert HUGGINGFACE_GENERATION.fold(b"[]", "application/json", 200).error.type == "malformed_response"


def test_settings_of_a_generation_lie_in_its_parameters():
    """A list of no stop texts is none; null is absent."""
    parameters = {"temperature": 0.8, "top_k": None, "max_new_tokens": 512, "stop": [], "seed": 3}
    body = json.dumps({"inputs": "hi", "parameters": parameters, "stream": False}).encode()
    assert HUGGINGFACE_GENERATION.request_facts(body) == {
        semconv.REQUEST_TEMPERATURE: 0.8,
        semconv.REQUEST_SEED: 3,
        semconv.REQUEST_MAX_TOKENS: 512,
        semconv.REQUEST_STREAM: False,
    }
    given = HUGGINGFACE_GENERATION.request_messages(body).messages
    assert given == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]


def piece(text, reason=None):
    return {"type": "completion", "id": "compl_1", "completion": text, "stop_reason": reason, "model": "claude-2.1"}


def test_a_completion_of_anthropic_is_its_pieces_until_a_stop_reason():
    """Pings say nothing, errors end the answer, no stop reason means cut."""
    body = stream(piece(" Hi"), {"type": "ping"}, piece(" there", "stop_sequence"))
    folded = ANTHROPIC_COMPLETE.fold(body, SSE, 200)
    assert (folded.complete, folded.text, folded.finish_reason) == (True, " Hi there", "stop_sequence")
    assert (folded.model, folded.response_id, folded.problems) == ("claude-2.1", "compl_1", ())
    assert ANTHROPIC_COMPLETE.response_facts(body, SSE, 200) == {
        semconv.RESPONSE_ID: "compl_1",
        semconv.RESPONSE_MODEL: "claude-2.1",
        semconv.RESPONSE_FINISH_REASONS: ("stop_sequence",),
    }
    whole = json.dumps(piece(" Hi there", "stop_sequence")).encode()
    assert ANTHROPIC_COMPLETE.fold(whole, "application/json", 200) == folded
    assert ANTHROPIC_COMPLETE.fold(stream(piece("a")), SSE, 200).error.type == "stream_truncated"
    failed = stream(piece("a"), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert ANTHROPIC_COMPLETE.fold(failed, SSE, 200).error.type == "overloaded_error"
    assert ANTHROPIC_COMPLETE.fold(stream({"type": "hologram"}, piece("", "x")), SSE, 200).problems == (
        "unknown event type 'hologram'",
    )


def test_a_request_of_anthropics_older_api_has_one_text():
    """The prompt with all its turns is what the model was given."""
    body = b'{"model":"claude-2.1","prompt":"\\n\\nHuman: hi\\n\\nAssistant:","max_tokens_to_sample":3}'
    assert ANTHROPIC_COMPLETE.request_facts(body) == {
        semconv.REQUEST_MODEL: "claude-2.1",
        semconv.REQUEST_MAX_TOKENS: 3,
    }
    assert ANTHROPIC_COMPLETE.request_messages(body).messages[0]["parts"][0]["content"].startswith("\n\nHuman")
