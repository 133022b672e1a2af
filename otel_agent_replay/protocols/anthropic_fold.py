"""Anthropic Messages answers, streamed or not, folded into one value.

Usage in a stream is cumulative: the last value of each field wins, nothing is added up. An `error` event fails a call
whose HTTP status was 200. A `fallback` block names the model that really answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall, Usage, joined_content
from otel_agent_replay.protocols.json_spans import elements, member
from otel_agent_replay.protocols.json_text import (
    as_count,
    as_object,
    as_objects,
    as_text,
    check_arguments,
    compact,
    parse_object,
    text_of,
)
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.text import TextPieces, join

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_DELTA_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class Block:
    """One content block while its deltas arrive."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.json = TextPieces()
        self.fields: dict[str, TextPieces] = {}

    def add(self, delta: dict[str, Any], problems: list[str]) -> None:
        """Take one delta."""
        kind = str(delta.get("type"))
        if kind == "input_json_delta":
            self.json.add(delta.get("partial_json"))
        elif kind in _DELTA_FIELDS:
            field = _DELTA_FIELDS[kind]
            self.fields.setdefault(field, TextPieces()).add(delta.get(field))
        elif kind == "citations_delta":
            self.start.setdefault("citations", None)
            self.start["citations"] = [*(self.start["citations"] or []), delta.get("citation")]
        elif kind == "compaction_delta":
            self.start.update({key: value for key, value in delta.items() if key != "type" and value is not None})
        else:
            problems.append(f"unknown delta type {kind!r}")

    def block(self, problems: list[str]) -> tuple[dict[str, Any], str]:
        """The block as a plain answer would hold it, and its `input` as text of the wire."""
        done = dict(self.start)
        for field, pieces in self.fields.items():
            done[field] = (as_text(done.get(field)) or "") + join(pieces, field, problems)
        raw = join(self.json, "input", problems)
        if not raw and self.start.get("input"):
            raw = compact(self.start["input"])
        return done, raw


class MessageReducer:
    """Takes the events of one stream in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.message: dict[str, Any] | None = None
        self.blocks: dict[int, Block] = {}
        self.usage: dict[str, Any] = {}
        self.stop: dict[str, Any] = {}
        self.stopped = False
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:  # noqa: ARG002 - the object says its type too
        """Take one event object."""
        event = value
        kind = event.get("type")
        if kind == "message_start":
            self._start(as_object(event.get("message")))
        elif kind == "content_block_start":
            self.blocks[self._index(event)] = Block(dict(as_object(event.get("content_block"))))
        elif kind == "content_block_delta":
            self._delta(event)
        elif kind == "message_delta":
            self.stop.update({key: value for key, value in as_object(event.get("delta")).items() if value is not None})
            self._use(event.get("usage"))
        elif kind == "message_stop":
            self.stopped = True
        elif kind == "error" or "error" in event:
            self.error = self.error or error_of(event.get("error"), self.status)
        elif kind not in ("ping", "content_block_stop"):
            self.problems.append(f"unknown event type {kind!r}")

    def _start(self, message: dict[str, Any]) -> None:
        if self.message is not None:
            self.problems.append(f"message_start came again: {self.message.get('id')!r}, then {message.get('id')!r}")
            if self.message.get("id") != message.get("id"):
                self.blocks = {}
        self.message = message
        for index, block in enumerate(as_objects(message.get("content"))):
            self.blocks.setdefault(index, Block(dict(block)))
        self._use(message.get("usage"))

    def _delta(self, event: dict[str, Any]) -> None:
        index = self._index(event)
        delta = as_object(event.get("delta"))
        if index not in self.blocks:
            self.problems.append(f"delta for content block {index}, which never began")
            kind = {"input_json_delta": "tool_use", "thinking_delta": "thinking"}.get(str(delta.get("type")), "text")
            self.blocks[index] = Block({"type": kind})
        self.blocks[index].add(delta, self.problems)

    def _index(self, event: dict[str, Any]) -> int:
        index = as_count(event.get("index"))
        return len(self.blocks) if index is None else index

    def _use(self, usage: Any) -> None:
        self.usage.update({key: value for key, value in as_object(usage).items() if value is not None})

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:  # noqa: ARG002 - no end mark of its own
        """Fold. A stream without `message_stop` or stop reason was cut."""
        self.problems.extend(problems)
        message = {**(self.message or {}), **self.stop, "usage": self.usage or None}
        blocks = [self.blocks[index].block(self.problems) for index in sorted(self.blocks)]
        error = self.error
        if error is None and not self.stopped and not message.get("stop_reason"):
            error = ProviderError(TRUNCATED)
        return fold_message(message, blocks, error, self.problems)


def fold_message(
    message: dict[str, Any], blocks: list[tuple[dict[str, Any], str]], error: ProviderError | None, problems: list[str]
) -> Folded:
    """Fold a message whose content is `blocks`, each with the text of its `input`."""
    calls: list[ToolCall] = []
    parts: list[Part] = []
    for block, raw in blocks:
        parts.append(part_of(block, raw))
        if block.get("type") == "tool_use":
            valid, oddity = check_arguments(raw)
            calls.append(ToolCall(as_text(block.get("id")), str(block.get("name") or ""), raw, valid))
            if oddity:
                problems.append(f"arguments of tool call {block.get('id')!r} have {oddity}")
    reason = as_text(message.get("stop_reason"))
    return Folded(
        complete=error is None,
        finish_reason=reason,
        text=joined_content(parts, "text"),
        reasoning=joined_content(parts, "reasoning") or None,
        refusal=as_text(as_object(message.get("stop_details")).get("explanation")) if reason == "refusal" else None,
        tool_calls=tuple(calls),
        usage=usage_of(message.get("usage")),
        error=error,
        response_id=as_text(message.get("id")),
        model=answering_model(message.get("model"), [block for block, _ in blocks]),
        output_messages=({"role": str(message.get("role") or "assistant"), "parts": parts, "finish_reason": reason},),
        problems=tuple(dict.fromkeys(problems)),
    )


def part_of(block: dict[str, Any], raw_input: str) -> Part:
    """A content block in OpenTelemetry's form; what has no form there stays as it is."""
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "content": str(block.get("text") or "")}
    if kind == "thinking":
        part = {"type": "reasoning", "content": str(block.get("thinking") or "")}
        return part | ({"signature": block["signature"]} if block.get("signature") else {})
    if kind == "tool_use":
        return {"type": "tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": raw_input}
    if kind in SERVER_CALLS:
        return {"type": "server_tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": raw_input}
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        response = block.get("content")
        return {"type": "server_tool_call_response", "id": block.get("tool_use_id"), "name": kind, "response": response}
    return dict(block)


