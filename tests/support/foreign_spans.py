"""Spans as other instrumentations write them, made by hand, and what an import makes of them."""

from __future__ import annotations

import json
from typing import Any

from otel_agent_replay.imports.dialects import SpanFacts, facts_of
from otel_agent_replay.model import InstrumentationScope, Span
from otel_agent_replay.protocols import PROTOCOLS

TRACE = bytes(range(16))
SECOND = 10**9
START = 1_760_000_000 * SECOND


def foreign_span(
    attributes: dict[str, Any] | None = None,
    *,
    number: int = 1,
    parent: int = 0,
    name: str = "span",
    scope: str = "",
    at: float = 0,
    takes: float = 1,
    **more: Any,
) -> Span:
    """A span with those attributes; `at` and `takes` are seconds."""
    start = START + int(at * SECOND)
    return Span(
        TRACE,
        number.to_bytes(8, "big"),
        name,
        start,
        start + int(takes * SECOND),
        parent.to_bytes(8, "big") if parent else b"",
        attributes=attributes or {},
        scope=InstrumentationScope(scope),
        **more,
    )


def facts(attributes: dict[str, Any], **more: Any) -> SpanFacts:
    """What a span with those attributes says."""
    return facts_of(foreign_span(attributes, **more))


def messages_of(found: SpanFacts) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages that a model call was given, instructions first, and those that it gave."""
    protocol = PROTOCOLS[found.protocol]
    given: list[dict[str, Any]] = []
    if found.request is not None:
        request = protocol.request_messages(found.request)
        given = ([{"role": "system", "parts": request.system}] if request.system else []) + list(request.messages)
    made = () if found.result is None else protocol.fold(found.result, "application/json", 200).output_messages
    return given, list(made)


def told(message: dict[str, Any]) -> tuple[Any, ...]:
    """A message short: its role, its text, and the calls in it with their arguments as values."""
    text, calls = "", []
    for part in message["parts"]:
        if part["type"] == "text":
            text += part["content"]
        elif part["type"] == "tool_call_response":
            response = part["response"]
            text += response if isinstance(response, str) else json.dumps(response)
        elif part["type"] == "tool_call":
            calls.append((part["name"], json.loads(part["arguments"] or "{}")))
    return message["role"], text, calls


def text(role: str, content: str) -> dict[str, Any]:
    """A message of one text in OpenTelemetry's form."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}
