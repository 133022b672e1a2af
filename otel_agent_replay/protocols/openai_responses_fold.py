"""OpenAI Responses answers, streamed or not, folded into one value.

A stream ends with the whole response, which is taken when it is there; until then its items are built from their
deltas, so that a cut stream still gives what had come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, Usage, joined_content
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects, as_text, parse_object
from otel_agent_replay.protocols.openai_responses_items import (
    answered_ids,
    is_tool_call,
    parts_of,
    reasoning_text,
    tool_call,
)
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.text import TextPieces, join

FINAL_STATUS = ("completed", "incomplete", "failed", "cancelled")
_ITEM_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
_CONTENT_TYPES = {
    "response.output_text.delta": ("content", "output_text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text"),
}


class ItemPieces:
    """One output item while its deltas arrive."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.done = False
        self.fields: dict[str, TextPieces] = {}
        self.content: dict[tuple[str, int], tuple[str, TextPieces]] = {}

    def add(self, kind: str, event: dict[str, Any]) -> None:
        """Take one delta event."""
        if kind in _ITEM_FIELDS:
            self.fields.setdefault(_ITEM_FIELDS[kind], TextPieces()).add(event.get("delta"))
        elif kind in _CONTENT_TYPES:
            place, part_type = _CONTENT_TYPES[kind]
            index = as_count(event.get("content_index" if place == "content" else "summary_index")) or 0
            self.content.setdefault((place, index), (part_type, TextPieces()))[1].add(event.get("delta"))

    def item(self, problems: list[str]) -> dict[str, Any]:
        """The item as far as it came."""
        if self.done:
            return self.start
        item = dict(self.start)
        for field, pieces in self.fields.items():
            item[field] = join(pieces, field, problems)
        for place, _ in sorted(self.content):
            item[place] = []
        for (place, _), (part_type, pieces) in sorted(self.content.items()):
            field = "refusal" if part_type == "refusal" else "text"
            item[place].append({"type": part_type, field: join(pieces, part_type, problems)})
        if "type" not in item:
            item["type"] = "message" if self.content else "function_call"
        return item


class ResponseReducer:
    """Takes the events of one stream in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.response: dict[str, Any] = {}
        self.items: dict[int, ItemPieces] = {}
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:  # noqa: ARG002 - the object says its type too
        """Take one event object."""
        event = value
        kind = str(event.get("type") or "")
        if isinstance(event.get("response"), dict):
            self.response = event["response"]
        elif kind == "error" or (not kind and "error" in event):
            self.error = self.error or error_of(as_object(event.get("error")) or {**event, "type": None}, self.status)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            pieces = self._pieces(event)
            pieces.start = dict(as_object(event.get("item")))
            pieces.done = kind.endswith("done")
        elif kind.endswith(".delta"):
            self._pieces(event).add(kind, event)
        elif not kind.startswith("response.") and kind not in ("keepalive", "ping"):
            self.problems.append(f"unknown event type {kind!r}")

    def _pieces(self, event: dict[str, Any]) -> ItemPieces:
        index = as_count(event.get("output_index"))
        return self.items.setdefault(len(self.items) if index is None else index, ItemPieces())

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:  # noqa: ARG002 - no end mark of its own
        """Fold. A stream without a final status was cut."""
        self.problems.extend(problems)
        built = [self.items[index].item(self.problems) for index in sorted(self.items)]
        whole = as_objects(self.response.get("output"))
        if whole and len(whole) < len(built):
            self.problems.append(f"the final response has {len(whole)} items, {len(built)} were streamed")
        error = self.error
        if error is None and self.response.get("status") not in FINAL_STATUS:
            error = ProviderError(TRUNCATED)
        return fold_response(self.response, whole or built, error, self.status, self.problems)


def fold_response(
    response: dict[str, Any],
    items: list[dict[str, Any]],
    error: ProviderError | None,
    http_status: int,
    problems: list[str],
) -> Folded:
    """Fold a response object whose output is `items`."""
    answered = answered_ids(items)
    parts: list[Part] = [part for item in items for part in parts_of(item, answered)]
    if error is None and response.get("error"):
        error = error_of(response["error"], http_status)
    status = as_text(response.get("status"))
    if error is None and status not in ("completed", "incomplete"):
        problems.append(f"the response has status {status!r}")
    reason = finish_reason(response)
    reasoning = [reasoning_text(item) for item in items if item.get("type") == "reasoning"]
    return Folded(
        complete=error is None and status in ("completed", "incomplete"),
        finish_reason=reason,
        text=joined_content(parts, "text"),
        reasoning="\n\n".join(filter(None, reasoning)) or None,
        refusal=joined_content(parts, "refusal") or None,
        tool_calls=tuple(tool_call(item, problems) for item in items if is_tool_call(item, answered)),
        usage=usage_of(response.get("usage")),
        error=error,
        response_id=as_text(response.get("id")),
        model=as_text(response.get("model")),
        output_messages=({"role": "assistant", "parts": parts, "finish_reason": reason},),
        problems=tuple(dict.fromkeys(problems)),
    )


def finish_reason(response: dict[str, Any]) -> str | None:
    """Why the response ended: the reason of an incomplete one, else its status once that is final."""
    reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
    status = as_text(response.get("status"))
    return reason or (status if status in FINAL_STATUS else None)


def fold_responses(body: bytes, status: int) -> Folded:
    """Fold a Responses answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    response = parse_object(body)
    if response is None:
        return malformed(body, status, "response")
    return fold_response(response, as_objects(response.get("output")), None, status, [])


def usage_of(usage: Any) -> Usage | None:
    """The counts of a Responses usage object."""
    if not isinstance(usage, dict):
        return None
    given = as_object(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cache_read_input_tokens=as_count(given.get("cached_tokens")),
        cache_creation_input_tokens=as_count(given.get("cache_write_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
