"""Bedrock Converse answers, streamed or not, folded into one value.

Also those of Amazon Nova by `InvokeModel`, which has the same shapes. Blocks go by `contentBlockIndex`; a text block
has no start of its own. An exception frame fails a call whose HTTP status was 200. The answer names no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from otel_agent_replay.protocols.aws_stream import MESSAGE_TYPE, stream_error
from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall, Usage, joined_content
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
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of_body, malformed
from otel_agent_replay.protocols.raw_arguments import with_raw_arguments
from otel_agent_replay.protocols.text import TextPieces, join

EVENTS: Final = frozenset(
    ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")
)
TOOL_INPUT: Final = ("toolUse", "input")
"""The path from a block to the input of its tool."""

_REASONING: Final = ("text", "signature", "redactedContent")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")


class Block:
    """One content block while its deltas arrive."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.text = TextPieces()
        self.input = TextPieces()
        self.reasoning: dict[str, TextPieces] = {}
        self.results: list[Any] = []
        self.citations: list[Any] = []
        self.has_text = False

    def add(self, delta: dict[str, Any], problems: list[str]) -> None:
        """Take one delta."""
        for kind, value in delta.items():
            if kind == "text":
                self.has_text = True
                self.text.add(value)
            elif kind == "toolUse":
                self.start.setdefault("toolUse", {})
                self.input.add(as_object(value).get("input"))
            elif kind == "reasoningContent":
                for field, piece in as_object(value).items():
                    if field not in _REASONING:
                        problems.append(f"unknown reasoning field {field!r}")
                    self.reasoning.setdefault(field, TextPieces()).add(piece)
            elif kind == "toolResult":
                self.results.extend(value if isinstance(value, list) else [value])
            elif kind == "citation":
                self.citations.append(value)
            else:
                problems.append(f"unknown delta type {kind!r}")

    def block(self, problems: list[str]) -> dict[str, Any]:
        """The block as a plain answer would hold it, its tool input as the text that came."""
        done = dict(self.start)
        if "toolUse" in done:
            done["toolUse"] = {**as_object(done["toolUse"]), "input": join(self.input, "tool input", problems)}
        if self.has_text:
            done["text"] = join(self.text, "text", problems)
        if self.reasoning:
            fields = {name: join(pieces, name, problems) for name, pieces in self.reasoning.items()}
            redacted = fields.pop("redactedContent", None)
            reasoning: dict[str, Any] = {"reasoningText": fields} if fields else {}
            done["reasoningContent"] = reasoning | ({} if redacted is None else {"redactedContent": redacted})
        if self.results:
            done["toolResult"] = {**as_object(done.get("toolResult")), "content": self.results}
        if self.citations:
            done["citations"] = self.citations
        return done


