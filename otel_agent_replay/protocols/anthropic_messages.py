"""Anthropic Messages, at Anthropic and on Vertex AI (`rawPredict`, `streamRawPredict`)."""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.anthropic_fold import MessageReducer, answering_model, fold_anthropic, usage_of
from otel_agent_replay.protocols.anthropic_request import anthropic_request
from otel_agent_replay.protocols.json_text import as_object, as_objects, as_text
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.plain import object_or_error
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of
from otel_agent_replay.protocols.stream import is_stream, sse_framing
from otel_agent_replay.protocols.stream_scan import EVERYTHING, scan

_MARKERS = tuple(
    mark
    for kind in ("message_start", "message_delta", "message_stop", "fallback", "error")
    for mark in (b'"type":"%s"' % kind.encode(), b'"type": "%s"' % kind.encode())
)


def _facts_of_request(body: bytes, url: str) -> Facts:
    """On Vertex AI the URL names the model and whether the answer streams."""
    return facts.with_address(facts_around(body, b"messages", _request_facts), url)


def _facts_of_answer(_: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    if is_stream(body, media_type):
        return _stream_facts(scan(body, _MARKERS).marked or scan(body, EVERYTHING).marked, status)
    value, error_type = object_or_error(body, status)
    if error_type is None and value.get("type") == "error":
        error_type = error_of(value.get("error"), status).type
    return _facts(value, as_objects(value.get("content")), error_type)


def _request_facts(outer: dict[str, Any]) -> Facts:
    found = facts.request_facts(outer, limits=("max_tokens",), stops="stop_sequences")
    config = as_object(outer.get("output_config"))
    if as_text(config.get("effort")):
        found[semconv.REQUEST_REASONING_LEVEL] = config["effort"]
    wanted = as_object(config.get("format")) or as_object(outer.get("output_format"))
    kind = facts.output_type(wanted.get("type"))
    if kind:
        found[semconv.OUTPUT_TYPE] = kind
    return found


def _stream_facts(events: list[dict[str, Any]], status: int) -> Facts:
    message: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    stopped, error_type = False, None
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = {**as_object(event.get("message"))}
            usage.update({key: value for key, value in as_object(message.get("usage")).items() if value is not None})
        elif kind == "message_delta":
            message.update({k: value for k, value in as_object(event.get("delta")).items() if value is not None})
            usage.update({key: value for key, value in as_object(event.get("usage")).items() if value is not None})
        elif kind == "content_block_start":
            blocks.append(as_object(event.get("content_block")))
        elif kind == "message_stop":
            stopped = True
        elif kind == "error" or "error" in event:
            error_type = error_type or error_of(event.get("error"), status).type
    if error_type is None and not stopped and not message.get("stop_reason"):
        error_type = TRUNCATED
    return _facts({**message, "usage": usage or None}, blocks, error_type)


def _facts(message: dict[str, Any], blocks: list[dict[str, Any]], error_type: str | None) -> Facts:
    reason = as_text(message.get("stop_reason"))
    return facts.response_facts(
        response_id=message.get("id"),
        model=answering_model(message.get("model"), blocks),
        finish_reasons=(reason,) if reason else (),
        usage=usage_of(message.get("usage")),
        cached_apart=True,
        error_type=error_type,
    )


ANTHROPIC_MESSAGES = Protocol(
    name="anthropic.messages",
    operation="chat",
    own_provider="anthropic",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=anthropic_request,
    framing=sse_framing,
    reducer=MessageReducer,
    fold_whole=fold_anthropic,
)
