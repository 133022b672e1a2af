"""Agent runs of ljoukov/llm's benchmark: `{model, taskId, runIndex, result{text, steps, totalCostUsd}}` or `{error}`.

A step is an answer of the model with its tool calls. The first prompt is not in the file, nor the messages as they were
sent: requests are put together from the steps before. The scoring lies beside the run, in `NAME.validation.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, called, turns_of
from otel_agent_replay.imports.trajectories.places import identity_of, list_in
from otel_agent_replay.imports.trajectories.trajectory import Said, Trajectory
from otel_agent_replay.model import RunStatus, SideEffect

NAME = "ljoukov-llm"
AGENT = "file-system agent"
_READ = ("read_file", "list_directory", "grep_search", "rg_search", "glob")
_WRITE = ("write_file", "replace", "apply_patch")
_EFFECTS = dict.fromkeys(_READ, SideEffect.READ) | dict.fromkeys(_WRITE, SideEffect.WRITE)
_COUNTS = ("promptTokens", "cachedTokens", "responseTokens", "thinkingTokens")
_PASSES = ("success", "schemaPass", "toolTracePass", "graderPass")
_GAPS = {"instructions": "the first prompt is not in the file; requests are put together from the steps before them"}


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a run."""
    return (
        isinstance(document, Mapping)
        and {"model", "taskId", "runIndex"} <= document.keys()
        and ("result" in document or "error" in document)
        and "schemaPass" not in document
    )


def is_scoring(document: Any) -> bool:
    """Whether a parsed file is the scoring of such a run."""
    return isinstance(document, Mapping) and {"taskId", "runIndex", "success", "schemaPass"} <= document.keys()


def read(document: Any, source: str, scoring: Any = None) -> Iterator[Trajectory]:
    """Yield the trajectory; `scoring` is the file beside it, None where there is none. Raises DamagedRecording."""
    if not recognises(document):
        raise DamagedRecording(f"{source} is no run of {NAME}: model, taskId and a result or an error are wanted")
    result = document.get("result") or document.get("partialResult") or {}
    steps = result.get("steps") if isinstance(result, Mapping) else None
    if not isinstance(steps, list):
        raise DamagedRecording(f"{source}: result.steps is {str(steps)[:40]!r}, which is no list of steps")
    messages = [message for number, step in enumerate(steps) for message in _said(step, f"{source} steps[{number}]")]
    error = str(document.get("error") or "")
    yield Trajectory(
        NAME,
        source,
        identity_of(document),
        AGENT,
        turns_of(messages, model=str(document["model"]), effects=lambda name: _EFFECTS.get(name, SideEffect.EXTERNAL)),
        input={"task": document["taskId"]},
        output=result.get("text") or None,
        status=RunStatus.ERROR if error else RunStatus.OK,
        error=error,
        model=str(document["model"]),
        told=_told(document, scoring if is_scoring(scoring) else {}),
        gaps=_GAPS,
    )


def _said(step: Any, place: str) -> Iterator[Message]:
    if not isinstance(step, Mapping):
        raise DamagedRecording(f"{place} is no step: {str(step)[:60]!r}")
    calls = list_in(step, "toolCalls", place)
    if not all(isinstance(call, Mapping) for call in calls):
        raise DamagedRecording(f"{place}: toolCalls holds something else than calls")
    ids = [call.get("callId") or f"{step.get('step')}.{number}" for number, call in enumerate(calls, 1)]
    chat: dict[str, Any] = {"role": "assistant", "content": step.get("text")}
    if step.get("thoughts"):
        chat["reasoning_content"] = step["thoughts"]
    if calls:
        chat["tool_calls"] = [
            called(call.get("toolName"), call.get("input"), call_id) for call, call_id in zip(calls, ids, strict=True)
        ]
    yield Message(
        chat,
        model=str(step.get("modelVersion") or ""),
        usage=_usage(step.get("usage")),
        cost_usd=step["costUsd"] if isinstance(step.get("costUsd"), (int, float)) else None,
    )
    for call, call_id in zip(calls, ids, strict=True):
        content = call.get("output")
        yield Message(
            {"role": "tool", "tool_call_id": call_id, "content": content},
            error=str(call["error"]) if call.get("error") else "",
        )


def _usage(given: Any) -> dict[str, Any] | None:
    """Return the counts in Chat Completions form, where reasoning is a part of what was written."""
    if not isinstance(given, Mapping):
        return None
    counts = {name: given[name] for name in _COUNTS if isinstance(given.get(name), int)}
    thinking = counts.get("thinkingTokens", 0)
    return {
        "prompt_tokens": counts.get("promptTokens", 0),
        "completion_tokens": counts.get("responseTokens", 0) + thinking,
        "prompt_tokens_details": {"cached_tokens": counts.get("cachedTokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }


def _told(document: Mapping[str, Any], scoring: Mapping[str, Any]) -> list[Said]:
    told = [Said("task", str(document["taskId"])), Said("trial", document["runIndex"])]
    if scoring:
        told.append(Said("reward", 1.0 if scoring.get("success") else 0.0))
        told += [Said(name, scoring[name]) for name in _PASSES if isinstance(scoring.get(name), bool)]
        grader = scoring.get("grader")
        value = grader.get("value") if isinstance(grader, Mapping) else None
        scores = value.get("scores") if isinstance(value, Mapping) else None
        if isinstance(scores, Mapping):
            told += [Said(f"score.{name}", score) for name, score in scores.items() if isinstance(score, (int, float))]
    return told
