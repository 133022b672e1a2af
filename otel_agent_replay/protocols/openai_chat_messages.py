"""Chat Completions requests as messages in OpenTelemetry's form.

A message keeps its own turn: null content gives no text part, it never takes the text of another turn. Tool call
arguments stay the text of the wire.
"""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Message, Part, RequestMessages
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    compact,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.openai_responses_items import media_part


def chat_messages(body: bytes) -> RequestMessages:
    """The messages and tools of a request; empty where `body` is none. Never raises."""
    request = parse_object(body) or {}
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    return RequestMessages(
        messages=[chat_message(message) for message in as_objects(request.get("messages"))],
        tools=[tool_definition(tool) for tool in as_objects(request.get("tools"))]
        + [{"type": "function", **function} for function in as_objects(request.get("functions"))],
    )


def tool_definition(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool with the members of its `function` (or `custom`) beside its type, as OpenTelemetry has them."""
    kind = as_text(tool.get("type")) or "function"
    inner = tool.get(kind)
    if not isinstance(inner, dict):
        return dict(tool)
    return {**{key: value for key, value in tool.items() if key != kind}, "type": kind, **inner}


def chat_message(message: dict[str, Any]) -> Message:
    """One message of a request in OpenTelemetry's form."""
    role = as_text(message.get("role")) or ""
    parts: list[Part]
    if role in ("tool", "function"):
        call_id = message.get("tool_call_id") or message.get("name")
        parts = [{"type": "tool_call_response", "id": call_id, "response": message.get("content")}]
    else:
        parts = _reasoning(message) + _content(message.get("content"))
        if message.get("refusal"):
            parts.append({"type": "refusal", "content": message["refusal"]})
        parts.extend(_tool_call(call) for call in as_objects(message.get("tool_calls")))
        legacy = message.get("function_call")
        if isinstance(legacy, dict) and legacy.get("name"):
            parts.append({"type": "tool_call", "id": None, "name": legacy.get("name"), "arguments": _arguments(legacy)})
    named = {"name": message["name"]} if as_text(message.get("name")) else {}
    return {"role": role, "parts": parts, **named}


def _reasoning(message: dict[str, Any]) -> list[Part]:
    text = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    return [{"type": "reasoning", "content": text}] if text else []


def _content(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [_part(part) for part in as_objects(content)]


def _part(part: dict[str, Any]) -> Part:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "content": str(part.get("text") or "")}
    if kind == "thinking":
        pieces = part.get("thinking")
        texts = [piece.get("text") for piece in as_objects(pieces)] if isinstance(pieces, list) else [pieces]
        return {"type": "reasoning", "content": "".join(text for text in texts if isinstance(text, str))}
    if kind == "refusal":
        return {"type": "refusal", "content": str(part.get("refusal") or "")}
    if kind == "image_url":
        image = part.get("image_url")
        return media_part("image", image.get("url") if isinstance(image, dict) else image, None)
    if kind == "input_audio":
        audio = as_object(part.get("input_audio"))
        mime = f"audio/{audio.get('format') or 'unknown'}"
        return {"type": "blob", "modality": "audio", "mime_type": mime, "content": audio.get("data")}
    if kind == "file":
        file = as_object(part.get("file"))
        return media_part("file", file.get("file_data"), file.get("file_id"))
    return dict(part)


def _tool_call(call: dict[str, Any]) -> Part:
    body = as_object(call.get("function")) or as_object(call.get("custom"))
    return {"type": "tool_call", "id": call.get("id"), "name": body.get("name"), "arguments": _arguments(body)}


def _arguments(body: dict[str, Any]) -> str:
    value = body.get("arguments", body.get("input"))
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)
