"""What a request asks for, in no provider's words: the settings around its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.protocols.folded import Message, Part


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The form an answer must have: JSON, of `schema` where one is given."""

    name: str = "answer"
    schema: dict[str, Any] | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for beside the conversation; None where the request does not say.

    `tool_choice` is `auto`, `none`, `required` or `one`, with `tool_name`. `effort` is how much to think, in the
    words low, medium, high, or those of a provider; `thinking_tokens` a bound on it.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    tool_name: str | None = None
    parallel_tool_calls: bool | None = None
    shape: AnswerShape | None = None
    effort: str | None = None
    thinking_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A whole request: the system prompt's parts, the turns after it, the functions offered, and the settings."""

    system: Sequence[Part]
    turns: Sequence[Message]
    functions: Sequence[dict[str, Any]]
    settings: Settings


@dataclass(slots=True)
class Lost:
    """What could not be taken over, each thing said once, in the order met."""

    said: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Say it, if it was not."""
        if what not in self.said:
            self.said.append(what)
