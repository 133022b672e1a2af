"""The steps of an interaction, in answers and in inputs, as parts in OpenTelemetry's form."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Part
from otel_agent_replay.protocols.google_parts import arguments_text
from otel_agent_replay.protocols.json_text import as_objects

_MEDIA = ("image", "audio", "video", "document")


def step_parts(step: dict[str, Any]) -> list[Part]:
    """A step (or an older API's content) as parts; what has no form there stays as it is."""
    kind = step.get("type")
    if kind in ("thought", "model_output", "user_input", None):
        parts = [_thought(step)] if kind == "thought" else []
        return parts + contents(step.get("content"))
    return contents([step])


def contents(content: Any) -> list[Part]:
    """A content, which is one text or several objects, as parts."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    return [_part(item) for item in as_objects(content if isinstance(content, list) else [content])]


def _part(item: dict[str, Any]) -> Part:
    kind = str(item.get("type"))
    if kind == "text":
        annotated = {"annotations": item["annotations"]} if item.get("annotations") else {}
        return {"type": "text", "content": str(item.get("text") or ""), **annotated}
    if kind == "thought":
        return _thought(item)
    if kind in _MEDIA:
        return _media(kind, item)
    if kind == "function_result":
        part: Part = {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("result")}
        return part | {"name": item.get("name")} | ({"is_error": True} if item.get("is_error") else {})
    if kind == "function_call" or kind.endswith("_call"):
        named = "tool_call" if kind == "function_call" else "server_tool_call"
        name = item.get("name") or (None if kind == "function_call" else kind.removesuffix("_call"))
        arguments = arguments_text(item.get("arguments"))
        made: Part = {"type": named, "id": item.get("id"), "name": name, "arguments": arguments}
        return made | ({"signature": item["signature"]} if item.get("signature") else {})
    if kind.endswith("_result"):
        response = {"id": item.get("call_id"), "response": item.get("result")}
        return {"type": "server_tool_call_response", "name": item.get("name") or kind, **response}
    return dict(item)


def _thought(step: dict[str, Any]) -> Part:
    summary = step.get("summary")
    texts = [str(item.get("text") or "") for item in as_objects(summary)]
    text = summary if isinstance(summary, str) else "".join(texts)
    return {"type": "reasoning", "content": text, **({"signature": step["signature"]} if step.get("signature") else {})}


def _media(kind: str, item: dict[str, Any]) -> Part:
    about = {"modality": kind, "mime_type": item.get("mime_type")}
    if item.get("data") is not None:
        return {"type": "blob", **about, "content": item["data"]}
    return {"type": "uri", **about, "uri": item.get("uri")}
