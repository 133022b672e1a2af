"""OpenAI Chat Completions, as OpenAI and the many compatible servers speak it."""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects, as_text
from otel_agent_replay.protocols.openai_chat_fold import ChatReducer, error_in, fold_chat
from otel_agent_replay.protocols.openai_chat_messages import chat_messages
from otel_agent_replay.protocols.openai_chat_usage import usage_in, usage_of
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.plain import object_or_error
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of
from otel_agent_replay.protocols.stream import is_stream, sse_framing
from otel_agent_replay.protocols.stream_scan import EVERYTHING, scan

# Texts of which a chunk must hold one to be worth parsing: a finish reason that is no null, usage, an error.
_MARKERS = (b'"finish_reason":"', b'"finish_reason": "', b'"usage":{', b'"usage": {', b'"error":')


def _facts_of_request(body: bytes, url: str) -> Facts:
    """On Azure the URL names the deployment, and the body not always a model."""
    return facts.with_deployment(facts_around(body, b"messages", _request_facts), url)


def _facts_of_answer(_: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    if is_stream(body, media_type):
        return _stream_facts(body, status)
    value, error_type = object_or_error(body, status)
    return _chunk_facts([value], status) if error_type is None else {semconv.ERROR_TYPE: error_type}


def _request_facts(outer: dict[str, Any]) -> Facts:
    found = facts.request_facts(outer, limits=("max_completion_tokens", "max_tokens"), stops="stop")
    found[semconv.OPENAI_API_TYPE] = "chat_completions"
    choices = as_count(outer.get("n"))
    if choices is not None and choices != 1:
        found[semconv.REQUEST_CHOICE_COUNT] = choices
    level = as_text(outer.get("reasoning_effort")) or as_text(as_object(outer.get("reasoning")).get("effort"))
    if level:
        found[semconv.REQUEST_REASONING_LEVEL] = level
    kind = facts.output_type(as_object(outer.get("response_format")).get("type"))
    if kind:
        found[semconv.OUTPUT_TYPE] = kind
    if as_text(outer.get("service_tier")):
        found[semconv.OPENAI_REQUEST_SERVICE_TIER] = outer["service_tier"]
    return found


def _stream_facts(body: bytes, status: int) -> Facts:
    for markers in (_MARKERS, EVERYTHING):
        seen = scan(body, markers)
        found = _chunk_facts([seen.first, *seen.marked], status)
        if semconv.RESPONSE_FINISH_REASONS in found:
            return found
    if not seen.done:
        found.setdefault(semconv.ERROR_TYPE, TRUNCATED)
    return found


def _chunk_facts(chunks: list[dict[str, Any]], status: int) -> Facts:
    usage = error = None
    reasons: dict[int, str] = {}
    named: dict[str, str] = {}
    for chunk in chunks:
        usage = usage_in(chunk) or usage
        if chunk.get("error"):
            error = error or error_of(chunk["error"], status)
        for key in ("id", "model", "service_tier", "system_fingerprint"):
            if key not in named and as_text(chunk.get(key)):
                named[key] = chunk[key]
        for choice in as_objects(chunk.get("choices")):
            if choice.get("finish_reason"):
                reasons[as_count(choice.get("index")) or 0] = str(choice["finish_reason"])
            error = error or error_in(choice, status)
    found = facts.response_facts(
        response_id=named.get("id"),
        model=named.get("model"),
        finish_reasons=[reasons[index] for index in sorted(reasons)],
        usage=usage_of(usage),
        error_type=error.type if error else None,
    )
    if "service_tier" in named:
        found[semconv.OPENAI_SERVICE_TIER] = named["service_tier"]
    if "system_fingerprint" in named:
        found[semconv.OPENAI_SYSTEM_FINGERPRINT] = named["system_fingerprint"]
    return found


OPENAI_CHAT = Protocol(
    name="openai.chat_completions",
    operation="chat",
    own_provider="openai",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=chat_messages,
    framing=sse_framing,
    reducer=ChatReducer,
    fold_whole=fold_chat,
)
