"""Payloads for runs made by hand: typed values, and Chat Completions bodies made small."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.model import MediaType, Payload
from otel_agent_replay.payload.codec import encode


def value(content: Any) -> Payload:
    """Return `content` as a payload of the typed codec."""
    return Payload.of(encode(content).data, MediaType.VALUE.value)


def chat_request(messages: Sequence[Mapping[str, Any]], *, model: str = "gpt-4o-mini", **more: Any) -> Payload:
    """Return the body of a Chat Completions request."""
    return Payload.of(json.dumps({"model": model, "messages": list(messages), **more}).encode(), MediaType.JSON.value)


def chat_answer(
    text: str | None = None,
    *,
    tool_calls: Sequence[tuple[str, str, Any]] = (),
    finish_reason: str = "",
    response_id: str = "chatcmpl-1",
    model: str = "gpt-4o-mini-2024-07-18",
    tokens: tuple[int, int] = (10, 5),
) -> Payload:
    """Return the body of a Chat Completions answer. `tool_calls` are (id, name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id_, name, arguments in tool_calls
        ]
    reason = finish_reason or ("tool_calls" if tool_calls else "stop")
    body = {
        "id": response_id,
        "object": "chat.completion",
        "created": 1_764_547_200,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }
    return Payload.of(json.dumps(body).encode(), MediaType.JSON.value)


def chat_stream(pieces: Sequence[str], *, response_id: str = "chatcmpl-1", finish_reason: str = "stop") -> Payload:
    """Return a Chat Completions answer as an event stream, one event a piece of text."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"content": piece}, None) for piece in pieces]
    deltas.append(({}, finish_reason))
    events = [
        json.dumps(
            {
                "id": response_id,
                "object": "chat.completion.chunk",
                "created": 1_764_547_200,
                "model": "gpt-4o-mini-2024-07-18",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
        )
        for delta, reason in deltas
    ]
    text = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
    return Payload.of(text.encode(), MediaType.EVENT_STREAM.value)
