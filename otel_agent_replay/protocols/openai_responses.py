"""The OpenAI Responses API."""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Message, RequestMessages
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.openai_chat_messages import tool_definition
from otel_agent_replay.protocols.openai_responses_fold import ResponseReducer, finish_reason, fold_responses, usage_of
from otel_agent_replay.protocols.openai_responses_items import parts_of, role_of
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.plain import object_or_error
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of
from otel_agent_replay.protocols.stream import is_stream, sse_framing
from otel_agent_replay.protocols.stream_scan import EVERYTHING, Scan, scan

_MARKERS = tuple(
    mark
    for kind in ("response.completed", "response.incomplete", "response.failed", "response.done", "error")
    for mark in (b'"type":"%s"' % kind.encode(), b'"type": "%s"' % kind.encode())
)


def _facts_of_request(body: bytes, url: str) -> Facts:
    del url
    return facts_around(body, b"input", _request_facts)


def _facts_of_answer(_: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    if is_stream(body, media_type):
        seen = scan(body, _MARKERS)
        return _stream_facts(seen if seen.marked else scan(body, EVERYTHING), status)
    value, error_type = object_or_error(body, status)
    return _facts(value, status) if error_type is None else {semconv.ERROR_TYPE: error_type}


def _request_messages(body: bytes) -> RequestMessages:
    request = parse_object(body) or {}
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    instructions = as_text(request.get("instructions"))
    return RequestMessages(
        system=[{"type": "text", "content": instructions}] if instructions else [],
        messages=_messages(request.get("input")),
        tools=[tool_definition(tool) for tool in as_objects(request.get("tools"))],
    )


def _request_facts(outer: dict[str, Any]) -> Facts:
    found = facts.request_facts(outer, limits=("max_output_tokens",), stops="stop")
    found[semconv.OPENAI_API_TYPE] = "responses"
    conversation = outer.get("conversation")
    texts = {
        semconv.REQUEST_REASONING_LEVEL: as_object(outer.get("reasoning")).get("effort"),
        semconv.REQUEST_PREVIOUS_RESPONSE_ID: outer.get("previous_response_id"),
        semconv.CONVERSATION_ID: conversation.get("id") if isinstance(conversation, dict) else conversation,
        semconv.OUTPUT_TYPE: facts.output_type(as_object(as_object(outer.get("text")).get("format")).get("type")),
        semconv.OPENAI_REQUEST_SERVICE_TIER: outer.get("service_tier"),
    }
    found.update({key: value for key, value in texts.items() if as_text(value)})
    return found


def _stream_facts(seen: Scan, status: int) -> Facts:
    response = as_object(seen.first.get("response"))
    error = None
    for event in seen.marked:
        if isinstance(event.get("response"), dict):
            response = event["response"]
        elif event.get("type") == "error":
            error = error or error_of(as_object(event.get("error")) or {**event, "type": None}, status)
    found = _facts(response, status)
    if error is not None:
        found[semconv.ERROR_TYPE] = error.type
    elif finish_reason(response) is None:
        found[semconv.ERROR_TYPE] = TRUNCATED
    return found


def _facts(response: dict[str, Any], status: int) -> Facts:
    reason = finish_reason(response)
    found = facts.response_facts(
        response_id=response.get("id"),
        model=response.get("model"),
        finish_reasons=(reason,) if reason else (),
        usage=usage_of(response.get("usage")),
        error_type=error_of(response["error"], status).type if response.get("error") else None,
    )
    if as_text(response.get("service_tier")):
        found[semconv.OPENAI_SERVICE_TIER] = response["service_tier"]
    return found


def _messages(given: Any) -> list[Message]:
    if isinstance(given, str):
        return [{"role": "user", "parts": [{"type": "text", "content": given}]}]
    return [{"role": role_of(item), "parts": parts_of(item)} for item in as_objects(given)]


OPENAI_RESPONSES = Protocol(
    name="openai.responses",
    operation="chat",
    own_provider="openai",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=_request_messages,
    framing=sse_framing,
    reducer=ResponseReducer,
    fold_whole=fold_responses,
)
