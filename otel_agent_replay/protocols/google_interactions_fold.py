"""Answers of Google's Interactions API, streamed or not, folded into one value.

An interaction is a list of steps: thoughts, the model's output, calls of functions and of Google's own tools. Earlier
versions of the API call the steps `outputs` and their events `content.*`; both are read. The finish reason is the
interaction's `status`. Usage is cumulative; thoughts are apart from the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall, Usage, joined_content
from otel_agent_replay.protocols.google_generate_fold import google_error, google_error_of_body
from otel_agent_replay.protocols.google_interactions_steps import step_parts
from otel_agent_replay.protocols.json_text import (
    as_count,
    as_object,
    as_objects,
    as_text,
    check_arguments,
    parse_object,
    text_of,
)
from otel_agent_replay.protocols.provider_error import TRUNCATED, malformed
from otel_agent_replay.protocols.raw_arguments import with_raw_arguments
from otel_agent_replay.protocols.text import TextPieces, join

_OVER: Final = ("completed", "requires_action", "incomplete", "cancelled", "failed")
_QUIET: Final = ("step.stop", "content.stop", "interaction.status_update", "interaction.in_progress", "done")


class Step:
    """One step while its deltas arrive."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.arguments = TextPieces()
        self.texts: list[tuple[str, TextPieces]] = []
        self.others: list[dict[str, Any]] = []
        self.signature = TextPieces()

    def add(self, delta: dict[str, Any], problems: list[str]) -> None:
        """Take one delta."""
        kind = delta.get("type")
        if kind == "text":
            self._text("text").add(delta.get("text"))
        elif kind in ("thought_summary", "thought"):
            content = as_object(delta.get("content"))
            self._text("thought").add(content.get("text") if content else delta.get("thought"))
        elif kind == "thought_signature":
            self.signature.add(delta.get("signature"))
        elif kind in ("arguments_delta", "function_call"):
            if self.start.get("type") is None:
                self.start["type"] = "function_call"
            self.start.update({key: value for key, value in delta.items() if key in ("id", "name") and value})
            self._take_arguments(delta.get("arguments"))
        elif isinstance(kind, str):
            self.others.append(delta)
            if kind not in ("image", "audio", "video", "document", "text_annotation") and not kind.endswith(
                ("_call", "_result")
            ):
                problems.append(f"unknown delta type {kind!r}")
        else:
            problems.append("a delta without a type")

    def _take_arguments(self, arguments: Any) -> None:
        if isinstance(arguments, dict):
            self.arguments.add_value(arguments)
            self.arguments.mistyped = False  # an object is how this API writes them where they come whole
        else:
            self.arguments.add(arguments)

    def _text(self, kind: str) -> TextPieces:
        if not self.texts or self.texts[-1][0] != kind:
            self.texts.append((kind, TextPieces()))
        return self.texts[-1][1]

    def whole(self, problems: list[str]) -> dict[str, Any]:
        """The step as a plain answer would hold it; arguments that came in deltas are their text."""
        done = dict(self.start)
        raw = join(self.arguments, "arguments", problems)
        if raw:
            done["arguments"] = raw
        signature = join(self.signature, "signature", problems)
        if signature:
            done["signature"] = signature
        said = [(kind, join(pieces, kind, problems)) for kind, pieces in self.texts]
        thoughts = [{"type": "text", "text": text} for kind, text in said if kind == "thought"]
        content = [{"type": "text", "text": text} for kind, text in said if kind == "text"]
        if thoughts:
            done["summary"] = [*as_objects(done.get("summary")), *thoughts]
        if content or self.others:
            done["content"] = [*as_objects(done.get("content")), *content, *self.others]
        if done.get("type") in (None, "text"):  # the earlier API's contents have the type of what they hold
            done["type"] = "thought" if thoughts or signature else "model_output"
        return done


