"""A model's message as the bytes that a provider would send: whole, or as its stream of events.

One pair of functions a protocol. Ids and times are fixed, so that equal messages are equal bytes. What a protocol that
is not here would send has to come from a file (`response`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
_CREATED = 1_767_225_600  # 2026-01-01
_PIECE = 12  # characters of text an event


@dataclass(frozen=True, slots=True)
class Message:
    """What a case says of a model's answer. `calls` are (id, name, arguments as JSON text)."""

    text: str
    calls: Sequence[tuple[str, str, str]]
    finish_reason: str
    model: str
    input_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, given: Mapping[str, Any], model: str) -> Message:
        """Return the message of a mapping that fits the schema; `model` is what was asked for."""
        calls = [
            (call.get("id", f"call_{number}"), call["name"], _as_json(call.get("arguments", {})))
            for number, call in enumerate(given.get("tool_calls", ()), 1)
        ]
        return cls(
            given.get("text", ""),
            calls,
            given.get("finish_reason", ""),
            given.get("model", model),
            given.get("input_tokens", 10),
            given.get("output_tokens", 5),
        )

    @property
    def pieces(self) -> list[str]:
        """The text as a stream cuts it."""
        return [self.text[at : at + _PIECE] for at in range(0, len(self.text), _PIECE)]


@dataclass(frozen=True, slots=True)
class Renderer:
    """How one protocol says a message, and an error: `whole` as one body, `events` as the pieces of a stream."""

    whole: Callable[[Message], Document]
    events: Callable[[Message], list[bytes]]
    error: Callable[[int, str], Document]


def renderer(protocol: str) -> Renderer | None:
    """Return the renderer of a protocol's name, None for one that is not here."""
    return _RENDERERS.get(protocol)


