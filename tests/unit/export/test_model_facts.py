from __future__ import annotations

import gzip
import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.export.model_facts import model_facts
from otel_agent_replay.model import (
    Call,
    Chunk,
    HttpRequestHead,
    HttpResponseHead,
    Kind,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
)

REQUEST = json.dumps({"model": "gpt-4o", "temperature": 0.5, "messages": [{"role": "user", "content": "hi"}]}).encode()
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ho"}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }
).encode()
URL = "https://api.openai.com/v1/chat/completions"


def call(body: bytes = REQUEST, headers=(), **given) -> Call:
    payload = Payload.of(body, "application/json")
    return Call(Kind.MODEL, "chat", SideEffect.READ, payload, HttpRequestHead("POST", URL, headers), **given)


def outcome(body: bytes, media_type: str = "application/json", headers=(), **given) -> Outcome:
    head = HttpResponseHead(200, "OK", headers)
    return Outcome(OutcomeStatus.OK, result=Payload.of(body, media_type), head=head, **given)


def nothing(digest: bytes) -> None:
    return None


def test_a_plain_exchange_is_read_in_full() -> None:
    """Request, answer, usage and cost of a recorded exchange become attributes."""
    facts = model_facts(call(), outcome(ANSWER), nothing, start_ns=1_764_000_000_000_000_000)
    assert facts[semconv.PROTOCOL] == "openai.chat_completions"
    assert facts[semconv.PROVIDER_NAME] == "openai"
    assert facts[semconv.REQUEST_MODEL] == "gpt-4o"
    assert facts[semconv.RESPONSE_MODEL] == "gpt-4o-2024-08-06"
    assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == (1000, 100)
    assert facts[semconv.COST_USD] == pytest.approx(1000 * 2.5e-6 + 100 * 1e-5)
    assert semconv.MALFORMED not in facts


def test_bodies_are_fetched_when_the_payload_has_only_its_digest() -> None:
    """Payloads without data are read through `bodies`; one that nobody kept adds nothing and is no error."""
    request, answer = call(), outcome(ANSWER)
    bodies = {payload.digest: payload.data for payload in (request.request, answer.result)}
    bare = Call(Kind.MODEL, "chat", SideEffect.READ, request.request.without_data(), request.head)
    bare_answer = Outcome(OutcomeStatus.OK, result=answer.result.without_data(), head=answer.head)
    assert model_facts(bare, bare_answer, bodies.get, start_ns=0)[semconv.USAGE_INPUT_TOKENS] == 1000
    assert model_facts(bare, bare_answer, nothing, start_ns=0) == {}


def test_packed_bodies_are_unpacked() -> None:
    """A gzip answer is read like a plain one; one that is not what its head says is named as malformed."""
    packed = outcome(gzip.compress(ANSWER), headers=(("Content-Encoding", "gzip"),))
    assert model_facts(call(), packed, nothing, start_ns=0)[semconv.RESPONSE_ID] == "chatcmpl-1"
    broken = outcome(b"no gzip", headers=(("content-encoding", "gzip"),))
    facts = model_facts(call(), broken, nothing, start_ns=0)
    assert facts[semconv.MALFORMED][0].startswith("content coding:")
    assert facts[semconv.REQUEST_MODEL] == "gpt-4o"


def test_a_malformed_answer_is_marked() -> None:
    """What could not be parsed is said in words, and what could be read of the exchange is kept."""
    facts = model_facts(call(), outcome(b'{"choices": [{"mess'), nothing, start_ns=0)
    assert facts[semconv.MALFORMED]
    assert facts[semconv.PROVIDER_NAME] == "openai"


def test_a_stream_tells_when_its_first_chunk_came() -> None:
    """Of a streamed answer the time to the first chunk is an attribute, in seconds."""
    body = b'data: {"id":"1","model":"gpt-4o","choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'
    streamed = outcome(body, "text/event-stream; charset=utf-8", chunks=(Chunk(len(body), 250_000_000),))
    assert model_facts(call(), streamed, nothing, start_ns=0)[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] == 0.25


def test_an_unknown_protocol_adds_nothing() -> None:
    """An exchange of no known protocol has no model facts."""
    other = Call(
        Kind.MODEL,
        "x",
        SideEffect.READ,
        Payload.of(b"{}", "application/json"),
        HttpRequestHead("POST", "http://h/other"),
    )
    assert model_facts(other, outcome(b"{}"), nothing, start_ns=0) == {}


def test_a_pending_exchange_has_its_request_facts() -> None:
    """Without an answer the request still says its model."""
    pending = Outcome(OutcomeStatus.PENDING)
    assert model_facts(call(), pending, nothing, start_ns=0)[semconv.REQUEST_MODEL] == "gpt-4o"
