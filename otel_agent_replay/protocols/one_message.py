"""An answer that is one message of the assistant: the form that most protocols' answers end in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.protocols.call_pieces import call_part
from otel_agent_replay.protocols.folded import Folded, Part, ProviderError, ToolCall, Usage
from otel_agent_replay.protocols.json_text import as_text


def one_message(
    *,
    text: str = "",
    reasoning: str = "",
    calls: Sequence[ToolCall] = (),
    others: Sequence[Part] = (),
    role: Any = None,
    finish_reason: str | None = None,
    usage: Usage | None = None,
    error: ProviderError | None = None,
    response_id: Any = None,
    model: Any = None,
    problems: Sequence[str] = (),
) -> Folded:
    """The answer, complete unless there is an `error`. `others` are parts that OpenTelemetry has no form for."""
    parts: list[Part] = [
        {"type": kind, "content": content} for kind, content in (("reasoning", reasoning), ("text", text)) if content
    ]
    parts.extend(others)
    parts.extend(map(call_part, calls))
    message = {"role": as_text(role) or "assistant", "parts": parts, "finish_reason": finish_reason}
    return Folded(
        complete=error is None,
        finish_reason=finish_reason,
        text=text,
        reasoning=reasoning or None,
        tool_calls=tuple(calls),
        usage=usage,
        error=error,
        response_id=as_text(response_id),
        model=as_text(model),
        output_messages=(message,),
        problems=tuple(dict.fromkeys(problems)),
    )
