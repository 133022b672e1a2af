"""A request in the words of Anthropic Messages."""

from __future__ import annotations

from typing import Any, Final

from otel_agent_replay.protocols.folded import Message, Part
from otel_agent_replay.protocols.translation.asked import Asked, Lost, Settings
from otel_agent_replay.protocols.translation.content import (
    CallIds,
    arguments_in,
    image_address,
    image_in,
    lose,
    result_text,
    text_in,
)

DEFAULT_MAX_TOKENS: Final = 4096
_EFFORTS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768}
"""How many tokens of thought a word of effort stands for; this API takes a bound, not a word."""


def to_anthropic(asked: Asked, model: str, lost: Lost) -> dict[str, Any]:
    """Return the request; what has no counterpart is told to `lost`."""
    given = asked.settings
    if given.max_tokens is None:
        lost.add(f"no bound on the answer: this API needs one, {DEFAULT_MAX_TOKENS} tokens are asked for")
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": given.max_tokens or DEFAULT_MAX_TOKENS,
        "system": text_in(asked.system) or None,
        "messages": _messages(asked, lost),
        "tools": [_tool(one) for one in asked.functions] or None,
        "tool_choice": _tool_choice(given) if asked.functions else None,
        "temperature": _temperature(given, lost),
        "top_p": given.top_p,
        "top_k": given.top_k,
        "stop_sequences": list(given.stop) or None,
    }
    _think(request, given, lost)
    if given.shape is not None:
        lost.add("the form of the answer (JSON): only the prompt asks for it")
    for name in ("seed", "frequency_penalty", "presence_penalty"):
        if getattr(given, name) is not None:
            lost.add(f"`{name}`")
    return {key: value for key, value in request.items() if value is not None}


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    made = {key: function[key] for key in ("name", "description") if function.get(key) is not None}
    return {**made, "input_schema": function.get("parameters") or {"type": "object", "properties": {}}}


def _tool_choice(given: Settings) -> dict[str, Any] | None:
    kinds = {"auto": "auto", "none": "none", "required": "any", "one": "tool"}
    if given.tool_choice is None and given.parallel_tool_calls is None:
        return None
    choice: dict[str, Any] = {"type": kinds[given.tool_choice or "auto"]}
    if given.tool_name is not None:
        choice["name"] = given.tool_name
    if given.parallel_tool_calls is not None and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = not given.parallel_tool_calls
    return choice


def _temperature(given: Settings, lost: Lost) -> float | None:
    if given.temperature is not None and given.temperature > 1:
        lost.add(f"a temperature of {given.temperature}: this API takes 1 at most, which is sent")
        return 1.0
    return given.temperature


def _think(request: dict[str, Any], given: Settings, lost: Lost) -> None:
    tokens = given.thinking_tokens
    if tokens is None and given.effort in _EFFORTS:
        tokens = _EFFORTS[given.effort]
        lost.add(f"an effort of {given.effort!r}: sent as a bound of {tokens} thinking tokens")
    elif tokens is None and given.effort not in (None, "none"):
        lost.add(f"an effort of {given.effort!r}")
    if not tokens:
        return
    request["thinking"] = {"type": "enabled", "budget_tokens": tokens}
    if request["max_tokens"] <= tokens:
        request["max_tokens"] += tokens  # the bound on the answer counts the thoughts here
    if request.pop("temperature", None) is not None:
        lost.add("`temperature`: not taken together with thinking")
    if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        request["tool_choice"]["type"] = "auto"
        request["tool_choice"].pop("name", None)
        lost.add("a forced tool: not taken together with thinking")


def _messages(asked: Asked, lost: Lost) -> list[dict[str, Any]]:
    """Return the messages, those of one side in a row as one: all results of a turn's calls must be in the next."""
    ids = CallIds()
    messages: list[dict[str, Any]] = []
    for turn in asked.turns:
        role = "assistant" if turn.get("role") == "assistant" else "user"
        blocks = _blocks(turn, ids, lost)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    for message in messages:
        message["content"].sort(key=lambda block: block["type"] != "tool_result")
    return messages


def _blocks(turn: Message, ids: CallIds, lost: Lost) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in turn.get("parts") or ():
        block = _block(part, ids, lost)
        if block is not None:
            blocks.append(block)
    return blocks


def _block(part: Part, ids: CallIds, lost: Lost) -> dict[str, Any] | None:
    kind = part.get("type")
    picture, address = image_in(part), image_address(part)
    if kind in ("text", "refusal"):
        text = str(part.get("content") or "")
        return {"type": "text", "text": text} if text.strip() else None
    if kind == "tool_call":
        name, given = str(part.get("name") or ""), arguments_in(part, lost)
        return {"type": "tool_use", "id": ids.of_call(part), "name": name, "input": given}
    if kind == "tool_call_response":
        made = {"type": "tool_result", "tool_use_id": ids.of_result(part), "content": result_text(part, lost)}
        return {**made, "is_error": True} if part.get("is_error") else made
    if picture is not None:
        source = {"type": "base64", "media_type": picture[0], "data": picture[1]}
        return {"type": "image", "source": source}
    if address is not None:
        return {"type": "image", "source": {"type": "url", "url": address}}
    lose(part, lost)
    return None
