"""Settings that OpenAI's two protocols write alike."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.translation.asked import AnswerShape, Lost, Settings

_LOW, _MEDIUM = 4096, 16384
"""Tokens of thought up to which a bound counts as a low or a medium effort: the words are all that OpenAI takes."""


def tool_choice_of(given: Settings, *, inner: str) -> Any:
    """Return the `tool_choice`; a function's name lies in `inner` where that is not ""."""
    if given.tool_choice != "one":
        return given.tool_choice
    named = {"name": given.tool_name}
    return {"type": "function", **({inner: named} if inner else named)}


def format_of(shape: AnswerShape, *, inner: str) -> dict[str, Any]:
    """Return the form of the answer; a schema lies in `inner` where that is not ""."""
    if shape.schema is None:
        return {"type": "json_object"}
    described: dict[str, Any] = {"name": shape.name, "schema": shape.schema}
    if shape.strict is not None:
        described["strict"] = shape.strict
    return {"type": "json_schema", **({inner: described} if inner else described)}


def effort_of(given: Settings, lost: Lost) -> str | None:
    """Return how much to think, in a word."""
    if given.thinking_tokens is None:
        return given.effort
    if given.thinking_tokens == 0:
        return None
    effort = "low" if given.thinking_tokens <= _LOW else "medium" if given.thinking_tokens <= _MEDIUM else "high"
    lost.add(f"a bound of {given.thinking_tokens} thinking tokens: sent as an effort of {effort!r}")
    return effort
