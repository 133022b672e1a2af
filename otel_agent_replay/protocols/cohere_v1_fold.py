"""Cohere's answers of API version 1 (`/v1/chat`): JSON lines or server-sent events, or one object, folded.

The last event holds the whole answer, which is taken when it is there; until then it is built from what came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otel_agent_replay.protocols.call_pieces import CallPieces, whole_call
from otel_agent_replay.protocols.cohere_fold import failure, usage_of
from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall
from otel_agent_replay.protocols.json_lines import JsonLines, ends_of, is_json_lines
from otel_agent_replay.protocols.json_text import (
    as_count,
    as_object,
    as_objects,
    as_text,
    compact,
    parse_object,
    text_of,
)
from otel_agent_replay.protocols.one_message import one_message
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.raw_arguments import with_raw_arguments
from otel_agent_replay.protocols.stream import JsonStream, NamedObject, ObjectStream, is_stream, objects_of
from otel_agent_replay.protocols.text import TextPieces, join

_KEPT = ("citations", "documents", "search_results", "search_queries")
_SILENT = ("search-queries-generation", "search-results", "citation-generation", "debug")


class CohereV1Reducer:
    """Takes the events of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.generation_id: str | None = None
        self.text = TextPieces()
        self.pieces: dict[int, CallPieces] = {}
        self.calls: list[dict[str, Any]] = []
        self.kept: dict[str, list[Any]] = {}
        self.end: dict[str, Any] | None = None
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one event."""
        kind = value.get("event_type") or name
        self.generation_id = self.generation_id or as_text(value.get("generation_id"))
        self._keep(value)
        if kind == "text-generation":
            self.text.add(value.get("text"))
        elif kind == "tool-calls-chunk":
            self._chunk(as_object(value.get("tool_call_delta")))
        elif kind == "tool-calls-generation":
            self.calls = as_objects(value.get("tool_calls"))
        elif kind == "stream-end":
            self.end = {**as_object(value.get("response")), "finish_reason": value.get("finish_reason")}
            self.end["error"] = value.get("error")
            self._keep(self.end)
        elif kind != "stream-start" and "event_type" not in value:
            self.error = self.error or error_of(value.get("error") or value, self.status)
        elif kind not in ("stream-start", *_SILENT):
            self.problems.append(f"unknown event type {kind!r}")

    def add_whole(self, answer: dict[str, Any]) -> None:
        """Take an answer that is no stream."""
        self.end = answer
        self._keep(answer)

    def _chunk(self, delta: dict[str, Any]) -> None:
        call = self.pieces.setdefault(as_count(delta.get("index")) or 0, CallPieces())
        call.add(None, delta.get("name"), delta.get("parameters"))

    def _keep(self, value: dict[str, Any]) -> None:
        for name in _KEPT:
            if isinstance(value.get(name), list):
                known = self.kept.setdefault(name, [])
                known.extend(item for item in value[name] if item not in known)

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. Only `stream-end` ends a stream."""
        del ended
        self.problems.extend(problems)
        end = self.end or {}
        reason = as_text(end.get("finish_reason"))
        error = self.error or failure(reason, end.get("error"), self.status)
        if error is None and self.end is None:
            error = ProviderError(TRUNCATED)
        others: list[Part] = [{"type": name, name: items} for name, items in self.kept.items() if items]
        return one_message(
            text=as_text(end.get("text")) or join(self.text, "text", self.problems),
            calls=self._tool_calls(end),
            others=others,
            finish_reason=reason,
            usage=usage_of(end.get("meta")),
            error=error,
            response_id=as_text(end.get("response_id")) or self.generation_id,
            problems=self.problems,
        )

    def _tool_calls(self, end: dict[str, Any]) -> list[ToolCall]:
        calls = as_objects(end.get("tool_calls")) or self.calls
        if not calls:
            return [self.pieces[index].whole(self.problems) for index in sorted(self.pieces)]
        return [whole_call(None, str(call.get("name") or ""), _raw(call), self.problems) for call in calls]


def _raw(call: dict[str, Any]) -> str:
    parameters = call.get("parameters")
    return parameters if isinstance(parameters, str) else "" if parameters is None else compact(parameters)


def cohere_v1_framing(start: bytes, media_type: str) -> ObjectStream | None:
    """Lines by their media type, events by their look; any other body is kept until its end."""
    if is_json_lines(start, media_type):
        return JsonLines(read_v1)
    return JsonStream(read_v1) if is_stream(start, media_type) else None


def cohere_v1_glance(body: bytes, media_type: str) -> Iterator[NamedObject]:
    """The first and the last line; of server-sent events, which few ask for, all."""
    if is_json_lines(body[:64], media_type):
        return objects_of(JsonLines(read_v1), ends_of(body))
    return objects_of(JsonStream(read_v1), body)


def fold_cohere_v1(body: bytes, status: int) -> Folded:
    """Fold an answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None or not ("text" in answer or "tool_calls" in answer):
        return malformed(body, status, "answer of Cohere")
    reducer = CohereV1Reducer(status)
    reducer.add_whole(read_v1(text_of(body), answer))
    return reducer.result(ended=True)


def read_v1(text: str, value: dict[str, Any]) -> dict[str, Any]:
    """`value` with the parameters of its calls as text of the wire."""
    for holder in (("tool_calls",), ("response", "tool_calls")):
        with_raw_arguments(text, value, holder, ("parameters",))
    return value
