"""Messages, in whatever form they were written -> OpenTelemetry's form. Pure; nothing here knows a dialect.

The forms of fifteen frameworks were met so far. A value that is no message in any of them gives None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from otel_agent_replay.imports.dialects.message_parts import part_of, response_part, text_part, tool_call
from otel_agent_replay.imports.dialects.tool_definitions import is_definition, tools_in
from otel_agent_replay.protocols.folded import Message, Part
from otel_agent_replay.protocols.json_text import as_object, as_objects, as_text, compact, parsed_text
from otel_agent_replay.protocols.openai_responses_items import parts_of, role_of
from otel_agent_replay.protocols.recognise import PROTOCOLS
from otel_agent_replay.protocols.recognise_answer import recognise_object

_ROLES: Final = {
    "model": "assistant",
    "human": "user",
    "ai": "assistant",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "function": "tool",
    "chatbot": "assistant",
}
_CONVERSATIONS: Final = (
    "messages", "contents", "input", "prompt", "new_message", "conversation", "message", "content", "args",
)  # fmt: skip
_ANSWERS: Final = ("messages", "choices", "generations", "output", "message", "content", "text", "response")
_SYSTEMS: Final = ("system", "system_instruction", "systemInstruction", "system_instructions", "instructions")
_CONFIGURATIONS: Final = ("config", "kwargs")
_TRANSCRIPT: Final = re.compile(r"^(system|developer|user|assistant|tool): ", re.MULTILINE)
_ITEM_TYPES: Final = ("function_call", "function_call_output", "reasoning", "custom_tool_call", "message")
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said. `structured` is False where all there was is text; `system` are instructions that came apart."""

    messages: Sequence[Message] = ()
    system: Sequence[Part] = ()
    tools: Sequence[dict[str, Any]] = field(default_factory=list)
    structured: bool = True


def asked(value: Any) -> Conversation | None:
    """The messages that a model was given. Text, and a message that names no role, are the user's."""
    return _conversation(parsed_text(value), "user", 0)


def answered(value: Any) -> Conversation | None:
    """The messages of an answer, finish reasons with them where they lie there."""
    value = parsed_text(value)
    if isinstance(value, dict):
        whole = _of_protocol(value)
        if whole is not None:
            return Conversation(whole)
    return _conversation(value, "assistant", 0)


def system_parts(value: Any) -> list[Part]:
    """System instructions: a text, a message, or a list of parts."""
    value = parsed_text(value)
    if isinstance(value, dict) and isinstance(value.get("parts"), list):
        value = value["parts"]
    if isinstance(value, dict) and "content" in value:
        value = value["content"]
    if isinstance(value, str):
        return [text_part(value)] if value else []
    return [part_of(part) for part in value] if isinstance(value, list) else []


def _of_protocol(value: dict[str, Any]) -> list[Message] | None:
    """The messages of a provider's answer."""
    protocol = PROTOCOLS.get(recognise_object("", value) or "")
    if protocol is None:
        return None
    messages = protocol.fold(
        compact(value).encode("utf-8", "backslashreplace"), "application/json", 200
    ).output_messages
    kept = [message for message in messages if message.get("parts")]
    return kept or None


def _conversation(value: Any, role: str, depth: int) -> Conversation | None:
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return _of_text(value, role)
    if isinstance(value, list):
        return _of_list(value, role, depth)
    if isinstance(value, dict):
        return _of_object(value, role, depth)
    return None


def _of_text(text: str, role: str) -> Conversation | None:
    if not text:
        return None
    if role == "user" and _TRANSCRIPT.match(text):
        return Conversation([*_transcript(text)], structured=False)
    return Conversation([{"role": role, "parts": [text_part(text)]}], structured=False)


def _transcript(text: str) -> Iterator[Message]:
    """The turns of a text in which each begins with its role."""
    marks = list(_TRANSCRIPT.finditer(text))
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        said = text[mark.end() : len(text) if after is None else after.start()].removesuffix("\n")
        yield {"role": mark[1], "parts": [text_part(said)]}


def _of_list(items: list[Any], role: str, depth: int) -> Conversation | None:
    if len(items) == 1 and isinstance(items[0], list):  # LangChain's batch of one
        return _of_list(items[0], role, depth + 1)
    if items and all(isinstance(item, str) for item in items):
        if any(item.startswith("role=") for item in items):  # what Python shows of objects: no message to be read
            return None
        return Conversation([{"role": role, "parts": [text_part(item)]} for item in items], structured=False)
    objects = as_objects(items)
    if not objects or len(objects) != len(items):
        return None
    tools = [tool for item in objects for tool in _tools_instead(item)]
    said = [item for item in objects if not _tools_instead(item)]
    if _are_parts(said):
        return Conversation([{"role": role, "parts": [part_of(item) for item in said]}], tools=tools)
    messages = [message_of(item, role) for item in said]
    if any(message is None for message in messages):
        return None
    return Conversation([message for message in messages if message is not None], tools=tools)


