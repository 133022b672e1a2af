"""Ollama's answers (`/api/chat`, `/api/generate`): JSON lines, or one object where no stream was asked for.

Both endings are alike: `done` ends the answer, with the counts beside it. Tool calls come whole, each with its
arguments as an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otel_agent_replay.protocols.call_pieces import whole_call
from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall, Usage
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
from otel_agent_replay.protocols.stream import NamedObject, objects_of
from otel_agent_replay.protocols.text import TextPieces, join


class OllamaReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.last: dict[str, Any] = {}
        self.model: str | None = None
        self.role: str | None = None
        self.done = False
        self.text = TextPieces()
        self.thinking = TextPieces()
        self.calls: list[ToolCall] = []
        self.images: list[Part] = []
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one line: of `/api/chat` with a `message`, of `/api/generate` with a `response`, or an error."""
        del name
        if self.model is None:
            self.model = as_text(value.get("model"))
        message = value.get("message")
        if isinstance(message, dict):
            plain = len(message) == 2 and "role" in message and "content" in message
            self.text.add(message.get("content"))
            if not plain or self.role is None:
                self._message(message)
        else:
            self.text.add(value.get("response"))
            self.thinking.add(value.get("thinking"))
        if value.get("done") is True:
            self.done = True
            self.last = value
        if value.get("error"):
            self.error = self.error or error_of(value["error"], self.status)

    def _message(self, message: dict[str, Any]) -> None:
        self.role = self.role or as_text(message.get("role"))
        self.thinking.add(message.get("thinking"))
        for call in as_objects(message.get("tool_calls")):
            self._call(call)
        if isinstance(message.get("images"), list):
            self.images += [{"type": "blob", "modality": "image", "content": image} for image in message["images"]]

    def _call(self, call: dict[str, Any]) -> None:
        function = as_object(call.get("function"))
        arguments = function.get("arguments")
        raw = arguments if isinstance(arguments, str) else "" if arguments is None else compact(arguments)
        self.calls.append(whole_call(as_text(call.get("id")), str(function.get("name") or ""), raw, self.problems))

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. Without `done` the answer was cut, however its lines ended."""
        del ended
        self.problems.extend(problems)
        error = self.error
        if error is None and not self.done:
            error = ProviderError(TRUNCATED)
        return one_message(
            text=join(self.text, "text", self.problems),
            reasoning=join(self.thinking, "reasoning", self.problems),
            calls=self.calls,
            others=self.images,
            role=self.role,
            finish_reason=as_text(self.last.get("done_reason")),
            usage=_usage(self.last),
            error=error,
            model=self.model,
            problems=self.problems,
        )


def ollama_framing(start: bytes, media_type: str) -> JsonLines | None:
    """Lines by their media type; any other body is kept until its end."""
    return JsonLines(_read) if is_json_lines(start, media_type) else None


def ollama_glance(body: bytes, media_type: str) -> Iterator[NamedObject]:
    """The first and the last line: model, and the end with its counts."""
    del media_type
    return objects_of(JsonLines(_read), ends_of(body))


def fold_ollama(body: bytes, status: int) -> Folded:
    """Fold an answer that was not announced as lines; it may be lines all the same. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    reducer = OllamaReducer(status)
    whole = parse_object(body)
    if whole is not None:
        reducer.add("message", _read(text_of(body), whole))
        return reducer.result(ended=True)
    lines = JsonLines(_read)
    values = list(objects_of(lines, body))
    if not values:
        return malformed(body, status, "answer of Ollama")
    for name, value in values:
        reducer.add(name, value)
    return reducer.result(ended=False, problems=lines.problems)


def _read(text: str, value: dict[str, Any]) -> dict[str, Any]:
    if '"tool_calls"' not in text:
        return value
    return with_raw_arguments(text, value, ("message", "tool_calls"), ("function", "arguments"))


def _usage(last: dict[str, Any]) -> Usage | None:
    """The counts of the last line. A prompt that was cached whole has no count."""
    given, made = as_count(last.get("prompt_eval_count")), as_count(last.get("eval_count"))
    return None if given is None and made is None else Usage(input_tokens=given, output_tokens=made)
