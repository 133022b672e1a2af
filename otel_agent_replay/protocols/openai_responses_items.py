"""Items of the OpenAI Responses API (they are both its input and its output) as parts of messages.

An item ending in `_call` is the model asking for something. Whether the agent or the provider answers it decides
between a tool call and a server tool call: the agent does when the item has a `call_id` and no answer beside it.
"""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Part, ToolCall
from otel_agent_replay.protocols.json_text import as_object, as_objects, as_text, check_arguments, compact

_ARGUMENT_FIELDS = ("arguments", "input", "action", "operation")
_TEXT_TYPES = ("output_text", "input_text", "text", "summary_text", "reasoning_text")


def is_tool_call(item: dict[str, Any], answered: frozenset[str]) -> bool:
    """Whether the agent must answer `item`. `answered` are the call ids the provider answered in the same output."""
    kind = str(item.get("type") or "")
    if kind in ("function_call", "custom_tool_call"):
        return True
    return (
        kind.endswith("_call")
        and as_text(item.get("call_id")) is not None
        and item.get("call_id") not in answered
        and item.get("execution") != "server"
    )


def answered_ids(items: list[dict[str, Any]]) -> frozenset[str]:
    """The call ids that have an output item among `items`."""
    return frozenset(
        str(item["call_id"]) for item in items if str(item.get("type")).endswith("_output") and item.get("call_id")
    )


def tool_call(item: dict[str, Any], problems: list[str]) -> ToolCall:
    """The call that `item` asks for. Action objects, which have no text on the wire, are written compactly."""
    raw = arguments_text(item)
    valid, oddity = check_arguments(raw)
    call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
    if oddity:
        problems.append(f"arguments of tool call {call_id!r} have {oddity}")
    return ToolCall(call_id, _name(item), raw, valid)


def arguments_text(item: dict[str, Any]) -> str:
    """The arguments as text."""
    for field in _ARGUMENT_FIELDS:
        value = item.get(field)
        if isinstance(value, str):
            return value
        if value is not None:
            return compact(value)
    return ""


def parts_of(item: dict[str, Any], answered: frozenset[str] = frozenset()) -> list[Part]:
    """The parts that `item` stands for; an item of unknown type is one part, as it is."""
    kind = str(item.get("type") or ("message" if "role" in item else ""))
    if kind == "message":
        content = item.get("content")
        if isinstance(content, str):
            return [{"type": "text", "content": content}]
        return [content_part(part) for part in as_objects(content)]
    if kind == "reasoning":
        return [_reasoning(item)]
    if kind.endswith("_output"):
        call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
        return [{"type": "tool_call_response", "id": call_id, "response": item.get("output", item.get("tools"))}]
    if kind.endswith("_call"):
        mine = is_tool_call(item, answered)
        part = {"type": "tool_call" if mine else "server_tool_call", "id": item.get("call_id") or item.get("id")}
        return [{**part, "name": _name(item), "arguments": arguments_text(item), **_answer_inside(item)}]
    return [dict(item)]


def role_of(item: dict[str, Any]) -> str:
    """Who speaks in `item`: its role, `tool` for an output, else `assistant`."""
    kind = str(item.get("type") or "")
    return as_text(item.get("role")) or ("tool" if kind.endswith("_output") else "assistant")


def content_part(part: dict[str, Any]) -> Part:
    """A part of a message's content in OpenTelemetry's form."""
    kind = part.get("type")
    if kind in _TEXT_TYPES:
        return {"type": "text", "content": str(part.get("text") or "")}
    if kind == "refusal":
        return {"type": "refusal", "content": str(part.get("refusal") or "")}
    if kind == "input_image":
        return media_part("image", part.get("image_url"), part.get("file_id"))
    if kind == "input_file":
        return media_part("file", part.get("file_data") or part.get("file_url"), part.get("file_id"))
    if kind == "input_audio":
        audio = as_object(part.get("input_audio"))
        mime = f"audio/{audio.get('format') or 'unknown'}"
        return {"type": "blob", "modality": "audio", "mime_type": mime, "content": audio.get("data")}
    return dict(part)


def media_part(modality: str, url: Any, file_id: Any) -> Part:
    """A blob for a data URL, a uri for another one, a file for an id."""
    address = as_text(url)
    if address is None:
        return {"type": "file", "modality": modality, "file_id": file_id}
    if address.startswith("data:") and ";base64," in address:
        mime, _, content = address[5:].partition(";base64,")
        return {"type": "blob", "modality": modality, "mime_type": mime, "content": content}
    return {"type": "uri", "modality": modality, "uri": address}


def reasoning_text(item: dict[str, Any]) -> str:
    """The readable reasoning of a reasoning item: its own text, else its summary."""
    return _texts(item.get("content")) or _texts(item.get("summary"))


def _reasoning(item: dict[str, Any]) -> Part:
    part: Part = {"type": "reasoning", "content": reasoning_text(item)}
    return part | {key: item[key] for key in ("id", "encrypted_content") if item.get(key)}


def _texts(parts: Any) -> str:
    return "\n\n".join(str(part["text"]) for part in as_objects(parts) if part.get("text"))


def _name(item: dict[str, Any]) -> str:
    return as_text(item.get("name")) or str(item.get("type") or "").removesuffix("_call")


def _answer_inside(item: dict[str, Any]) -> dict[str, Any]:
    kept = ("status", "output", "outputs", "results", "result", "error", "code", "queries", "server_label")
    return {key: item[key] for key in kept if item.get(key) is not None}
