"""One part of a message, in whatever form an SDK or an instrumentation wrote it -> OpenTelemetry's form. Pure.

The forms of provider protocols are read by `protocols`; what is here is what stands beside them: LangChain, the Vercel
AI SDK, OpenInference and the convention itself, in its older spellings too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from otel_agent_replay.protocols.folded import Part
from otel_agent_replay.protocols.google_parts import google_part, is_known
from otel_agent_replay.protocols.json_text import as_object, as_text, compact
from otel_agent_replay.protocols.openai_responses_items import content_part, media_part

_TEXTS: Final = frozenset(("text", "input_text", "output_text", "summary_text"))
_WRAPPERS: Final = ("message_content", "tool_call", "content")
_OF_CONVENTION: Final = frozenset(
    ("tool_call", "tool_call_response", "server_tool_call", "server_tool_call_response", "reasoning", "compaction",
     "blob", "file", "uri", "refusal")
)  # fmt: skip


def text_part(content: str) -> Part:
    """A part of text."""
    return {"type": "text", "content": content}


def call_part(call_id: Any, name: Any, arguments: Any) -> Part:
    """A call of a tool. Arguments that came as text stay that text; a name that is none is empty."""
    written = arguments if isinstance(arguments, str) else "" if arguments is None else compact(arguments)
    return {"type": "tool_call", "id": as_text(call_id), "name": as_text(name) or "", "arguments": written}


def response_part(call_id: Any, response: Any) -> Part:
    """What a tool answered."""
    return {"type": "tool_call_response", "id": as_text(call_id), "response": response}


def tool_call(value: dict[str, Any]) -> Part | None:
    """A call as a list of calls holds it: OpenAI's, LangChain's, OpenInference's or Vercel's form. None: it is none."""
    value = as_object(value.get("tool_call")) or value
    call_id = value.get("id") or value.get("toolCallId") or value.get("call_id") or value.get("tool_call_id")
    inner = as_object(value.get("function")) or as_object(value.get("custom")) or as_object(value.get("functionCall"))
    holder = inner or value
    name = as_text(holder.get("name")) or as_text(holder.get("toolName"))
    if name is None:
        return None
    arguments = next((holder[key] for key in ("arguments", "args", "input", "parameters") if key in holder), None)
    return call_part(call_id, name, arguments)


def part_of(value: Any) -> Part:
    """A part; one of no known form is kept as it is, under its own type."""
    if isinstance(value, str):
        return text_part(value)
    if not isinstance(value, dict):
        return text_part(compact(value))
    for wrapper in _WRAPPERS:
        if len(value) == 1 and isinstance(value.get(wrapper), dict):
            return part_of(value[wrapper])
    kind = value.get("type")
    if not isinstance(kind, str):
        return google_part(value) if is_known(value) else _untyped(value)
    if kind in _TEXTS:
        return text_part(str(value.get("text", value.get("content")) or ""))
    if kind in _OF_CONVENTION:
        return _of_convention(kind, value)
    read = _READERS.get(kind)
    return read(value) if read is not None else content_part(value)


def _untyped(value: dict[str, Any]) -> Part:
    call = tool_call(value)
    if call is not None:
        return call
    text = as_text(value.get("text")) or as_text(value.get("content"))
    return text_part(text) if text is not None else {"type": "object", "content": value}


def _of_convention(kind: str, value: dict[str, Any]) -> Part:
    if kind == "tool_call_response" and "response" not in value and "result" in value:
        return {("response" if key == "result" else key): item for key, item in value.items()}
    if kind == "tool_call" and not isinstance(value.get("arguments"), str):
        return {**value, **call_part(value.get("id"), value.get("name"), value.get("arguments"))}
    if kind == "refusal" and "content" not in value:
        return {"type": kind, "content": str(value.get("refusal") or "")}
    if kind == "file" and isinstance(value.get("file"), dict):
        file = value["file"]
        return media_part("file", file.get("file_data"), file.get("file_id"))
    return dict(value)


def _anthropic_call(value: dict[str, Any]) -> Part:
    return call_part(value.get("id"), value.get("name"), value.get("input"))


def _anthropic_result(value: dict[str, Any]) -> Part:
    return response_part(value.get("tool_use_id"), value.get("content"))


def _thinking(value: dict[str, Any]) -> Part:
    return {"type": "reasoning", "content": str(value.get("thinking") or value.get("text") or "")}


def _vercel_call(value: dict[str, Any]) -> Part:
    return call_part(value.get("toolCallId"), value.get("toolName"), value.get("input", value.get("args")))


def _vercel_result(value: dict[str, Any]) -> Part:
    output = value.get("output", value.get("result"))
    if isinstance(output, dict) and set(output) == {"type", "value"}:  # version 5 says of what type a result is
        output = output["value"]
    return response_part(value.get("toolCallId"), output)


def _image(value: dict[str, Any]) -> Part:
    image = value.get("image_url", value.get("image"))
    if isinstance(image, dict) and isinstance(image.get("image"), dict):
        image = image["image"]
    if isinstance(image, dict):
        image = image.get("url")
    source = as_object(value.get("source"))
    if source.get("type") == "base64":
        mime = source.get("media_type")
        return {"type": "blob", "modality": "image", "mime_type": mime, "content": source.get("data")}
    return media_part("image", image or source.get("url"), value.get("file_id"))


_READERS: Final[dict[str, Callable[[dict[str, Any]], Part]]] = {
    "tool_use": _anthropic_call,
    "tool_result": _anthropic_result,
    "thinking": _thinking,
    "redacted_thinking": dict,
    "tool-call": _vercel_call,
    "tool-result": _vercel_result,
    "image": _image,
    "image_url": _image,
    "function_call": lambda value: call_part(value.get("call_id"), value.get("name"), value.get("arguments")),
    "function_result": lambda value: response_part(value.get("call_id"), value.get("result")),
}
"""Type of a part -> what reads it, where its name tells it apart."""