class InteractionReducer:
    """Takes the events of one stream in order; `result` folds what came."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.interaction: dict[str, Any] = {}
        self.steps: dict[int, Step] = {}
        self.usage: dict[str, Any] = {}
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one event object; it names itself, and the framing may name it too."""
        kind = str(value.get("event_type") or name)
        self.usage = as_object(as_object(value.get("metadata")).get("usage")) or self.usage
        if kind.startswith("interaction.") and isinstance(value.get("interaction"), dict):
            found = value["interaction"]
            self.interaction.update({key: one for key, one in found.items() if one is not None})
            self.usage = as_object(found.get("usage")) or self.usage
        elif kind in ("step.start", "content.start"):
            self.steps[self._index(value)] = Step(dict(as_object(value.get("step", value.get("content")))))
        elif kind in ("step.delta", "content.delta"):
            step = self.steps.setdefault(self._index(value), Step({}))
            step.add(as_object(value.get("delta")), self.problems)
        elif kind == "error" or "error" in value:
            self.error = self.error or google_error(value.get("error"), self.status)
        elif kind not in _QUIET:
            self.problems.append(f"unknown event type {kind!r}")

    def _index(self, event: dict[str, Any]) -> int:
        index = as_count(event.get("index"))
        return len(self.steps) if index is None else index

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:  # noqa: ARG002 - the status says more
        """Fold. A stream without a status that ends an interaction was cut."""
        self.problems.extend(problems)
        steps = [self.steps[index].whole(self.problems) for index in sorted(self.steps)]
        steps = steps or _steps_of(self.interaction)
        error = self.error
        if error is None and self.interaction.get("status") not in _OVER:
            error = ProviderError(TRUNCATED)
        return fold_steps({**self.interaction, "usage": self.usage}, steps, error, self.status, self.problems)


def fold_interaction(body: bytes, status: int) -> Folded:
    """Fold an answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=google_error_of_body(body, status))
    interaction = parse_object(body)
    if interaction is None:
        return malformed(body, status, "interaction")
    if b'"arguments"' in body:
        steps_named = "steps" if "steps" in interaction else "outputs"
        interaction = with_raw_arguments(text_of(body), interaction, (steps_named,), ("arguments",))
    steps = _steps_of(interaction)
    error = google_error(interaction["error"], status) if interaction.get("error") else None
    problems = [] if steps or error or interaction.get("status") in _OVER else ["the answer has no steps"]
    return fold_steps(interaction, steps, error, status, problems)


def _steps_of(interaction: dict[str, Any]) -> list[dict[str, Any]]:
    return as_objects(interaction.get("steps", interaction.get("outputs")))


def fold_steps(
    interaction: dict[str, Any],
    steps: list[dict[str, Any]],
    error: ProviderError | None,
    status: int,
    problems: list[str],
) -> Folded:
    """Fold an interaction whose steps are `steps`."""
    parts: list[Part] = [part for step in steps for part in step_parts(step)]
    calls = []
    for part in parts:
        if part["type"] == "tool_call":
            valid, oddity = check_arguments(part["arguments"])
            calls.append(ToolCall(as_text(part["id"]), str(part["name"] or ""), part["arguments"], valid))
            if oddity:
                problems.append(f"arguments of tool call {part['id']!r} have {oddity}")
    reason = as_text(interaction.get("status"))
    if error is None and reason in ("failed", "cancelled"):
        error = ProviderError(reason, None, None, status)
    return Folded(
        complete=error is None and reason in _OVER,
        finish_reason=reason,
        text=joined_content(parts, "text"),
        reasoning=joined_content(parts, "reasoning") or None,
        tool_calls=tuple(calls),
        usage=interaction_usage(interaction.get("usage")),
        error=error,
        response_id=as_text(interaction.get("id")),
        model=as_text(interaction.get("model")) or as_text(interaction.get("agent")),
        output_messages=({"role": "assistant", "parts": parts, "finish_reason": reason},) if steps or reason else (),
        problems=tuple(dict.fromkeys(problems)),
    )


def interaction_usage(usage: Any) -> Usage | None:
    """The counts of a usage object. Thoughts are apart from the output, cached tokens are within the input."""
    if not isinstance(usage, dict) or not usage:
        return None
    return Usage(
        input_tokens=as_count(usage.get("total_input_tokens")),
        output_tokens=as_count(usage.get("total_output_tokens")),
        cache_read_input_tokens=as_count(usage.get("total_cached_tokens")),
        reasoning_tokens=as_count(usage.get("total_thought_tokens", usage.get("total_reasoning_tokens"))),
    )
