"""Chat Completions answers, streamed or not, folded into one value.

A plain answer is read as a stream of one delta a choice, so both forms share every rule; the end of the body is no
success by itself. What compatible providers add is taken by name: usage of Groq, Moonshot, Mistral and Together,
sources of Perplexity and OpenRouter, the message that Writer repeats beside each delta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.protocols.folded import Folded, Message, Part, ProviderError
from otel_agent_replay.protocols.json_text import as_objects, as_text, parse_object
from otel_agent_replay.protocols.openai_chat_choice import Choice
from otel_agent_replay.protocols.openai_chat_usage import usage_in, usage_of
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.text import join

FAILED = "error"
"""A finish reason that is a failure: OpenRouter and Mistral end a stream with it."""

# Lists of sources beside the choices, whole in every chunk: Perplexity, Z.ai.
_SOURCES = ("citations", "search_results", "web_search")


class ChatReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int, *, streamed: bool = True) -> None:
        self.status = status
        self.streamed = streamed
        self.choices: dict[int, Choice] = {}
        self.sources: dict[str, list[Any]] = {}
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
        for source in _SOURCES:
            if isinstance(value.get(source), list) and value[source]:
                self.sources[source] = value[source]
        for choice in as_objects(value.get("choices")):
            self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        state = self.choices.setdefault(index, Choice(index))
        # Of both, the one that fits: Writer repeats each delta as a message, Perplexity puts an empty delta beside one.
        for form in ("delta", "message") if self.streamed else ("message", "delta"):
            if isinstance(choice.get(form), dict):
                state.add(choice[form], self.problems, whole=form == "message")
                break
        if choice.get("finish_reason"):
            state.finish_reason = str(choice["finish_reason"])
        self.error = self.error or error_in(choice, self.status)

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
        calls = [[call.whole(self.problems) for call in choice.calls] for choice in choices]
        messages = [choice.message(made, self.problems) for choice, made in zip(choices, calls, strict=True)]
        first = choices[0] if choices else Choice(0)
        return Folded(
            complete=error is None and (finished or (ended and bool(choices))),
            finish_reason=first.finish_reason,
            text=join(first.text, "text", self.problems),
            reasoning=join(first.reasoning, "reasoning", self.problems) or None,
            refusal=join(first.refusal, "refusal", self.problems) or None,
            tool_calls=tuple(calls[0]) if calls else (),
            usage=usage_of(self.usage),
            error=error,
            response_id=self.response_id,
            model=self.model,
            output_messages=tuple(self._with_sources(messages)),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _with_sources(self, messages: list[Message]) -> list[Message]:
        parts: list[Part] = [{"type": source, source: items} for source, items in self.sources.items()]
        if not messages or not parts:
            return messages
        return [{**messages[0], "parts": [*messages[0]["parts"], *parts]}, *messages[1:]]


def error_in(choice: Mapping[str, Any], status: int) -> ProviderError | None:
    """The error that a choice ended with, or None."""
    if choice.get("error"):
        return error_of(choice["error"], status)
    return ProviderError(FAILED, None, None, status) if choice.get("finish_reason") == FAILED else None


def fold_chat(body: bytes, status: int) -> Folded:
    """Fold a Chat Completions answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "chat completion")
    reducer = ChatReducer(status, streamed=False)
    reducer.add("message", answer)
    return reducer.result(ended=True)
