"""The parts of Gemini's contents, in answers and requests, in OpenTelemetry's form.

Google's APIs take names in camel case and in snake case alike; clients send both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_agent_replay.protocols.folded import Part
from otel_agent_replay.protocols.json_text import as_object, compact
from otel_agent_replay.protocols.raw_arguments import turns_with_raw_arguments

_KINDS = (
    "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult",
)  # fmt: skip
_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "thoughtSignature": "thought_signature",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
}
CODE_EXECUTION = "code_execution"


def named(value: Mapping[str, Any], name: str) -> Any:
    """The member of that name in either spelling, None where there is none."""
    found = value.get(name)
    return value.get(_SNAKE.get(name, name)) if found is None else found


def google_part(part: dict[str, Any]) -> Part:
    """A part in OpenTelemetry's form; what has none there is named by its member. Arguments may be a text."""
    signature = named(part, "thoughtSignature")
    made = _part(part)
    return made | ({"signature": signature} if signature and "signature" not in made else {})


def _part(part: dict[str, Any]) -> Part:
    if isinstance(part.get("text"), str):
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    kind = next((kind for kind in _KINDS if isinstance(named(part, kind), dict)), None)
    inner = as_object(named(part, kind)) if kind else {}
    if kind == "functionCall":
        arguments = arguments_text(inner.get("args"))
        return {"type": "tool_call", "id": inner.get("id"), "name": inner.get("name"), "arguments": arguments}
    if kind == "functionResponse":
        answered = {"type": "tool_call_response", "id": inner.get("id"), "response": inner.get("response")}
        return answered | {"name": inner.get("name")}
    if kind in ("inlineData", "fileData"):
        mime = named(inner, "mimeType")
        about = {"modality": str(mime or "file").partition("/")[0], "mime_type": mime}
        if kind == "inlineData":
            return {"type": "blob", **about, "content": inner.get("data")}
        return {"type": "uri", **about, "uri": named(inner, "fileUri")}
    if kind == "executableCode":
        code = {key: value for key, value in inner.items() if key != "id"}
        call = {"type": "server_tool_call", "id": inner.get("id"), "name": CODE_EXECUTION}
        return call | {"arguments": compact(code)}
    if kind == "codeExecutionResult":
        result = {key: value for key, value in inner.items() if key != "id"}
        return {"type": "server_tool_call_response", "id": inner.get("id"), "name": CODE_EXECUTION, "response": result}
    unknown = next((key for key in part if not key.startswith("thought")), "empty")
    return {"type": unknown, "content": part.get(unknown)}


def is_known(part: Mapping[str, Any]) -> bool:
    """Whether a part is of a kind that has a form of its own."""
    return isinstance(part.get("text"), str) or any(isinstance(named(part, kind), dict) for kind in _KINDS)


def arguments_text(arguments: Any) -> str:
    """Arguments as text: that of the wire where it was kept, written anew where not, empty where there are none."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else compact(arguments)


def with_arguments(body: bytes, array: str, parts: tuple[str, ...]) -> list[dict[str, Any]]:
    """The objects of the array `array` of `body`, with the arguments of their calls as the text of the wire.

    `parts` leads from one of them to its parts.
    """
    call = "function_call" if b'"function_call"' in body else "functionCall"
    return turns_with_raw_arguments(body, array, parts, (call, "args"))
