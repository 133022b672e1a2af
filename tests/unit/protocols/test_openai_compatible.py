"""What providers that speak Chat Completions add to it, each by its name on the wire."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import OPENAI_CHAT


def stream(*chunks):
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def fold(*chunks):
    return OPENAI_CHAT.fold(stream(*chunks), "text/event-stream", 200)


def whole(choice, **rest):
    return OPENAI_CHAT.fold(json.dumps({"choices": [choice], **rest}).encode(), "application/json", 200)


def chunk(delta, finish=None, **rest):
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **rest}


@pytest.mark.parametrize(
    ("usage", "cached", "reasoning"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 3}}, 3, None),
        ({"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 1}, 4, None),
        ({"cached_tokens": 5}, 5, None),
        ({"num_cached_tokens": 6, "prompt_tokens_details": None}, 6, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 9}, 0, None),
        ({"reasoning_tokens": 7}, None, 7),
        ({"completion_tokens_details": {"reasoning_tokens": 8}}, None, 8),
    ],
)
def test_cached_and_reasoning_tokens_have_several_names(usage, cached, reasoning):
    """OpenAI, DeepSeek, Together, Mistral and Perplexity each name these counts otherwise."""
    counts = {"prompt_tokens": 10, "completion_tokens": 2, **usage}
    folded = fold(chunk({"content": "x"}, "stop", usage=counts))
    assert (folded.usage.cache_read_input_tokens, folded.usage.reasoning_tokens) == (cached, reasoning)
    facts = OPENAI_CHAT.response_facts(stream(chunk({}, "stop", usage=counts)), "text/event-stream", 200)
    assert facts.get(semconv.USAGE_CACHE_READ_INPUT_TOKENS) == cached
    assert facts.get(semconv.USAGE_REASONING_OUTPUT_TOKENS) == reasoning


def test_usage_of_groq_lies_in_a_member_of_its_own():
    """`x_groq.usage` counts where `usage` is absent."""
    folded = fold(chunk({"content": "x"}, "stop", x_groq={"usage": {"prompt_tokens": 4, "completion_tokens": 1}}))
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == (4, 1)


def test_a_delta_that_is_repeated_as_a_message_counts_once():
    """Writer sends every delta a second time as `message`; calls go by the index of the delta."""

    def both(index, **function):
        said = {"content": None, "tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}
        return {"choices": [{"index": 0, "delta": said, "message": said, "finish_reason": None}]}

    folded = fold(both(0, name="f", arguments="{"), both(1, name="g", arguments="[]"), both(0, arguments="}"))
    assert [(call.name, call.arguments_raw) for call in folded.tool_calls] == [("f", "{}"), ("g", "[]")]
    assert folded.problems == ()


def test_an_empty_delta_beside_a_whole_message_hides_nothing():
    """Perplexity's plain answers have a `delta` too: the message is the answer."""
    message = {"role": "assistant", "content": "Paris"}
    assert whole({"message": message, "delta": {"content": ""}, "finish_reason": "stop"}).text == "Paris"


def test_sources_are_parts_of_the_answer():
    """Perplexity repeats its sources in every chunk, OpenRouter sends each once: both are kept once, in order."""
    links = ["https://a", "https://b"]
    folded = fold(chunk({"content": "a"}, citations=links), chunk({"content": "b"}, "stop", citations=links))
    assert folded.output_messages[0]["parts"] == [
        {"type": "text", "content": "ab"},
        {"type": "citations", "citations": links},
    ]
    one, two = ({"type": "url_citation", "url_citation": {"url": url}} for url in links)
    folded = fold(chunk({"annotations": [one]}), chunk({"annotations": [one, two], "content": "x"}, "stop"))
    assert folded.output_messages[0]["parts"][-1] == {"type": "annotations", "annotations": [one, two]}
    assert folded.text == "x"


def test_parts_of_a_content_list_are_text_reasoning_or_kept():
    """Mistral streams lists: text and thinking are joined, references are kept, unknown kinds are named."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {"type": "text", "text": "m"}]}
    reference = {"type": "reference", "reference_ids": [1]}
    folded = fold(
        chunk({"content": [thought]}),
        chunk({"content": [{"type": "text", "text": "4"}, reference]}, "stop"),
    )
    assert (folded.reasoning, folded.text, folded.problems) == ("hmm", "4", ())
    assert reference in folded.output_messages[0]["parts"]
    folded = fold(chunk({"content": [{"type": "hologram"}]}, "stop"))
    assert folded.problems == ("content of choice 0 has a part of unknown type 'hologram'",)


def test_encrypted_reasoning_is_kept_beside_the_readable_one():
    """OpenRouter's `reasoning.encrypted` must be given back as it came; its text is not counted twice."""
    details = [
        {"type": "reasoning.summary", "summary": "because", "index": 0},
        {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 0},
    ]
    folded = fold(chunk({"reasoning": "because", "reasoning_details": details}), chunk({"content": "4"}, "stop"))
    assert folded.reasoning == "because"
    assert folded.output_messages[0]["parts"] == [
        {"type": "reasoning", "content": "because"},
        {"type": "text", "content": "4"},
        details[1],
    ]


def test_a_finish_reason_error_is_a_failure():
    """A stream that ends with finish reason `error` and no error object did not end well."""
    body = stream(chunk({"content": "half"}), chunk({}, "error"))
    folded = OPENAI_CHAT.fold(body, "text/event-stream", 200)
    assert (folded.complete, folded.text, folded.error.type) == (False, "half", "error")
    assert OPENAI_CHAT.response_facts(body, "text/event-stream", 200)[semconv.ERROR_TYPE] == "error"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ({"error": {"message": "no", "type": None, "code": "content_filter"}}, "content_filter", "no"),
        ({"error": {"code": "1211", "message": "no such model"}}, "1211", "no such model"),
        ({"code": "invalid", "error": "Incorrect API key"}, "http_400", "Incorrect API key"),
        ({"object": "error", "message": {"detail": [{"msg": "x"}]}, "type": "invalid"}, "invalid",
         '{"detail":[{"msg":"x"}]}'),
        ({"detail": [{"msg": "x"}]}, "http_400", '[{"msg":"x"}]'),
        ({"error": "too long", "error_type": "validation"}, "validation", "too long"),
        ({"tpe": "x", "errors": [{"description": "bad model"}]}, "http_400", '[{"description":"bad model"}]'),
    ],
)  # fmt: skip
def test_errors_of_many_shapes_have_a_type_and_a_message(body, kind, message):
    """Azure, Z.ai, xAI, Mistral, FastAPI, Hugging Face and Writer write errors their own way."""
    folded = OPENAI_CHAT.fold(json.dumps(body).encode(), "application/json", 400)
    assert (folded.error.type, folded.error.message, folded.error.http_status) == (kind, message, 400)


def test_thinking_parts_of_a_request_are_reasoning():
    """An assistant turn given back to Mistral has its thinking as reasoning and its reference as it is."""
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"}]
    body = json.dumps({"messages": [{"role": "assistant", "content": content}]}).encode()
    assert OPENAI_CHAT.request_messages(body).messages == [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "4"}]}
    ]
