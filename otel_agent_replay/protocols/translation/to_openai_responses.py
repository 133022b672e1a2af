"""A request in the words of OpenAI Responses; the conversation travels whole, nothing is kept by the provider."""

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


def to_openai_responses(asked: Asked, model: str, lost: Lost) -> dict[str, Any]:
    """Return the request; what has no counterpart is told to `lost`."""
    ids = CallIds()
    items: list[dict[str, Any]] = []
    for turn in asked.turns:
        items.extend(_items(turn, ids, lost))
    given = asked.settings
    effort = effort_of(given, lost)
    request: dict[str, Any] = {
        "model": model,
        "instructions": text_in(asked.system) or None,
        "input": items,
        "tools": [_function(one) for one in asked.functions] or None,
        "store": False,
        "max_output_tokens": given.max_tokens,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "tool_choice": tool_choice_of(given, inner=""),
        "parallel_tool_calls": given.parallel_tool_calls if asked.functions else None,
        "reasoning": {"effort": effort} if effort else None,
        "text": None if given.shape is None else {"format": format_of(given.shape, inner="")},
    }
    for name in ("top_k", "seed", "frequency_penalty", "presence_penalty"):
        if getattr(given, name) is not None:
            lost.add(f"`{name}`")
    if given.stop:
        lost.add("`stop`")
    return {key: value for key, value in request.items() if value is not None}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    made = {key: tool[key] for key in ("name", "description", "parameters") if tool.get(key) is not None}
    # Without the word the API holds functions to their schema, which the recorded request may not have asked for.
    return {"type": "function", **made, "strict": bool(tool.get("strict"))}


def _items(turn: Message, ids: CallIds, lost: Lost) -> list[dict[str, Any]]:
    role = "assistant" if turn.get("role") == "assistant" else "user"
    items: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []
    for part in turn.get("parts") or ():
        kind = part.get("type")
        if kind == "tool_call":
            raw = part.get("arguments")
            call = {"name": str(part.get("name") or ""), "arguments": (raw if isinstance(raw, str) else compact(raw))}
            items.append({"type": "function_call", "call_id": ids.of_call(part), **call})
        elif kind == "tool_call_response":
            output = {"call_id": ids.of_result(part), "output": result_text(part, lost)}
            items.append({"type": "function_call_output", **output})
        else:
            content.extend(_content(part, role, lost))
    if not content:
        return items
    message = {"type": "message", "role": role, "content": content}
    return [message, *items] if role == "assistant" else [*items, message]


def _content(part: Part, role: str, lost: Lost) -> list[dict[str, Any]]:
    kind = part.get("type")
    picture, address = image_in(part), image_address(part)
    if kind == "text":
        name = "output_text" if role == "assistant" else "input_text"
        return [{"type": name, "text": str(part.get("content") or "")}]
    if kind == "refusal" and role == "assistant":
        return [{"type": "refusal", "refusal": str(part.get("content") or "")}]
    if picture is not None:
        return [{"type": "input_image", "image_url": f"data:{picture[0]};base64,{picture[1]}"}]
    if address is not None:
        return [{"type": "input_image", "image_url": address}]
    lose(part, lost)
    return []
