"""A request in the words of OpenAI Chat Completions."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Message, Part
from otel_agent_replay.protocols.json_text import compact
from otel_agent_replay.protocols.translation.asked import Asked, Lost
from otel_agent_replay.protocols.translation.content import (
    CallIds,
    image_address,
    image_in,
    lose,
    result_text,
    text_in,
)
from otel_agent_replay.protocols.translation.openai_settings import effort_of, format_of, tool_choice_of


def to_openai_chat(asked: Asked, model: str, lost: Lost) -> dict[str, Any]:
    """Return the request; what has no counterpart is told to `lost`."""
    system = text_in(asked.system)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    ids = CallIds()
    for turn in asked.turns:
        messages.extend(_messages(turn, ids, lost))
    request: dict[str, Any] = {"model": model, "messages": messages}
    if asked.functions:
        request["tools"] = [{"type": "function", "function": _function(one)} for one in asked.functions]
    given = asked.settings
    request.update(
        max_completion_tokens=given.max_tokens,
        temperature=given.temperature,
        top_p=given.top_p,
        stop=list(given.stop) or None,
        seed=given.seed,
        frequency_penalty=given.frequency_penalty,
        presence_penalty=given.presence_penalty,
        tool_choice=tool_choice_of(given, inner="function"),
        parallel_tool_calls=given.parallel_tool_calls if asked.functions else None,
        reasoning_effort=effort_of(given, lost),
    )
    if given.shape is not None:
        request["response_format"] = format_of(given.shape, inner="json_schema")
    if given.top_k is not None:
        lost.add("`top_k`")
    return {key: value for key, value in request.items() if value is not None}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "description", "parameters", "strict")
    return {key: tool[key] for key in kept if tool.get(key) is not None}


def _messages(turn: Message, ids: CallIds, lost: Lost) -> list[dict[str, Any]]:
    """Return the messages that a turn comes to: each tool's result is one of its own, before what else was said."""
    said: list[Part] = []
    calls, results = [], []
    for part in turn.get("parts") or ():
        kind = part.get("type")
        if kind == "tool_call":
            function = {"name": str(part.get("name") or ""), "arguments": _arguments(part)}
            calls.append({"id": ids.of_call(part), "type": "function", "function": function})
        elif kind == "tool_call_response":
            results.append({"role": "tool", "tool_call_id": ids.of_result(part), "content": result_text(part, lost)})
        else:
            said.append(part)
    if turn.get("role") == "assistant":
        content = _spoken(said, lost)
        if calls:
            return [{"role": "assistant", "content": content or None, "tool_calls": calls}]
        return [{"role": "assistant", "content": content}] if said else []
    told = _content(said, lost)
    return [*results, *([{"role": "user", "content": told}] if told else [])]


def _arguments(part: Part) -> str:
    raw = part.get("arguments")
    return (raw if isinstance(raw, str) else compact(raw)) or "{}"


def _spoken(parts: list[Part], lost: Lost) -> str:
    texts = []
    for part in parts:
        if part.get("type") in ("text", "refusal"):
            texts.append(str(part.get("content") or ""))
        else:
            lose(part, lost)
    return "\n\n".join(filter(None, texts))


def _content(parts: list[Part], lost: Lost) -> str | list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for part in parts:
        picture, address = image_in(part), image_address(part)
        if part.get("type") == "text":
            made.append({"type": "text", "text": str(part.get("content") or "")})
        elif picture is not None:
            made.append({"type": "image_url", "image_url": {"url": f"data:{picture[0]};base64,{picture[1]}"}})
        elif address is not None:
            made.append({"type": "image_url", "image_url": {"url": address}})
        else:
            lose(part, lost)
    if len(made) == 1 and made[0]["type"] == "text":
        return str(made[0]["text"])
    return made
