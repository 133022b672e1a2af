"""Cohere's answers of API version 2 (`/v2/chat`), streamed or not, folded into one value.

The plan that precedes tool calls is reasoning. Counts are the billed ones, as OpenTelemetry wants where a provider
tells both: `tokens`, and `cached_tokens` within them, count the provider's own template too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.protocols.call_pieces import CallPieces
from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, Usage
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects, as_text, compact, parse_object
from otel_agent_replay.protocols.one_message import one_message
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.text import TextPieces, join

FAILURES = ("ERROR", "ERROR_TOXIC", "ERROR_LIMIT", "TIMEOUT", "USER_CANCEL")
"""Finish reasons that are failures, in both versions of the API."""

_SILENT = ("content-end", "tool-call-end", "citation-end", "debug")
_CONTENT = ("text", "thinking")


class CohereReducer:
    """Takes the events of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.response_id: str | None = None
        self.role: str | None = None
        self.text = TextPieces()
        self.reasoning = TextPieces()
        self.calls: dict[int, CallPieces] = {}
        self.others: list[Part] = []
        self.citations: list[Any] = []
        self.end: dict[str, Any] = {}
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one event."""
        kind = value.get("type") or name
        delta = as_object(value.get("delta"))
        message = as_object(delta.get("message"))
        if kind == "message-start":
            self.response_id = as_text(value.get("id")) or as_text(message.get("id"))
            self.role = as_text(message.get("role"))
        elif kind in ("content-start", "content-delta"):
            self._content(as_object(message.get("content")), whole=False)
        elif kind == "tool-plan-delta":
            self.reasoning.add(message.get("tool_plan"))
        elif kind in ("tool-call-start", "tool-call-delta"):
            self._call(as_count(value.get("index")) or 0, as_object(message.get("tool_calls")))
        elif kind == "citation-start":
            self.citations.append(message.get("citations"))
        elif kind == "message-end":
            self.end = delta
        elif kind == "error" or "type" not in value:
            self.error = self.error or error_of(value.get("error") or value, self.status)
        elif kind not in _SILENT:
            self.problems.append(f"unknown event type {kind!r}")

    def add_whole(self, answer: dict[str, Any]) -> None:
        """Take an answer that is no stream."""
        message = as_object(answer.get("message"))
        self.response_id, self.role, self.end = as_text(answer.get("id")), as_text(message.get("role")), answer
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            self._content(as_object(part), whole=True)
        self.reasoning.add(message.get("tool_plan"))
        for place, call in enumerate(as_objects(message.get("tool_calls"))):
            self._call(place, call)
        citations = message.get("citations")
        self.citations.extend(citations if isinstance(citations, list) else ())

    def _content(self, content: dict[str, Any], *, whole: bool) -> None:
        self.text.add(content.get("text"))
        self.reasoning.add(content.get("thinking"))
        kind = content.get("type")
        if kind not in (*_CONTENT, None) or (whole and kind is None):
            self.problems.append(f"content has a part of unknown type {kind!r}")
            self.others.append(dict(content))

    def _call(self, index: int, fragment: dict[str, Any]) -> None:
        function = as_object(fragment.get("function"))
        call = self.calls.setdefault(index, CallPieces())
        call.add(fragment.get("id"), function.get("name"), function.get("arguments"))

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. Only `message-end` ends an answer."""
        del ended
        self.problems.extend(problems)
        reason = as_text(self.end.get("finish_reason"))
        error = self.error or failure(reason, self.end.get("error"), self.status)
        if error is None and reason is None:
            error = ProviderError(TRUNCATED)
        others = [*self.others, *([{"type": "citations", "citations": self.citations}] if self.citations else [])]
        return one_message(
            text=join(self.text, "text", self.problems),
            reasoning=join(self.reasoning, "reasoning", self.problems),
            calls=[self.calls[index].whole(self.problems) for index in sorted(self.calls)],
            others=others,
            role=self.role,
            finish_reason=reason,
            usage=usage_of(self.end.get("usage")),
            error=error,
            response_id=self.response_id,
            problems=self.problems,
        )


def fold_cohere(body: bytes, status: int) -> Folded:
    """Fold an answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None or not isinstance(answer.get("message"), dict):
        return malformed(body, status, "answer of Cohere")
    reducer = CohereReducer(status)
    reducer.add_whole(answer)
    return reducer.result(ended=True)


def failure(reason: str | None, message: Any, status: int) -> ProviderError | None:
    """The error that a finish reason means, or None."""
    if reason not in FAILURES:
        return None
    text = message if isinstance(message, str) or message is None else compact(message)
    return ProviderError(reason, text, None, status)


def usage_of(usage: Any) -> Usage | None:
    """The billed counts of a `usage` (version 2) or `meta` (version 1), else those of the model."""
    usage = as_object(usage)
    for name in ("billed_units", "tokens"):
        counts = as_object(usage.get(name))
        given, made = as_count(counts.get("input_tokens")), as_count(counts.get("output_tokens"))
        if given is not None or made is not None:
            return Usage(input_tokens=given, output_tokens=made)
    return None
