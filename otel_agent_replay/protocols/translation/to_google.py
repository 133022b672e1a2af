"""A request in the words of Gemini's `generateContent`; the model is in its URL, not in its body."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Message, Part
from otel_agent_replay.protocols.json_text import parse_object
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

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "one": "ANY"}


def to_google(asked: Asked, _model: str, lost: Lost) -> dict[str, Any]:
    """Return the request; what has no counterpart is told to `lost`."""
    given = asked.settings
    system = text_in(asked.system)
    request: dict[str, Any] = {"contents": _contents(asked, lost)}
    if system:
        request["systemInstruction"] = {"parts": [{"text": system}]}
    if asked.functions:
        request["tools"] = [{"functionDeclarations": [_function(one) for one in asked.functions]}]
    if given.tool_choice is not None and asked.functions:
        config: dict[str, Any] = {"mode": _MODES[given.tool_choice]}
        if given.tool_name is not None:
            config["allowedFunctionNames"] = [given.tool_name]
        request["toolConfig"] = {"functionCallingConfig": config}
    if given.parallel_tool_calls is not None:
        lost.add("`parallel_tool_calls`")
    settings = _settings(given)
    return {**request, "generationConfig": settings} if settings else request


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    made = {key: tool[key] for key in ("name", "description") if tool.get(key) is not None}
    return {**made, **({"parametersJsonSchema": tool["parameters"]} if tool.get("parameters") else {})}


def _settings(given: Settings) -> dict[str, Any]:
    made: dict[str, Any] = {
        "maxOutputTokens": given.max_tokens,
        "temperature": given.temperature,
        "topP": given.top_p,
        "topK": given.top_k,
        "stopSequences": list(given.stop) or None,
        "seed": given.seed,
        "frequencyPenalty": given.frequency_penalty,
        "presencePenalty": given.presence_penalty,
    }
    if given.shape is not None:
        made["responseMimeType"] = "application/json"
        made["responseJsonSchema"] = given.shape.schema
    if given.thinking_tokens is not None:
        made["thinkingConfig"] = {"thinkingBudget": given.thinking_tokens}
    elif given.effort is not None:
        made["thinkingConfig"] = {"thinkingLevel": given.effort}
    return {key: value for key, value in made.items() if value is not None}


def _contents(asked: Asked, lost: Lost) -> list[dict[str, Any]]:
    """Return the contents, those of one side in a row as one."""
    ids, names = CallIds(), _Names()
    contents: list[dict[str, Any]] = []
    for turn in asked.turns:
        role = "model" if turn.get("role") == "assistant" else "user"
        parts = _parts(turn, ids, names, lost)
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"].extend(parts)
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


class _Names(dict[str, str]):
    """The function that each call id stands for: results are told by name here."""


def _parts(turn: Message, ids: CallIds, names: _Names, lost: Lost) -> list[dict[str, Any]]:
    made = (_part(part, ids, names, lost) for part in turn.get("parts") or ())
    return [part for part in made if part is not None]


def _part(part: Part, ids: CallIds, names: _Names, lost: Lost) -> dict[str, Any] | None:
    kind = part.get("type")
    picture, address = image_in(part), image_address(part)
    if kind in ("text", "refusal"):
        return {"text": str(part.get("content") or "")}
    if kind == "tool_call":
        name = str(part.get("name") or "")
        names[ids.of_call(part)] = name
        return {"functionCall": {"name": name, "args": arguments_in(part, lost)}}
    if kind == "tool_call_response":
        name = names.get(ids.of_result(part)) or str(part.get("name") or "")
        text = result_text(part, lost)
        return {"functionResponse": {"name": name, "response": parse_object(text) or {"result": text}}}
    if picture is not None:
        return {"inlineData": {"mimeType": picture[0], "data": picture[1]}}
    if address is not None:
        return {"fileData": {"mimeType": str(part.get("mime_type") or "image/*"), "fileUri": address}}
    lose(part, lost)
    return None
