"""Bodies that OpenAI- and Anthropic-compatible servers send, made small, for the scripted provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from otel_agent_replay.testing.provider import Reply, SeenRequest

_CREATED = 1_700_000_000


def openai_chat(
    text: str | None, *, model: str = "gpt-4o-mini", tool_calls: Sequence[dict[str, Any]] = (), **more: Any
) -> Reply:
    """Return a Chat Completions answer. `tool_calls` are {"id", "name", "arguments" (JSON text)}."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in tool_calls]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": _CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tool_calls else "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return Reply.of_json(body, **more)


def openai_chat_stream(
    pieces: Sequence[str], *, model: str = "gpt-4o-mini", tool_calls: Sequence[dict[str, Any]] = (), **more: Any
) -> Reply:
    """Return the same as an event stream: one event a piece of text, one a tool call."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces]
    deltas += [{"tool_calls": [{"index": number, **_tool_call(call)}]} for number, call in enumerate(tool_calls)]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if tool_calls else "stop"}])
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": _CREATED, "model": model}
    events = [json.dumps({**head, "choices": choice}, ensure_ascii=False) for choice in choices]
    return Reply.of_events("".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode(), **more)


def anthropic_message(text: str, *, model: str = "claude-test", **more: Any) -> Reply:
    """Return a Messages answer."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    return Reply.of_json(body, **more)


def anthropic_stream(pieces: Sequence[str], *, model: str = "claude-test", **more: Any) -> Reply:
    """Return the same as an event stream."""
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return Reply.of_events(body.encode(), **more)


def echo(request: SeenRequest) -> Reply:
    """A script that answers any chat or messages request with its last message, streamed when asked to."""
    asked = request.json
    last = asked["messages"][-1]["content"]
    text = last if isinstance(last, str) else json.dumps(last)
    model = str(asked.get("model", "echo"))
    is_anthropic = request.path.endswith("/messages")
    if asked.get("stream"):
        words = [f"{word} " for word in text.split(" ")]
        return anthropic_stream(words, model=model) if is_anthropic else openai_chat_stream(words, model=model)
    return anthropic_message(text, model=model) if is_anthropic else openai_chat(text, model=model)


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}
