"""A message of a case becomes real bytes of the provider's protocol, whole or streamed."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Call, Kind, Payload, SideEffect
from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.replay.component.case import Case, attempt_of
from otel_agent_replay.replay.component.rendered import renderer
from otel_agent_replay.replay.component.shapes import Shapes

RENDERED = [name for name in PROTOCOLS if renderer(name) is not None]
MESSAGE = {
    "text": "Naïve – order 17 \u2028 is lost.",
    "tool_calls": [
        {"name": "refund", "id": "call_a", "arguments": {"order_id": "17", "cents": 4900}},
        {"name": "mail", "id": "call_b", "arguments": {}},
    ],
    "model": "some-model",
    "input_tokens": 120,
    "output_tokens": 34,
}


def model_call(protocol, **request):
    body = json.dumps({"model": "asked-model", **request}).encode()
    return Call(
        Kind.MODEL,
        "chat",
        SideEffect.READ,
        Payload.of(body, "application/json"),
        attributes={semconv.PROTOCOL: protocol},
    )


def outcome_of(attempt, call, tmp_path):
    return Shapes(Case.of({"entry": "a:b"}, tmp_path)).outcome(attempt_of(attempt), call)


def folded(protocol, outcome):
    media_type = dict(outcome.head.headers)["content-type"]
    return PROTOCOLS[protocol].fold(outcome.result.data, media_type, outcome.head.status)


def test_the_three_protocols_of_the_sdks_are_rendered():
    """OpenAI's two and Anthropic's."""
    assert {"openai.chat_completions", "openai.responses", "anthropic.messages"} <= set(RENDERED)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("protocol", RENDERED)
def test_a_message_folds_to_itself(protocol, streamed, tmp_path):
    """Text, tool calls, model, tokens and a complete end, the same whole and streamed."""
    outcome = outcome_of({"message": MESSAGE}, model_call(protocol, stream=streamed), tmp_path)
    answer = folded(protocol, outcome)
    assert (answer.complete, answer.text, answer.problems, answer.error) == (True, MESSAGE["text"], (), None)
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("call_a", "refund", {"order_id": "17", "cents": 4900}),
        ("call_b", "mail", {}),
    ]
    assert answer.model == "some-model"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (120, 34)
    assert dict(outcome.head.headers)["content-type"] == ("text/event-stream" if streamed else "application/json")
    assert sum(chunk.size for chunk in outcome.chunks) == outcome.result.size


@pytest.mark.parametrize("protocol", RENDERED)
def test_the_model_is_the_one_that_was_asked_for_unless_the_case_says_another(protocol, tmp_path):
    """And equal messages are equal bytes."""
    first, second = (outcome_of({"message": {"text": "yes"}}, model_call(protocol), tmp_path) for _ in range(2))
    assert folded(protocol, first).model == "asked-model"
    assert first.result.digest == second.result.digest


@pytest.mark.parametrize("protocol", RENDERED)
def test_a_broken_stream_is_a_prefix_and_no_complete_answer(protocol, tmp_path):
    """The events before the break are those of the whole stream; what folds of them says that it is cut."""
    call = model_call(protocol, stream=True)
    whole = outcome_of({"message": MESSAGE}, call, tmp_path)
    broken = outcome_of({"stream_broken": {"message": MESSAGE, "after_events": 3}}, call, tmp_path)
    assert whole.result.data.startswith(broken.result.data)
    assert len(broken.chunks) == 3
    assert not folded(protocol, broken).complete
    assert broken.failure is not None


@pytest.mark.parametrize("protocol", RENDERED)
def test_a_rate_limit_is_the_providers_own_error(protocol, tmp_path):
    """Status, Retry-After and a body that the protocol folds into an error."""
    outcome = outcome_of({"rate_limited": {"retry_after": "1m30s"}}, model_call(protocol), tmp_path)
    assert outcome.head.status == 429
    assert dict(outcome.head.headers)["retry-after"] == "90"
    assert folded(protocol, outcome).error.type == "rate_limit_error"


def test_arguments_as_text_are_sent_as_they_are(tmp_path):
    """A model that sends broken JSON is a case too."""
    message = {"tool_calls": [{"name": "refund", "arguments": '{"order_id": '}]}
    answer = folded(
        "openai.chat_completions", outcome_of({"message": message}, model_call("openai.chat_completions"), tmp_path)
    )
    assert answer.tool_calls[0].arguments_raw == '{"order_id": '


def test_a_protocol_that_nobody_renders_asks_for_its_bytes(tmp_path):
    """The message is not guessed."""
    with pytest.raises(ConfigurationError, match="body_file"):
        outcome_of({"message": {"text": "x"}}, model_call("some.other"), tmp_path)
