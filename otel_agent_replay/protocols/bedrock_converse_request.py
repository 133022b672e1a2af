"""Bedrock Converse requests as messages in OpenTelemetry's form; tool inputs stay the text of the wire."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.bedrock_converse_fold import TOOL_INPUT, converse_parts
from otel_agent_replay.protocols.folded import Part, RequestMessages
from otel_agent_replay.protocols.json_text import (
    as_object,
    as_objects,
    as_text,
    has_surrogate_escape,
    mend_all,
    parse_object,
)
from otel_agent_replay.protocols.raw_arguments import turns_with_raw_arguments

_MEDIA = ("image", "document", "video", "audio")


def converse_request(body: bytes) -> RequestMessages:
    """The system text, messages and tools of a request; empty where `body` is none. Never raises."""
    request = parse_object(body)
    if request is None:
        return RequestMessages()
    if b'"toolUse"' in body:
        request["messages"] = turns_with_raw_arguments(body, "messages", ("content",), TOOL_INPUT)
    if has_surrogate_escape(body):
        request = as_object(mend_all(request))
    return RequestMessages(
        system=_parts(request.get("system")),
        messages=[
            {"role": as_text(message.get("role")) or "", "parts": _parts(message.get("content"))}
            for message in as_objects(request.get("messages"))
        ],
        tools=[_tool(tool) for tool in as_objects(as_object(request.get("toolConfig")).get("tools"))],
    )


def _parts(content: Any) -> list[Part]:
    return [part for block in as_objects(content) for part in _block_parts(block)]


def _block_parts(block: dict[str, Any]) -> list[Part]:
    kind = next((kind for kind in _MEDIA if kind in block), None)
    return converse_parts(block) if kind is None else [_media(kind, as_object(block[kind]))]


def _media(kind: str, media: dict[str, Any]) -> Part:
    source = as_object(media.get("source"))
    part: Part = {"modality": kind, "format": media.get("format")}
    if "bytes" in source:
        return {"type": "blob", **part, "content": source["bytes"]}
    location = as_object(source.get("s3Location")).get("uri")
    if location is not None:
        return {"type": "uri", **part, "uri": location}
    return {"type": kind, "content": media}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    spec = as_object(tool.get("toolSpec"))
    if not spec:
        return dict(tool)
    rest = {key: value for key, value in spec.items() if key != "inputSchema"}
    schema = spec.get("inputSchema")
    parameters = schema["json"] if isinstance(schema, dict) and "json" in schema else schema
    return {"type": "function", **rest, "parameters": parameters}