class ConverseReducer:
    """Takes the events of one stream in order; `result` folds what came."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.message: dict[str, Any] = {}
        self.blocks: dict[int, Block] = {}
        self.stop: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one event: by its name, or under its name where the framing has no names (Nova, server-sent events)."""
        if name == "contentBlockDelta":  # nearly every event
            self._block(value).add(as_object(value.get("delta")), self.problems)
        elif name in EVENTS:
            self._event(name, value)
        elif MESSAGE_TYPE in value:
            self.error = self.error or stream_error(name, value, self.status)
        elif name == "message":
            for kind, inner in value.items():
                if kind in EVENTS:
                    self._event(kind, as_object(inner))
                elif kind.endswith("Exception"):
                    message = as_text(as_object(inner).get("message"))
                    self.error = self.error or ProviderError(kind, message, None, self.status)
        else:
            self.problems.append(f"unknown event type {name!r}")

    def _event(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "contentBlockDelta":
            self._block(event).add(as_object(event.get("delta")), self.problems)
        elif kind == "messageStart":
            self.message = event
        elif kind == "contentBlockStart":
            self._block(event).start.update(as_object(event.get("start")))
        elif kind == "messageStop":
            self.stop = event
        elif kind == "metadata":
            self.metadata.update(event)

    def _block(self, event: dict[str, Any]) -> Block:
        index = as_count(event.get("contentBlockIndex"))
        known = self.blocks.get(index) if index is not None else None
        if known is None:
            known = self.blocks[len(self.blocks) if index is None else index] = Block()
        return known

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:  # noqa: ARG002 - no end mark of its own
        """Fold. A stream without `messageStop` was cut."""
        self.problems.extend(problems)
        blocks = [self.blocks[index].block(self.problems) for index in sorted(self.blocks)]
        error = self.error
        if error is None and not self.stop.get("stopReason"):
            error = ProviderError(TRUNCATED)
        usage = self.metadata.get("usage")
        return fold_converse_message(self.message, blocks, self.stop.get("stopReason"), usage, error, self.problems)


def fold_converse(body: bytes, status: int) -> Folded:
    """Fold a Converse answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "Converse answer")
    answer = with_raw_arguments(text_of(body), answer, ("output", "message", "content"), TOOL_INPUT)
    message = as_object(as_object(answer.get("output")).get("message"))
    blocks = as_objects(message.get("content"))
    folded = fold_converse_message(message, blocks, answer.get("stopReason"), answer.get("usage"), None, [])
    if not isinstance(message.get("content"), list):
        return replace(folded, complete=False, problems=(*folded.problems, "the answer has no content"))
    return folded


def fold_converse_message(
    message: dict[str, Any],
    blocks: list[dict[str, Any]],
    stop: Any,
    usage: Any,
    error: ProviderError | None,
    problems: list[str],
) -> Folded:
    """Fold a message whose content is `blocks`; the inputs of tools are the text of the wire."""
    calls: list[ToolCall] = []
    parts: list[Part] = []
    for block in blocks:
        parts.extend(converse_parts(block))
        use = as_object(block.get("toolUse"))
        if "toolUse" in block and use.get("type") not in _SERVER_CALLS:
            raw = _input(use)
            valid, oddity = check_arguments(raw)
            calls.append(ToolCall(as_text(use.get("toolUseId")), str(use.get("name") or ""), raw, valid))
            if oddity:
                problems.append(f"arguments of tool call {use.get('toolUseId')!r} have {oddity}")
    reason = as_text(stop)
    role = as_text(message.get("role")) or "assistant"
    return Folded(
        complete=error is None,
        finish_reason=reason,
        text=joined_content(parts, "text"),
        reasoning=joined_content(parts, "reasoning") or None,
        tool_calls=tuple(calls),
        usage=converse_usage(usage),
        error=error,
        output_messages=({"role": role, "parts": parts, "finish_reason": reason},),
        problems=tuple(dict.fromkeys(problems)),
    )


def _input(use: dict[str, Any]) -> str:
    given = use.get("input")
    return given if isinstance(given, str) else "" if given is None else compact(given)


def converse_parts(block: dict[str, Any]) -> list[Part]:
    """A content block in OpenTelemetry's form; what has no form there stays as it is."""
    parts: list[Part] = []
    for kind, value in block.items():
        inner = as_object(value)
        if kind == "text":
            cited = {"citations": block["citations"]} if "citations" in block else {}
            parts.append({"type": "text", "content": str(value or ""), **cited})
        elif kind == "reasoningContent":
            text = as_object(inner.get("reasoningText"))
            part: Part = {"type": "reasoning", "content": str(text.get("text") or "")}
            for name in ("signature", "redactedContent"):
                found = text.get(name) or inner.get(name)
                part |= {name: found} if found else {}
            parts.append(part)
        elif kind == "toolUse":
            named = "server_tool_call" if inner.get("type") in _SERVER_CALLS else "tool_call"
            call = {"type": named, "id": inner.get("toolUseId"), "name": inner.get("name"), "arguments": _input(inner)}
            parts.append(call)
        elif kind == "toolResult":
            parts.append(_result(inner))
        elif kind == "citationsContent":
            said = "".join(str(item.get("text") or "") for item in as_objects(inner.get("content")))
            parts.append({"type": "text", "content": said, "citations": inner.get("citations")})
        elif kind != "citations":
            parts.append({"type": kind, "content": value})
    return parts


def _result(result: dict[str, Any]) -> Part:
    server = str(result.get("type") or "").endswith("_result")
    part: Part = {
        "type": "server_tool_call_response" if server else "tool_call_response",
        "id": result.get("toolUseId"),
        "response": result.get("content"),
    }
    return part | ({"is_error": True} if result.get("status") == "error" else {})


def converse_usage(usage: Any) -> Usage | None:
    """The counts of a Converse usage object; `inputTokens` leaves the cached tokens out, as on the wire."""
    if not isinstance(usage, dict):
        return None

    def cached(kind: str) -> int | None:
        return as_count(usage.get(f"cache{kind}InputTokens", usage.get(f"cache{kind}InputTokenCount")))

    return Usage(
        input_tokens=as_count(usage.get("inputTokens")),
        output_tokens=as_count(usage.get("outputTokens")),
        cache_read_input_tokens=cached("Read"),
        cache_creation_input_tokens=cached("Write"),
    )