def _tools_instead(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Tools offered, which one exporter of LangChain's writes as messages of a tool."""
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(content, dict) and is_definition(content):
        return tools_in([content])
    return []


def _are_parts(items: list[dict[str, Any]]) -> bool:
    """Whether a list is one message's parts or calls, and no list of messages."""
    if not items or any("role" in item or "parts" in item or "message" in item for item in items):
        return False
    if all(item.get("type") in _ITEM_TYPES for item in items):
        return False
    known = ("text", "tool_use", "tool_call", "tool-call", "image", "thinking", "reasoning", "refusal", "tool_result")
    return all(item.get("type") in known or "toolCallId" in item or "toolName" in item for item in items)


def _of_object(value: dict[str, Any], role: str, depth: int) -> Conversation | None:
    message = message_of(value, role)
    if message is not None:
        return Conversation([message])
    for key in _ANSWERS if role == "assistant" else _CONVERSATIONS:
        inner = parsed_text(value.get(key))
        if not isinstance(inner, (str, list, dict)):
            continue
        found = _conversation(inner, role, depth + 1)
        if found is not None:
            return _with_surroundings(value, found)
    return None


def _with_surroundings(value: dict[str, Any], found: Conversation) -> Conversation:
    """The conversation with the system text and the tools that lie beside it."""
    places = [value, *(as_object(value.get(name)) for name in _CONFIGURATIONS)]
    system = next((place[key] for place in places for key in _SYSTEMS if place.get(key)), None)
    tools = next((place["tools"] for place in places if place.get("tools")), None)
    return Conversation(
        found.messages,
        [*(system_parts(system) if isinstance(system, (str, list, dict)) else ()), *found.system],
        tools_in(tools) or found.tools,
        found.structured or isinstance(system, str),
    )


def message_of(value: dict[str, Any], role: str = "user") -> Message | None:
    """One message; None where the object is none. `role` is of a message that names none."""
    if isinstance(value.get("message"), dict) and "role" not in value:
        inner = message_of({"role": role, **value["message"]}, role)
        return None if inner is None else _finished(inner, value)
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list):
        name = str(value["id"][-1]) if value["id"] else ""
        return message_of({**value["kwargs"], "role": _ROLES.get(name, role)}, role) if name in _ROLES else None
    if "role" not in value and isinstance(value.get("content"), dict) and "parts" in value["content"]:
        inner = message_of(value["content"], role)  # Gemini's candidate
        return None if inner is None else _finished(inner, value)
    said = as_text(value.get("role")) or (str(value["type"]) if str(value.get("type")) in _ROLES else "")
    speaker = _ROLES.get(said, said)
    if isinstance(value.get("parts"), list):
        named = {"name": value["name"]} if as_text(value.get("name")) else {}
        message: Message = {"role": speaker or role, "parts": [part_of(part) for part in value["parts"]], **named}
        return _finished(message, value)
    if value.get("type") in _ITEM_TYPES and not (speaker and value.get("type") != "message"):
        return {"role": role_of(value), "parts": parts_of(value)}
    if not speaker:
        return None
    return _finished(_spoken(value, speaker), value)


def _spoken(value: dict[str, Any], role: str) -> Message:
    content = _content(value)
    if role == "tool" and not isinstance(content, list):
        return {"role": role, "parts": [response_part(value.get("tool_call_id") or value.get("id"), content)]}
    parts: list[Part] = []
    reasoning = as_text(value.get("reasoning_content")) or as_text(value.get("reasoning"))
    if reasoning:
        parts.append({"type": "reasoning", "content": reasoning})
    if isinstance(content, str):
        parts += [text_part(content)] if content else []
    elif isinstance(content, list):
        parts += [part_of(part) for part in content]
    elif content is not None:
        parts.append(part_of(content))
    if as_text(value.get("refusal")):
        parts.append({"type": "refusal", "content": value["refusal"]})
    parts += _calls(value, {part.get("id") for part in parts if part["type"] == "tool_call"})
    named = {"name": value["name"]} if as_text(value.get("name")) and role != "tool" else {}
    return {"role": role, "parts": parts, **named}


def _content(value: dict[str, Any]) -> Any:
    """The content, which OpenInference also writes as numbered `contents`."""
    content = value.get("content")
    return value["contents"] if content is None and isinstance(value.get("contents"), list) else content


def _calls(value: dict[str, Any], known: set[Any]) -> Iterator[Part]:
    """The calls beside the content; LangChain writes each there and in the content."""
    extra = as_object(value.get("additional_kwargs"))
    for call in as_objects(value.get("tool_calls")) or as_objects(extra.get("tool_calls")):
        part = tool_call(call)
        if part is not None and (part["id"] is None or part["id"] not in known):
            yield part
    legacy = value.get("function_call")
    if isinstance(legacy, dict):
        part = tool_call(legacy)
        if part is not None:
            yield part


def _finished(message: Message, holder: dict[str, Any]) -> Message:
    """The message with the reason why it ended, where what holds it tells one."""
    reason = as_text(holder.get("finish_reason")) or as_text(holder.get("finishReason"))
    return {**message, "finish_reason": reason} if reason and "finish_reason" not in message else message