def as_bytes(document: Any) -> bytes:
    """Return JSON as servers send it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _as_json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _data(document: Document, event: str = "") -> bytes:
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + as_bytes(document) + b"\n\n"


# --- OpenAI Chat Completions ---


def _chat_call(call: tuple[str, str, str]) -> Document:
    return {"id": call[0], "type": "function", "function": {"name": call[1], "arguments": call[2]}}


def _chat_finish(message: Message) -> str:
    return message.finish_reason or ("tool_calls" if message.calls else "stop")


def _chat_usage(message: Message) -> Document:
    return {
        "prompt_tokens": message.input_tokens,
        "completion_tokens": message.output_tokens,
        "total_tokens": message.input_tokens + message.output_tokens,
    }


def _chat(message: Message) -> Document:
    said: Document = {"role": "assistant", "content": message.text or None}
    if message.calls:
        said["tool_calls"] = [_chat_call(call) for call in message.calls]
    return {
        "id": "chatcmpl-fixture",
        "object": "chat.completion",
        "created": _CREATED,
        "model": message.model,
        "choices": [{"index": 0, "message": said, "finish_reason": _chat_finish(message)}],
        "usage": _chat_usage(message),
    }


def _chat_events(message: Message) -> list[bytes]:
    head: Document = {
        "id": "chatcmpl-fixture",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": message.model,
    }
    deltas: list[Document] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in message.pieces)]
    deltas += [{"tool_calls": [{"index": at, **_chat_call(call)}]} for at, call in enumerate(message.calls)]
    choices: list[Document] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _chat_finish(message)})
    events = [_data({**head, "choices": [choice]}) for choice in choices]
    return [*events, _data({**head, "choices": [], "usage": _chat_usage(message)}), b"data: [DONE]\n\n"]


def _openai_error(status: int, text: str) -> Document:
    kinds = {429: "rate_limit_error", 409: "conflict_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": text, "type": kind, "param": None, "code": None}}


# --- OpenAI Responses ---


def _responses_items(message: Message) -> list[Document]:
    items: list[Document] = []
    if message.text:
        part = {"type": "output_text", "text": message.text, "annotations": []}
        items.append(
            {"id": "msg_fixture", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        )
    items += [
        {
            "id": f"fc_{call[0]}",
            "type": "function_call",
            "status": "completed",
            "call_id": call[0],
            "name": call[1],
            "arguments": call[2],
        }
        for call in message.calls
    ]
    return items


def _responses(message: Message) -> Document:
    cut = message.finish_reason not in ("", "stop", "completed", "tool_calls")
    return {
        "id": "resp_fixture",
        "object": "response",
        "created_at": _CREATED,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": message.finish_reason} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": message.model,
        "output": _responses_items(message),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": message.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": message.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": message.input_tokens + message.output_tokens,
        },
    }


def _responses_events(message: Message) -> list[bytes]:
    whole = _responses(message)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    told: list[Document] = [{"type": f"response.{word}", "response": begun} for word in ("created", "in_progress")]
    for at, item in enumerate(whole["output"]):
        if item["type"] == "message":
            told += _text_item(at, item, message.pieces)
        else:
            told += _call_item(at, item)
    last = "response.completed" if whole["status"] == "completed" else "response.incomplete"
    told.append({"type": last, "response": whole})
    return [_data({**event, "sequence_number": number}, event["type"]) for number, event in enumerate(told)]


def _text_item(at: int, item: Document, pieces: Sequence[str]) -> list[Document]:
    part = item["content"][0]
    place: Document = {"item_id": item["id"], "output_index": at, "content_index": 0}
    added = {**item, "status": "in_progress", "content": []}
    deltas: list[Document] = [
        {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in pieces
    ]
    return [
        {"type": "response.output_item.added", "output_index": at, "item": added},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *deltas,
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": at, "item": item},
    ]


def _call_item(at: int, item: Document) -> list[Document]:
    place: Document = {"item_id": item["id"], "output_index": at}
    arguments, name = item["arguments"], item["name"]
    added = {**item, "status": "in_progress", "arguments": ""}
    return [
        {"type": "response.output_item.added", "output_index": at, "item": added},
        {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": name},
        {"type": "response.output_item.done", "output_index": at, "item": item},
    ]


# --- Anthropic Messages ---


def _anthropic_finish(message: Message) -> str:
    return message.finish_reason or ("tool_use" if message.calls else "end_turn")


def _input_of(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _anthropic(message: Message) -> Document:
    content: list[Document] = [{"type": "text", "text": message.text}] if message.text else []
    content += [
        {"type": "tool_use", "id": call[0], "name": call[1], "input": _input_of(call[2])} for call in message.calls
    ]
    return {
        "id": "msg_fixture",
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": content,
        "stop_reason": _anthropic_finish(message),
        "stop_sequence": None,
        "usage": {"input_tokens": message.input_tokens, "output_tokens": message.output_tokens},
    }


def _anthropic_events(message: Message) -> list[bytes]:
    begun = {
        **_anthropic(message),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": message.input_tokens, "output_tokens": 1},
    }
    told: list[Document] = [{"type": "message_start", "message": begun}]
    blocks: list[tuple[Document, list[Document]]] = []
    if message.text:
        deltas: list[Document] = [{"type": "text_delta", "text": piece} for piece in message.pieces]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call_id, name, arguments in message.calls:
        empty: Document = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        blocks.append((empty, [{"type": "input_json_delta", "partial_json": arguments}]))
    for at, (block, deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": at, "content_block": block})
        told += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": _anthropic_finish(message), "stop_sequence": None}
    told.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": message.output_tokens}})
    told.append({"type": "message_stop"})
    return [_data(event, event["type"]) for event in told]


def _anthropic_error(status: int, text: str) -> Document:
    kinds = {429: "rate_limit_error", 529: "overloaded_error"}
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": text}}


_RENDERERS: Mapping[str, Renderer] = {
    "openai.chat_completions": Renderer(_chat, _chat_events, _openai_error),
    "openai.responses": Renderer(_responses, _responses_events, _openai_error),
    "anthropic.messages": Renderer(_anthropic, _anthropic_events, _anthropic_error),
}
