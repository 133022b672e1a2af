"""Recorded exchanges of every provider that is neither OpenAI, Anthropic, Google nor AWS: each folds, and as indexed.

What the index of the recordings says of a file (finish reasons, models, tools, reasoning) was read from it by other
code than ours. Where a stream repeats itself at its end, the end is a second witness.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import PROTOCOLS, recognise, reduce_chunks, split_request
from otel_agent_replay.protocols.address import deployment_of
from otel_agent_replay.protocols.json_lines import JsonLines
from otel_agent_replay.protocols.stream import objects_of
from tests.support.recordings import RecordedHttpExchange, data_folder, load_exchanges

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder"),
]

APIS = frozenset(
    "alibaba azure azure-openai cerebras cohere crusoe deepseek groq huggingface mistral moonshotai ollama "
    "open-responses openai-completions openai-compatible openrouter perplexity snowflake together vllm writer xai "
    "zai local-llamacpp".split()
)
NEW = (
    "anthropic.complete",
    "huggingface.text_generation",
    "cohere.chat",
    "cohere.chat_v1",
    "ollama.chat",
    "ollama.generate",
    "openai.completions",
)
# Azure answers a prompt that its filter stopped with an error, and here with status 200.
ERROR_UNDER_200 = "openllmetry/azure-openai/test_prompt_content_filtering.yaml#0"
# Snowflake's empty `function_call` is no call.
EMPTY_CALL = "pydantic-ai/snowflake/test_snowflake_openai_model.yaml"
NO_END_MARK = "openllmetry/writer/test_writer_async_streaming_completions_legacy.yaml#0"
# Damaged on purpose, and what is said of it.
PROBLEMS = {
    NO_END_MARK: "the stream has no end mark",
    "pydantic-ai/openai-compatible/test_invalid_response.yaml#0": "the answer has no choices",
}


def _calls():
    if data_folder() is None:
        return []
    found = []
    for exchange in load_exchanges():
        if exchange.provider_api in APIS or exchange.url.endswith(("/v1/completions", "/v1/complete")):
            protocol = recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)
            if protocol is not None:
                found.append((protocol, exchange))
    return found


CALLS = _calls()
EACH = pytest.mark.parametrize(("protocol", "exchange"), CALLS, ids=[exchange.source for _, exchange in CALLS])


def index() -> dict[str, dict[str, str]]:
    with (data_folder() / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return {row["path"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def fold(protocol, exchange: RecordedHttpExchange):
    return protocol.fold(exchange.response_body, exchange.media_type, exchange.status)


def test_the_recordings_cover_what_they_shall():
    """Every API of the list has an exchange that was recognised, and every new protocol is among them."""
    assert APIS - {exchange.provider_api for _, exchange in CALLS} == set()
    counts = Counter(protocol.name for protocol, _ in CALLS)
    assert {name for name in NEW if not counts[name]} == set()
    assert counts["openai.completions"] >= 14
    assert counts["cohere.chat"] >= 8


@EACH
def test_an_answer_folds_without_a_problem(protocol, exchange):
    """Complete, or an error with a type and a message; nothing is named but what is known to be odd."""
    folded = fold(protocol, exchange)
    problem = PROBLEMS.get(exchange.source)
    assert [text for text in folded.problems if problem is None or not text.startswith(problem)] == []
    assert bool(folded.problems) == (problem is not None)
    if exchange.status >= 400:
        assert folded.error.http_status == exchange.status
        assert folded.error.message
    elif folded.error is not None and exchange.source != ERROR_UNDER_200:
        assert "error_in_stream" in index()[exchange.source.partition("#")[0]]["features"]
    json.dumps(folded.output_messages, ensure_ascii=False).encode()


def test_finish_reasons_models_and_tools_are_those_of_the_index():
    """File by file, what all its exchanges fold to is what the index says of it."""
    of_file = defaultdict(list)
    for protocol, exchange in CALLS:
        of_file[exchange.source.partition("#")[0]].append((protocol, exchange))
    rows, wrong = index(), []
    for path in sorted(of_file.keys() & rows.keys()):  # a local server's files are not in the index
        row = rows[path]
        reasons, models, called, wanted = set(), set(), False, _listed(row["finish_reasons"])
        for protocol, exchange in of_file[path]:
            folded = fold(protocol, exchange)
            reasons |= {message["finish_reason"] for message in folded.output_messages}
            models |= {folded.model, protocol.request_facts(exchange.request_body).get(semconv.REQUEST_MODEL)}
            given = protocol.request_messages(exchange.request_body).messages
            called = called or bool(folded.tool_calls) or _has_a_call(given)
        if wanted and reasons - {None} != wanted:
            wrong.append((path, reasons, wanted))
        if "tools" in _listed(row["features"]) and not called and path != EMPTY_CALL:
            wrong.append((path, "no tool call"))
        if not models & _listed(row["models"]) and row["models"]:
            wrong.append((path, models, row["models"]))
    assert wrong == []
    assert len(of_file.keys() & rows.keys()) >= 80


def _listed(text: str) -> set[str]:
    return set(filter(None, text.split(",")))


def _has_a_call(messages) -> bool:
    return any(part["type"] == "tool_call" for message in messages for part in message["parts"])


@EACH
def test_the_cheap_facts_agree_with_the_fold(protocol, exchange):
    """What the hot path reads from an answer is what its whole reduction says."""
    folded = fold(protocol, exchange)
    facts = protocol.response_facts(exchange.response_body, exchange.media_type, exchange.status)
    usage = folded.usage
    reasons = tuple(message["finish_reason"] for message in folded.output_messages if message["finish_reason"])
    assert facts.get(semconv.RESPONSE_ID) == folded.response_id
    assert facts.get(semconv.RESPONSE_MODEL) == folded.model
    assert facts.get(semconv.RESPONSE_FINISH_REASONS, ()) == reasons
    assert facts.get(semconv.USAGE_INPUT_TOKENS) == (usage and usage.input_tokens)
    assert facts.get(semconv.USAGE_OUTPUT_TOKENS) == (usage and usage.output_tokens)
    assert facts.get(semconv.ERROR_TYPE) == (folded.error and folded.error.type)


@EACH
def test_any_cutting_reduces_to_the_same(protocol, exchange):
    """Pieces of 1, 7 and 4096 bytes give the answer of the whole body."""
    body, whole = exchange.response_body, fold(protocol, exchange)
    for size in (1, 7, 4096):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        assert reduce_chunks(protocol, pieces, exchange.media_type, exchange.status) == whole


@EACH
def test_a_request_splits_reads_and_has_its_facts(protocol, exchange):
    """A recorded request is tiled by its pieces; its model and its messages are read."""
    body = exchange.request_body
    ranges = split_request(protocol.name, body)
    assert b"".join(body[start:end] for start, end, _ in ranges) == body
    request = json.loads(body)
    read = protocol.request_messages(body)
    assert read.messages or exchange.status >= 400
    assert all(message["role"] for message in read.messages)
    facts = protocol.request_facts(body, exchange.url)
    assert facts.get(semconv.REQUEST_MODEL) == (request.get("model") or deployment_of(exchange.url))
    assert (semconv.VERSION_TOOL_SCHEMA in facts) == bool(request.get("tools"))


def test_cohere_repeats_its_text_at_the_end():
    """The pieces of version 1 are the text that its last line gives."""
    body = next(exchange.response_body for protocol, exchange in CALLS if protocol.name == "cohere.chat_v1")
    events = [value for _, value in objects_of(JsonLines(), body)]
    pieces = "".join(event["text"] for event in events if event["event_type"] == "text-generation")
    assert pieces == PROTOCOLS["cohere.chat_v1"].fold(body, "application/stream+json", 200).text
    assert len(pieces) > 300


def test_ollama_counts_its_own_tokens():
    """As many pieces of text came as the end says were made, give or take the end's own."""
    for protocol, exchange in CALLS:
        if protocol.name == "ollama.generate":
            lines = [value for _, value in objects_of(JsonLines(), exchange.response_body)]
            folded = fold(protocol, exchange)
            assert abs(folded.usage.output_tokens - len(lines)) <= 1
            assert folded.text == "".join(line["response"] for line in lines)


def test_reasoning_is_found_wherever_it_was_recorded():
    """Providers with reasoning models each give theirs as reasoning, not as text and not lost."""
    found = {exchange.provider_api for protocol, exchange in CALLS if fold(protocol, exchange).reasoning}
    assert found >= {
        "cohere", "crusoe", "deepseek", "groq", "mistral", "moonshotai", "ollama", "open-responses", "openrouter",
        "snowflake", "xai", "zai",
    }  # fmt: skip
