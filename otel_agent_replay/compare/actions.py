"""A model's answer as an action: what the agent does because of it. Pure.

Tool calls with their arguments, text, a refusal, nothing, or no answer at all; beside it why it stopped, tokens, cost
and latency. Ids, spelling of JSON and reasoning are no part of an action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.model import Word
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.protocols import Folded, ToolCall


class ActionKind(Word):
    """What an answer makes the agent do."""

    TOOLS = "tools"  # it calls tools; text may stand beside
    TEXT = "text"  # it says something, and calls nothing
    REFUSAL = "refusal"  # the model or a filter refused
    NOTHING = "nothing"  # an answer without text, call or refusal
    NONE = "no answer"  # an error, or an answer that was cut off or malformed


class Stop(Word):
    """Why an answer ended, in one vocabulary for all protocols."""

    END = "end"  # it was done, or it calls tools
    LENGTH = "length"  # its limit of tokens was reached
    FILTERED = "filtered"  # a filter or the model's own rules cut it
    OTHER = "other"  # the provider gave no reason, or one that is not known here


_STOPS = {
    Stop.END: (
        "stop end_turn completed complete tool_calls tool_call tool_use function_call stop_sequence eos eos_token"
    ),
    Stop.LENGTH: "length max_tokens max_output_tokens incomplete model_context_window_exceeded model_length",
    Stop.FILTERED: (
        "content_filter content_filtered refusal safety recitation blocklist prohibited_content spii error_toxic "
        "guardrail_intervened model_armor"
    ),
}
_STOP_OF = {word: stop for stop, words in _STOPS.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool: its arguments as JSON has them; text that is no JSON is kept as text."""

    name: str
    arguments: Any

    @property
    def key(self) -> tuple[str, bytes]:
        """Equal for the same tool with the same arguments, however they are spelled."""
        return self.name, canonical_json(self.arguments)


@dataclass(frozen=True, slots=True)
class Action:
    """An answer as an action. `error` says why there is none. Measures are None where nobody told them.

    `stop_reason` is the provider's own word; tokens count the cached ones in; `latency_ns` is the whole answer's.
    """

    kind: ActionKind
    calls: Sequence[ToolUse] = ()
    text: str = ""
    refusal: str = ""
    stop: Stop = Stop.OTHER
    stop_reason: str = ""
    error: str = ""
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ns: int | None = None

    @property
    def tools(self) -> list[str]:
        """The names of the tools it calls, in order, each as often as it is called."""
        return [call.name for call in self.calls]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same action: parallel calls in any order, text with any spacing."""
        said = _words(self.text) if self.kind is ActionKind.TEXT else ()
        return self.kind, tuple(sorted(call.key for call in self.calls)), said, self.error


def action_of(
    folded: Folded,
    *,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    cost_usd: float | None = None,
    latency_ns: int | None = None,
) -> Action:
    """Return what a folded answer makes the agent do. Of several choices the first counts."""
    error = _why_none(folded)
    calls = [] if error else [ToolUse(call.name, _arguments(call)) for call in folded.tool_calls]
    stop = _STOP_OF.get((folded.finish_reason or "").lower(), Stop.OTHER)
    refusal = folded.refusal or ""
    if error:
        kind = ActionKind.NONE
    elif calls:
        kind = ActionKind.TOOLS
    elif refusal or stop is Stop.FILTERED:
        kind = ActionKind.REFUSAL
    else:
        kind = ActionKind.TEXT if folded.text.strip() else ActionKind.NOTHING
    return Action(
        kind,
        tuple(calls),
        folded.text,
        refusal,
        stop,
        folded.finish_reason or "",
        error,
        folded.model or "",
        input_tokens,
        output_tokens,
        cost_usd,
        latency_ns,
    )


def no_answer(error: str) -> Action:
    """Return the action of a question that got no answer."""
    return Action(ActionKind.NONE, error=error)


def _why_none(folded: Folded) -> str:
    error = folded.error
    if error is not None:
        status = f"HTTP {error.http_status} " if error.http_status and error.http_status >= 400 else ""
        return f"{status}{error.type}" + (f": {error.message}" if error.message else "")
    return "" if folded.complete else "the answer was cut off"


def _arguments(call: ToolCall) -> Any:
    return call.arguments if call.arguments_valid_json or not call.arguments_raw.strip() else call.arguments_raw


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())
