"""Anthropic Messages requests as messages in OpenTelemetry's form; tool inputs stay the text of the wire."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.anthropic_fold import part_of, raw_inputs, written_inputs
from otel_agent_replay.protocols.folded import Part, RequestMessages
from otel_agent_replay.protocols.json_spans import elements, member
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
    text_of,
)

_MODALITIES = ("image", "document")


def anthropic_request(body: bytes) -> RequestMessages:
    """The system text, messages and tools of a request; empty where `body` is none. Never raises."""
    request = parse_object(body)
    if request is None:
        return RequestMessages()
    inputs = _inputs(body)
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    messages = []
    for index, message in enumerate(as_objects(request.get("messages"))):
        parts = _parts(message.get("content"), inputs.get(index, []))
        messages.append({"role": as_text(message.get("role")) or "", "parts": parts})
    return RequestMessages(
        system=_parts(request.get("system"), []),
        messages=messages,
        tools=[_tool(tool) for tool in as_objects(request.get("tools"))],
    )


def _inputs(body: bytes) -> dict[int, list[str]]:
    """For each message, counted among the objects of `messages`: the text of every block's `input`."""
    if b'"input"' not in body:
        return {}
    text = text_of(body)
    try:
        messages = member(text, 0, "messages")
        if messages is None or not isinstance(messages.value, list):
            return {}
        objects = [span for span in elements(text, messages.start) if isinstance(span.value, dict)]
    except ValueError:
        return {}
    return {
        index: raw_inputs(text, span.start)
        for index, span in enumerate(objects)
        if '"input"' in text[span.start : span.end]
    }


def _parts(content: Any, inputs: list[str]) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    blocks = as_objects(content)
    if len(inputs) != len(blocks):
        inputs = written_inputs(blocks)
    return [_part(block, raw) for block, raw in zip(blocks, inputs, strict=True)]


def _part(block: dict[str, Any], raw_input: str) -> Part:
    kind = block.get("type")
    if kind == "tool_result":
        part = {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}
        return part | ({"is_error": True} if block.get("is_error") else {})
    if kind in _MODALITIES:
        return _media(str(kind), as_object(block.get("source")), block)
    return part_of(block, raw_input)


def _media(modality: str, source: dict[str, Any], block: dict[str, Any]) -> Part:
    kind = source.get("type")
    if kind == "base64":
        mime = source.get("media_type")
        return {"type": "blob", "modality": modality, "mime_type": mime, "content": source.get("data")}
    if kind == "url":
        return {"type": "uri", "modality": modality, "uri": source.get("url")}
    if kind == "file":
        return {"type": "file", "modality": modality, "file_id": source.get("file_id")}
    return dict(block)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if "input_schema" not in tool:
        return dict(tool)
    rest = {key: value for key, value in tool.items() if key not in ("input_schema", "type")}
    return {"type": "function", **rest, "parameters": tool["input_schema"]}
