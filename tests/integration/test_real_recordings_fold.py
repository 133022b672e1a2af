"""Every recorded OpenAI and Anthropic exchange folds, and folds to what the provider's own client reads from it.

The official clients are the oracle: they are given the recorded bytes over a mock transport.
"""

from __future__ import annotations

import json
import warnings

import anthropic
import httpx2
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from otel_agent_replay import semconv
from otel_agent_replay.protocols import events_of, recognise, split_request
from otel_agent_replay.protocols.json_text import parse_object
from tests.support.recordings import RecordedHttpExchange, data_folder, load_exchanges

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder"),
]

EXCHANGES = list(load_exchanges({"openai", "anthropic"})) if data_folder() else []
RECOGNISED = [
    (protocol, exchange)
    for exchange in EXCHANGES
    if (protocol := recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body))
]
# Those whose provider has a client here; the others are in `test_real_other_protocols`.
THREE = ("openai.chat_completions", "openai.responses", "anthropic.messages")
MODEL_CALLS = [call for call in RECOGNISED if call[0].name in THREE]
EACH = pytest.mark.parametrize(("protocol", "exchange"), MODEL_CALLS, ids=[call[1].source for call in MODEL_CALLS])
# Endings of paths that are no model calls, in the recordings of the same providers.
OTHER_PROTOCOLS = ("/ingest", "/files", "/vector_stores")

# Recorded or made to be wrong; what each must be reported as.
DAMAGED = {
    "vercel-ai/anthropic/duplicate-message-start.chunks.txt": "message_start came again",
    "vercel-ai/anthropic/spliced-message-start.chunks.txt": "message_start came again",
    "vercel-ai/openai/responses-parallel-tool-call-wrapper.1.chunks.txt": "is no JSON object",
    "pydantic-ai/openai-compatible/test_invalid_response.yaml#0": "the answer has no choices",
}
# Answers that the official client itself cannot read: no delta, null content, no index, no choices, broken JSON.
CLIENT_FAILS = {
    "dd-trace-py/azure-openai/azure_chat_completion_streamed.yaml#0",
    "openllmetry/azure-openai/test_chat_content_filtering.yaml#0",
    "openllmetry/azure-openai/test_prompt_content_filtering.yaml#0",
    "openinference/mistral/test_synchronous_streaming_chat_completions_with_tool_call_response_emits_expected_spans_True.yaml#0",
    "vercel-ai/mistral/mistral-reasoning.chunks.txt",
    "vercel-ai/mistral/mistral-tool-call.chunks.txt",
    "vercel-ai/openai/responses-parallel-tool-call-wrapper.1.chunks.txt",
    "pydantic-ai/openai-compatible/test_invalid_response.yaml#0",
    "logfire/openrouter/test_openrouter_streaming_reasoning.yaml#0",
    "pydantic-ai/openrouter/test_openrouter_web_search_annotations_stream.yaml#0",
    # Writer leaves the type of a call out of all its fragments but the first.
    "openllmetry/writer/test_writer_async_streaming_chat_multiple_tool_call_requests_legacy.yaml#0",
    # The client adds the second message's blocks to the first one's.
    "vercel-ai/anthropic/spliced-message-start.chunks.txt",
}


def fold(protocol, exchange: RecordedHttpExchange):
    return protocol.fold(exchange.response_body, exchange.media_type, exchange.status)


def test_nearly_every_exchange_is_a_known_protocol():
    """All three protocols are there in number; what is not recognised is named below, so a miss would be seen."""
    assert {name: sum(call[0].name == name for call in MODEL_CALLS) >= 80 for name in THREE} == dict.fromkeys(
        THREE, True
    )
    recognised = {call[1].source for call in RECOGNISED}
    missed = {
        exchange.path for exchange in EXCHANGES if exchange.source not in recognised and exchange.method == "POST"
    }
    assert [path for path in missed if not path.endswith(OTHER_PROTOCOLS)] == []


@EACH
def test_an_exchange_folds(protocol, exchange):
    """An answer is complete or says why not, holds something, and names a problem only where it is damaged."""
    folded = fold(protocol, exchange)
    assert folded.complete == (folded.error is None and "the answer has no choices" not in folded.problems)
    if exchange.status >= 400:
        assert folded.error.http_status == exchange.status
        assert folded.error.message
    problem = DAMAGED.get(exchange.source)
    assert [text for text in folded.problems if problem is None or problem not in text] == []
    assert bool(folded.problems) == (problem is not None)
    json.dumps(folded.output_messages, ensure_ascii=False).encode()


