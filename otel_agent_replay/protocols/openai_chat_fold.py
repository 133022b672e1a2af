"""Chat Completions answers, streamed or not, folded into one value.

A plain answer is read as a stream of one delta a choice, so both forms share every rule. Rules that real providers
force: fragments of a tool call go by `index`, never by place; without an index, or with another id at the same index,
a new id starts a new call; null adds nothing; the end of the body is no success by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.protocols.folded import Folded, Message, Part, ProviderError, ToolCall, Usage
from otel_agent_replay.protocols.json_text import (
    as_count,
    as_object,
    as_objects,
    as_text,
    check_arguments,
    parse_object,
)
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.text import TextPieces, join


class CallPieces:
    """One tool call while its fragments arrive."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments = TextPieces()

    def add(self, call_id: Any, name: Any, arguments: Any) -> None:
        """Take one fragment: the first id wins, names and arguments are put together; a repeated name is one name."""
        if call_id and self.id is None:
            self.id = str(call_id)
        if name and name != self.name:
            self.name += str(name)
        if isinstance(arguments, str):
            self.arguments.add(arguments)
        elif arguments is not None:
            self.arguments.add_value(arguments)


class Choice:
    """One choice while its deltas arrive."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.role = "assistant"
        self.finish_reason: str | None = None
        self.text = TextPieces()
        self.reasoning = TextPieces()
        self.refusal = TextPieces()
        self.calls: list[CallPieces] = []
        self.others: list[Part] = []
        self._by_index: dict[int, CallPieces] = {}

    def add(self, delta: Mapping[str, Any], problems: list[str], *, whole: bool) -> None:
        """Take one delta, or with `whole` a finished message, whose tool calls go by place."""
        if isinstance(delta.get("role"), str):
            self.role = delta["role"]
        self._add_content(delta.get("content"), problems)
        self.refusal.add(delta.get("refusal"))
        self._add_reasoning(delta)
        for place, fragment in enumerate(as_objects(delta.get("tool_calls"))):
            self._add_call(fragment, place if whole else None, problems)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and (legacy.get("name") or legacy.get("arguments")):
            self._call_at(-1, None, None, problems).add(None, legacy.get("name"), legacy.get("arguments"))
        if isinstance(delta.get("audio"), dict):
            self.text.add(delta["audio"].get("transcript"))

    def _add_content(self, content: Any, problems: list[str]) -> None:
        if content is None or isinstance(content, str):
            self.text.add(content)
            return
        for part in content if isinstance(content, list) else [content]:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind == "text":
                self.text.add(part.get("text"))
            elif kind == "thinking":
                thinking = part.get("thinking")
                for piece in thinking if isinstance(thinking, list) else [thinking]:
                    self.reasoning.add(piece.get("text") if isinstance(piece, Mapping) else piece)
            else:
                problems.append(f"content of choice {self.index} has a part of unknown type {kind!r}")
                if isinstance(part, dict):
                    self.others.append(dict(part))

    def _add_reasoning(self, delta: Mapping[str, Any]) -> None:
        for key in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str) and delta[key]:
                self.reasoning.add(delta[key])
                return
        for detail in as_objects(delta.get("reasoning_details")):
            self.reasoning.add(detail.get("text") or detail.get("summary"))

    def _add_call(self, fragment: Mapping[str, Any], place: int | None, problems: list[str]) -> None:
        body = as_object(fragment.get("function")) or as_object(fragment.get("custom"))
        index = place if place is not None else fragment.get("index")
        call = self._call_at(index, fragment.get("id"), body.get("name"), problems, by_place=place is not None)
        call.add(fragment.get("id"), body.get("name"), body.get("arguments", body.get("input")))

    def _call_at(
        self, index: Any, call_id: Any, name: Any, problems: list[str], *, by_place: bool = False
    ) -> CallPieces:
        if isinstance(index, int):
            known = self._by_index.get(index)
            if known is not None and call_id and name and known.id not in (None, call_id) and not by_place:
                problems.append(f"tool call index {index} is used by {known.id!r} and by {call_id!r}")
                known = None
            if known is None:
                known = self._by_index[index] = CallPieces()
                self.calls.append(known)
            return known
        if self.calls and (not call_id or self.calls[-1].id == call_id):
            return self.calls[-1]
        same = next((call for call in self.calls if call_id and call.id == call_id), None)
        if same is None:
            same = CallPieces()
            self.calls.append(same)
        return same


class ChatReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.choices: dict[int, Choice] = {}
        self.response_id: str | None = None
        self.model: str | None = None
        self.usage: Mapping[str, Any] | None = None
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take a `chat.completion.chunk`, a `chat.completion` or an error object."""
        self.response_id = self.response_id or as_text(value.get("id"))
        self.model = self.model or as_text(value.get("model"))
        if value.get("error") or name == "error":
            self.error = self.error or error_of(value.get("error") or value, self.status)
        usage = usage_in(value)
        if usage is not None:
            self.usage = usage
        for choice in as_objects(value.get("choices")):
            self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        state = self.choices.setdefault(index, Choice(index))
        if isinstance(choice.get("message"), dict):
            state.add(choice["message"], self.problems, whole=True)
        elif isinstance(choice.get("delta"), dict):
            state.add(choice["delta"], self.problems, whole=False)
        if choice.get("finish_reason"):
            state.finish_reason = str(choice["finish_reason"])
        if choice.get("error"):
            self.error = self.error or error_of(choice["error"], self.status)

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. `ended` says that the body was whole by its own account: JSON that parsed, or `[DONE]`."""
        self.problems.extend(problems)
        choices = [self.choices[index] for index in sorted(self.choices)]
        finished = bool(choices) and all(choice.finish_reason for choice in choices)
        error = self.error
        if error is None and not ended and not finished:
            error = ProviderError(TRUNCATED)
        if not choices and error is None:
            self.problems.append("the answer has no choices")
        messages = [self._message(choice) for choice in choices]
        first = choices[0] if choices else Choice(0)
        return Folded(
            complete=error is None and (finished or (ended and bool(choices))),
            finish_reason=first.finish_reason,
            text=join(first.text, "text", self.problems),
            reasoning=join(first.reasoning, "reasoning", self.problems) or None,
            refusal=join(first.refusal, "refusal", self.problems) or None,
            tool_calls=tuple(_tool_call(call, self.problems) for call in first.calls),
            usage=usage_of(self.usage),
            error=error,
            response_id=self.response_id,
            model=self.model,
            output_messages=tuple(messages),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _message(self, choice: Choice) -> Message:
        parts: list[Part] = []
        for kind, pieces in (("reasoning", choice.reasoning), ("text", choice.text), ("refusal", choice.refusal)):
            content = join(pieces, kind, self.problems)
            if content:
                parts.append({"type": kind, "content": content})
        parts.extend(choice.others)
        for call in choice.calls:
            arguments = join(call.arguments, "arguments", self.problems)
            parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
        return {"role": choice.role, "parts": parts, "finish_reason": choice.finish_reason}


def fold_chat(body: bytes, status: int) -> Folded:
    """Fold a Chat Completions answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "chat completion")
    reducer = ChatReducer(status)
    reducer.add("message", answer)
    return reducer.result(ended=True)


def usage_in(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The usage object of a chunk or answer, also where Groq and Moonshot put it."""
    usage = value.get("usage")
    if usage is None and isinstance(value.get("x_groq"), dict):
        usage = value["x_groq"].get("usage")
    if usage is None:
        usage = next((choice["usage"] for choice in as_objects(value.get("choices")) if choice.get("usage")), None)
    return usage if isinstance(usage, Mapping) else None


def usage_of(usage: Mapping[str, Any] | None) -> Usage | None:
    """The counts of a Chat Completions usage object."""
    if usage is None:
        return None
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    cached = prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        cache_read_input_tokens=as_count(cached),
        cache_creation_input_tokens=as_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=as_count(completion.get("reasoning_tokens")),
    )


def _tool_call(call: CallPieces, problems: list[str]) -> ToolCall:
    raw = join(call.arguments, "arguments", problems)
    valid, oddity = check_arguments(raw)
    if oddity:
        problems.append(f"arguments of tool call {call.id!r} have {oddity}")
    return ToolCall(call.id, call.name, raw, valid)
