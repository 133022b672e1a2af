"""The tools that a model was offered, in whatever form -> OpenTelemetry's form. Pure."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.json_text import as_object, parse
from otel_agent_replay.protocols.openai_chat_messages import tool_definition

_SCHEMAS = ("inputSchema", "input_schema", "parameters_json_schema", "parametersJsonSchema")
_DECLARED = ("functionDeclarations", "function_declarations")


def tools_in(value: Any) -> list[dict[str, Any]]:
    """The definitions in a list of objects or of JSON texts, or in an object of them by name."""
    if isinstance(value, str):
        value = parse(value)
    if isinstance(value, dict):
        value = list(value.values()) if all(isinstance(item, dict) for item in value.values()) else [value]
    if not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        tool = parse(item) if isinstance(item, str) else item
        if isinstance(tool, dict):
            found += _definitions(tool)
    return found


def is_definition(value: dict[str, Any]) -> bool:
    """Whether an object is a tool as OpenAI has them."""
    return value.get("type") == "function" and isinstance(value.get("function"), dict)


def _definitions(tool: dict[str, Any]) -> list[dict[str, Any]]:
    inner = as_object(tool.get("tool"))
    if inner and len(tool) == 1:
        schema = inner.get("json_schema")
        return tools_in([schema]) if schema is not None else [_named(inner)]
    declared = next((tool[name] for name in _DECLARED if isinstance(tool.get(name), list)), None)
    if declared is not None:
        return tools_in(declared)
    return [_named(tool_definition(tool))]


def _named(tool: dict[str, Any]) -> dict[str, Any]:
    """The definition with its schema under `parameters`."""
    return {"type": "function", **{("parameters" if key in _SCHEMAS else key): item for key, item in tool.items()}}
