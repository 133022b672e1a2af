"""Text models on Bedrock by InvokeModel: Amazon Titan, Meta Llama, Cohere Command, Mistral, Claude before Messages.

One reducer for all: each object of an answer adds text, a finish reason and counts to the choices it names, and each
maker's spelling of these is one function. What came in none of these spellings is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from otel_agent_replay.protocols.folded import Folded, Message, ProviderError, Usage
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects, as_text
from otel_agent_replay.protocols.provider_error import TRUNCATED
from otel_agent_replay.protocols.text import TextPieces, join

METRICS: Final = "amazon-bedrock-invocationMetrics"
"""What Bedrock itself adds to the last object of a stream."""


class Piece(NamedTuple):
    """What one object says of one choice."""

    choice: int = 0
    text: Any = None
    reason: Any = None
    usage: Usage | None = None


def _titan(value: dict[str, Any]) -> Iterator[Piece]:
    results = as_objects(value.get("results"))
    asked = as_count(value.get("inputTextTokenCount"))
    if "outputText" in value:
        usage = Usage(asked, as_count(value.get("totalOutputTextTokenCount")))
        yield Piece(as_count(value.get("index")) or 0, value["outputText"], value.get("completionReason"), usage)
    for index, result in enumerate(results):
        usage = Usage(asked, as_count(result.get("tokenCount")))
        yield Piece(index, result.get("outputText"), result.get("completionReason"), usage)


def _llama(value: dict[str, Any]) -> Iterator[Piece]:
    asked, made = value.get("prompt_token_count"), value.get("generation_token_count")
    usage = None if asked is None and made is None else Usage(as_count(asked), as_count(made))
    yield Piece(0, value.get("generation"), value.get("stop_reason"), usage)


def _claude(value: dict[str, Any]) -> Iterator[Piece]:
    yield Piece(0, value.get("completion"), value.get("stop_reason"))


def _cohere_generations(value: dict[str, Any]) -> Iterator[Piece]:
    for index, generation in enumerate(as_objects(value.get("generations"))):
        yield Piece(index, generation.get("text"), generation.get("finish_reason"))


def _cohere_text(value: dict[str, Any]) -> Iterator[Piece]:
    yield Piece(as_count(value.get("index")) or 0, value.get("text"), value.get("finish_reason"))


def _mistral(value: dict[str, Any]) -> Iterator[Piece]:
    for index, output in enumerate(as_objects(value.get("outputs"))):
        yield Piece(index, output.get("text"), output.get("stop_reason"))


# By the member that only this maker's answers have. The order matters where an answer has two of them; a stream keeps
# the spelling that it began with while it has its member.
_SPELLINGS: Final[tuple[tuple[str, Callable[[dict[str, Any]], Iterator[Piece]]], ...]] = (
    ("outputText", _titan),
    ("results", _titan),
    ("generation", _llama),
    ("completion", _claude),
    ("generations", _cohere_generations),
    ("outputs", _mistral),
    ("text", _cohere_text),
    ("is_finished", _cohere_text),
)
_EVENTS_WITHOUT_TEXT: Final = ("stream-start", "search-queries-generation", "search-results", "citation-generation")


def is_text_answer(value: dict[str, Any]) -> bool:
    """Whether an object is spelled like an answer of one of these models."""
    return "event_type" in value or any(name in value for name, _ in _SPELLINGS)


@dataclass(slots=True)
class _Choice:
    text: TextPieces = field(default_factory=TextPieces)
    reason: str | None = None


class TextReducer:
    """Takes the objects of one answer in order; `result` folds what came."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.choices: dict[int, _Choice] = {}
        self.usage: Usage | None = None
        self.measured: Usage | None = None
        self.response_id: str | None = None
        self.error: ProviderError | None = None
        self.problems: list[str] = []
        self._spelling = _SPELLINGS[0]

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one object: a piece of a stream, or a whole answer."""
        del name
        if self.response_id is None:
            self.response_id = as_text(value.get("response_id")) or as_text(value.get("id"))
        metrics = as_object(value[METRICS]) if METRICS in value else None
        if metrics:
            counts = [as_count(metrics.get(f"{side}TokenCount")) for side in ("input", "output")]
            self.measured = Usage(*counts)
        if value.get("event_type") in _EVENTS_WITHOUT_TEXT:
            return
        if self._spelling[0] not in value:
            self._spelling = next((one for one in _SPELLINGS if one[0] in value), _SPELLINGS[0])
        if self._spelling[0] in value:
            for piece in self._spelling[1](value):
                self._take(piece)
        elif value.get("event_type") == "stream-end":
            self._take(Piece(0, None, value.get("finish_reason")))
        elif not metrics:
            self.problems.append(f"an object of unknown shape: {', '.join(sorted(value)[:5])}")

    def _take(self, piece: Piece) -> None:
        choice = self.choices.get(piece.choice)
        if choice is None:
            choice = self.choices[piece.choice] = _Choice()
        choice.text.add(piece.text)
        choice.reason = as_text(piece.reason) or choice.reason
        if piece.usage is not None and piece.usage != Usage():
            before = self.usage or Usage()
            self.usage = Usage(
                before.input_tokens if piece.usage.input_tokens is None else piece.usage.input_tokens,
                before.output_tokens if piece.usage.output_tokens is None else piece.usage.output_tokens,
            )

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. A stream in which some choice has no finish reason, and that Bedrock has not measured, was cut."""
        self.problems.extend(problems)
        choices = [self.choices[index] for index in sorted(self.choices)]
        finished = bool(choices) and all(choice.reason for choice in choices)
        error = self.error
        if error is None and not finished and not ended and self.measured is None:
            error = ProviderError(TRUNCATED)
        if not choices and error is None:
            self.problems.append("the answer has no text")
        texts = [join(choice.text, "text", self.problems) for choice in choices]
        messages: list[Message] = [
            {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": choice.reason}
            for text, choice in zip(texts, choices, strict=True)
        ]
        return Folded(
            complete=error is None and bool(choices),
            finish_reason=choices[0].reason if choices else None,
            text=texts[0] if texts else "",
            usage=self.measured or self.usage,
            error=error,
            response_id=self.response_id,
            output_messages=tuple(messages),
            problems=tuple(dict.fromkeys(self.problems)),
        )