@EACH
def test_the_cheap_facts_agree_with_the_fold(protocol, exchange):
    """What the hot path reads from an answer is what its whole reduction says."""
    folded = fold(protocol, exchange)
    facts = protocol.response_facts(exchange.response_body, exchange.media_type, exchange.status)
    reasons = tuple(message["finish_reason"] for message in folded.output_messages if message["finish_reason"])
    usage = folded.usage
    assert facts.get(semconv.RESPONSE_ID) == folded.response_id
    assert facts.get(semconv.RESPONSE_MODEL) == folded.model
    assert facts.get(semconv.RESPONSE_FINISH_REASONS, ()) == reasons
    assert facts.get(semconv.USAGE_OUTPUT_TOKENS) == (usage and usage.output_tokens)
    assert facts.get(semconv.USAGE_CACHE_READ_INPUT_TOKENS) == (usage and usage.cache_read_input_tokens)
    assert facts.get(semconv.ERROR_TYPE) == (folded.error and folded.error.type)


@EACH
def test_any_cutting_of_a_recorded_stream_gives_the_same_events(protocol, exchange):
    """Recorded bodies cut into pieces of 1 and of 7 bytes give the events of the whole body."""
    body = exchange.response_body[:20_000]
    whole = list(events_of(body))
    for size in (1, 7):
        assert list(events_of(body[at : at + size] for at in range(0, len(body), size))) == whole


@EACH
def test_a_request_splits_reads_and_has_its_facts(protocol, exchange):
    """A recorded request is tiled by its pieces; messages, model and tools are read, however large it is."""
    body = exchange.request_body
    request = parse_object(body)
    ranges = split_request(protocol.name, body)
    assert b"".join(body[start:end] for start, end, _ in ranges) == body
    read = protocol.request_messages(body)
    turns = request.get("messages", request.get("input"))
    if isinstance(turns, list):
        assert len(read.messages) == len(turns)
    assert all(message["parts"] is not None and message["role"] for message in read.messages)
    facts = protocol.request_facts(body)
    assert facts.get(semconv.REQUEST_MODEL) == (request.get("model") or None)
    assert (semconv.VERSION_TOOL_SCHEMA in facts) == bool(request.get("tools"))


READABLE = [call for call in MODEL_CALLS if call[1].status < 400 and call[1].source not in CLIENT_FAILS]


@pytest.mark.parametrize(("protocol", "exchange"), READABLE, ids=[call[1].source for call in READABLE])
def test_the_providers_own_client_reads_the_same(protocol, exchange):
    """Text, tool calls, finish reason and usage are those that the official client reads from the same bytes."""
    folded = fold(protocol, exchange)
    client = httpx2.Client(transport=httpx2.MockTransport(lambda _request: _answer(exchange)))
    read = {"anthropic.messages": _anthropic, "openai.responses": _responses}.get(protocol.name, _chat)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text, calls, reason, output_tokens = read(client, streamed=exchange.response_body.lstrip()[:1] != b"{")
    except openai.APIError as error:
        assert folded.error is not None, error
        assert folded.error.message in str(error)
        return
    assert folded.text == text
    known = {call.id: (call.name, call.arguments) for call in folded.tool_calls}
    assert {call_id: (name, _json(arguments)) for call_id, name, arguments in calls} == {
        call_id: value for call_id, value in known.items() if call_id in {call[0] for call in calls}
    }
    assert reason is None or folded.finish_reason == reason
    assert output_tokens is None or folded.usage.output_tokens == output_tokens


def _answer(exchange: RecordedHttpExchange) -> httpx2.Response:
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(key, value) for key, value in exchange.response_headers if key.lower() not in dropped]
    return httpx2.Response(exchange.status, headers=headers, content=exchange.response_body)


def _json(arguments):
    """Arguments as values, as `ToolCall.arguments` gives them: none is `{}`, text that is no JSON is None."""
    if isinstance(arguments, dict):
        return arguments
    if not arguments:
        return {}
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def _chat(transport, *, streamed):
    client = openai.OpenAI(api_key="none", max_retries=0, http_client=transport)
    if streamed:
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            state.handle_chunk(chunk)
        answer = state.current_completion_snapshot
    else:
        answer = client.chat.completions.create(model="m", messages=[])
    choice = answer.choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    tokens = answer.usage.completion_tokens if answer.usage else None
    return choice.message.content or "", calls, choice.finish_reason, tokens


def _responses(transport, *, streamed):
    client = openai.OpenAI(api_key="none", max_retries=0, http_client=transport)
    if streamed:
        response = None
        for event in client.responses.create(model="m", input="x", stream=True):
            response = getattr(event, "response", None) or response
    else:
        response = client.responses.create(model="m", input="x")
    calls = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
    return response.output_text, calls, None, response.usage.output_tokens if response.usage else None


def _anthropic(transport, *, streamed):
    client = anthropic.Anthropic(api_key="none", max_retries=0, http_client=transport)
    if streamed:
        with client.messages.stream(model="m", max_tokens=1, messages=[]) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(model="m", max_tokens=1, messages=[])
    text = "".join(block.text for block in message.content if block.type == "text")
    # A call that was cut has arguments that the client completes by guessing; those are not compared.
    cut = message.stop_reason == "max_tokens"
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use" and not cut]
    return text, calls, message.stop_reason, message.usage.output_tokens
