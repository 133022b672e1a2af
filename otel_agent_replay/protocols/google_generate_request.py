"""Gemini's requests as messages in OpenTelemetry's form, and their facts; arguments stay the text of the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Part, RequestMessages
from otel_agent_replay.protocols.google_parts import google_part, with_arguments
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.protocol import Facts

_ROLES = {"model": "assistant", "function": "tool"}
_MIME_TYPES = {"application/json": "json", "text/plain": "text", "text/x.enum": "text"}


def generate_request(body: bytes) -> RequestMessages:
    """The system text, contents and tools of a request; empty where `body` is none. Never raises."""
    request = parse_object(body)
    if request is None:
        return RequestMessages()
    if b'"args"' in body and isinstance(request.get("contents"), list):
        request["contents"] = with_arguments(body, "contents", ("parts",))
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    contents = request.get("contents")
    turns = as_objects(contents if isinstance(contents, list) else [contents])
    return RequestMessages(
        system=_parts(either(request, "systemInstruction", "system_instruction")),
        messages=[
            {"role": _ROLES.get(str(turn.get("role")), as_text(turn.get("role")) or "user"), "parts": _parts(turn)}
            for turn in turns
        ],
        tools=[made for tool in as_objects(request.get("tools")) for made in _tools(tool)],
    )


def generate_facts(outer: dict[str, Any]) -> Facts:
    """The facts of a request."""
    config = as_object(either(outer, "generationConfig", "generation_config"))
    flat = {
        "temperature": config.get("temperature"),
        "top_p": either(config, "topP", "top_p"),
        "top_k": either(config, "topK", "top_k"),
        "seed": config.get("seed"),
        "frequency_penalty": either(config, "frequencyPenalty", "frequency_penalty"),
        "presence_penalty": either(config, "presencePenalty", "presence_penalty"),
        "max_tokens": either(config, "maxOutputTokens", "max_output_tokens"),
        "stop": either(config, "stopSequences", "stop_sequences"),
        "tools": outer.get("tools"),
    }
    found = facts.request_facts(flat, limits=("max_tokens",), stops="stop")
    choices = either(config, "candidateCount", "candidate_count")
    if isinstance(choices, int) and choices > 1:
        found[semconv.REQUEST_CHOICE_COUNT] = choices
    kind = _MIME_TYPES.get(str(either(config, "responseMimeType", "response_mime_type")))
    if kind:
        found[semconv.OUTPUT_TYPE] = kind
    thinking = as_object(either(config, "thinkingConfig", "thinking_config"))
    level = as_text(either(thinking, "thinkingLevel", "thinking_level"))
    if level:
        found[semconv.REQUEST_REASONING_LEVEL] = level
    return found


def either(value: dict[str, Any], camel: str, snake: str) -> Any:
    """The member in the spelling that is there: Google takes both."""
    found = value.get(camel)
    return value.get(snake) if found is None else found


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    parts = as_object(content).get("parts")
    return [google_part(part) for part in as_objects(parts if isinstance(parts, list) else [parts])]


def _tools(tool: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Functions each by itself, as OpenTelemetry has them; what Google runs itself as it is."""
    declared = either(tool, "functionDeclarations", "function_declarations")
    for function in as_objects(declared):
        made: dict[str, Any] = {"type": "function"}
        for key, value in function.items():
            made["parameters" if key in ("parametersJsonSchema", "parameters_json_schema") else key] = value
        yield made
    for key, value in tool.items():
        if key not in ("functionDeclarations", "function_declarations"):
            yield {"type": key, **({"config": value} if value else {})}