def fold_anthropic(body: bytes, status: int) -> Folded:
    """Fold an Anthropic Messages answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    message = parse_object(body)
    if message is None:
        return malformed(body, status, "message")
    if message.get("type") == "error":
        return Folded(complete=False, error=error_of(message.get("error"), status))
    if not isinstance(message.get("content"), list):
        return replace(fold_message(message, [], None, ["the answer has no content"]), complete=False)
    return fold_message(message, _blocks(body, message), None, [])


def _blocks(body: bytes, message: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The content blocks of a plain answer, each with the exact text of its `input`."""
    blocks = as_objects(message.get("content"))
    inputs = raw_inputs(text_of(body), 0) if any("input" in block for block in blocks) else []
    if len(inputs) != len(blocks):
        inputs = written_inputs(blocks)
    return list(zip(blocks, inputs, strict=True))


def raw_inputs(text: str, start: int) -> list[str]:
    """For each object in `content` of the object at `start`: the text of its `input`, empty where it has none.

    Empty when the text cannot be walked (it is nested too deeply).
    """
    found: list[str] = []
    try:
        content = member(text, start, "content")
        if content is None or not isinstance(content.value, list):
            return []
        for span in elements(text, content.start):
            if isinstance(span.value, dict):
                inner = member(text, span.start, "input") if "input" in span.value else None
                found.append(text[inner.start : inner.end] if inner else "")
    except ValueError:
        return []
    return found


def written_inputs(blocks: list[dict[str, Any]]) -> list[str]:
    """The inputs of `blocks` written anew: for where their own text cannot be had."""
    return [compact(block["input"]) if "input" in block else "" for block in blocks]


def answering_model(model: Any, blocks: list[dict[str, Any]]) -> str | None:
    """The model that answered: the last one a `fallback` block leads to, else `model`."""
    for block in reversed(blocks):
        if block.get("type") == "fallback":
            return as_text(as_object(block.get("to")).get("model")) or as_text(model)
    return as_text(model)


def usage_of(usage: Any) -> Usage | None:
    """The counts of an Anthropic usage object; `input_tokens` leaves the cached tokens out, as on the wire."""
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cache_read_input_tokens=as_count(usage.get("cache_read_input_tokens")),
        cache_creation_input_tokens=as_count(usage.get("cache_creation_input_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
