"""What was asked again, for eyes and machines: answers beside the recorded one, and the screening of a cohort."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from otel_agent_replay.compare.action_difference import ActionComparison
from otel_agent_replay.compare.actions import Action, ActionKind
from otel_agent_replay.compare.screening import Disagreement, DistinctAction
from otel_agent_replay.report import amounts
from otel_agent_replay.report.safe_text import shortened, value_text
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN = 300  # characters of a text or of arguments
_PATHS = 5  # differences of arguments


def action_text(action: Action, limit: int = _SHOWN) -> str:
    """Return an action on one line."""
    if action.kind is ActionKind.NONE:
        return f"no answer: {shortened(action.error, limit)}"
    if action.kind is ActionKind.TOOLS:
        return shortened(", ".join(f"{call.name}({_shown(call.arguments)})" for call in action.calls), limit)
    if action.kind is ActionKind.NOTHING:
        return "nothing"
    said = action.refusal or action.text
    return ("refusal: " if action.kind is ActionKind.REFUSAL else "text: ") + shortened(" ".join(said.split()), limit)


def comparison_text(comparison: ActionComparison) -> str:
    """Return how an answer compares, with the likeness of its text and the first paths that differ."""
    parts = [str(comparison.match)]
    if comparison.likeness is not None and comparison.likeness < 1:
        parts.append(f"likeness of the text {comparison.likeness:.2f}")
    parts += [
        f"{one.path}: {value_text(one.before, 60)} -> {value_text(one.after, 60)}"
        for one in comparison.differences[:_PATHS]
    ]
    if len(comparison.differences) > _PATHS:
        parts.append(f"and {len(comparison.differences) - _PATHS} more")
    return "; ".join(parts)


def asked_lines(
    recorded: Action,
    lanes: Mapping[str, Sequence[DistinctAction]],
    *,
    text_likeness: float,
    lost: Mapping[str, Sequence[str]],
) -> Iterator[Text]:
    """Yield lines that show one recorded answer and what each candidate answered, most frequent first.

    `lost` is what the question to a candidate did not say, in another protocol's words.
    """
    yield line(("recorded   ", STRONG), action_text(recorded))
    yield line(("           " + _measures(recorded), QUIET))
    for name, groups in lanes.items():
        total = sum(group.count for group in groups)
        agreeing = sum(group.count for group in groups if group.comparison.agrees(text_likeness))
        yield line()
        yield line((f"{name}: ", STRONG), (f"{agreeing} of {total} agree", GOOD if agreeing == total else BAD))
        if total > 1:
            yield line((typical(agreeing, total), QUIET))
        for what in lost.get(name, ()):
            yield line((f"not asked for: {what}, for which its protocol has no word", BAD))
        for group in groups:
            agrees = group.comparison.agrees(text_likeness)
            yield line(
                f"{group.count:>4} x  ", action_text(group.first), "  ",
                (f"[{comparison_text(group.comparison)}]", GOOD if agrees else BAD),
            )  # fmt: skip
            yield line(("        " + _measures(group.first), QUIET))


def asked_document(
    run_id: bytes,
    step: int,
    recorded: Action,
    lanes: Mapping[str, Sequence[DistinctAction]],
    *,
    text_likeness: float,
    lost: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the same as a JSON document `agent-replay/ask`."""
    return {
        "schema": "agent-replay/ask",
        "schema_version": 1,
        "run": run_id.hex(),
        "step": step,
        "recorded": action_facts(recorded),
        "candidates": [
            {
                "candidate": name,
                "lost_in_translation": list(lost.get(name, ())),
                "answers": sum(group.count for group in groups),
                "agreeing": sum(group.count for group in groups if group.comparison.agrees(text_likeness)),
                "actions": [
                    {
                        "count": group.count,
                        **comparison_facts(group.comparison, text_likeness),
                        "action": action_facts(group.first),
                    }
                    for group in groups
                ],
            }
            for name, groups in lanes.items()
        ],
    }


def typical(agreeing: int, total: int) -> str:
    """Return what it means that so many of a model's answers do as the recorded one did."""
    if agreeing == total:
        return "the recorded answer is what this model does every time: systematic"
    if agreeing == 0:
        return "not one of its answers does what was recorded"
    if agreeing * 2 > total:
        return "the recorded answer is what this model does most of the time"
    return "the recorded answer is a rare one: chance"


def action_facts(action: Action) -> dict[str, Any]:
    """Return an action as JSON."""
    return {
        "kind": str(action.kind),
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in action.calls],
        "text": action.text,
        "refusal": action.refusal,
        "stop": str(action.stop),
        "stop_reason": action.stop_reason,
        "error": action.error,
        "model": action.model,
        "input_tokens": action.input_tokens,
        "output_tokens": action.output_tokens,
        "cost_usd": action.cost_usd,
        "latency_ns": action.latency_ns,
    }


def comparison_facts(comparison: ActionComparison, text_likeness: float) -> dict[str, Any]:
    """Return a comparison as JSON."""
    return {
        "match": str(comparison.match),
        "agrees": comparison.agrees(text_likeness),
        "text_likeness": comparison.likeness,
        "differences": [
            {"path": one.path, "recorded": _plain(one.before), "asked": _plain(one.after)}
            for one in comparison.differences
        ],
    }


def disagreement_facts(found: Disagreement, text_likeness: float) -> dict[str, Any]:
    """Return a disagreement as JSON."""
    judged = found.judged
    asked, comparison = judged.typical, judged.comparison
    return {
        "run": found.run_id.hex(),
        "step": found.step,
        "first": found.is_first,
        "risk": judged.risk,
        "answers": judged.answers,
        "agreeing": judged.agreeing,
        "baseline_differs": found.noise,
        "recorded": action_text(found.recorded),
        "asked": None if asked is None else action_text(asked),
        **({} if comparison is None else comparison_facts(comparison, text_likeness)),
    }


def _measures(action: Action) -> str:
    parts = [
        action.model,
        f"stop {action.stop_reason}" if action.stop_reason else "",
        f"{amounts.count(action.input_tokens)} tokens in" if action.input_tokens is not None else "",
        f"{amounts.count(action.output_tokens)} out" if action.output_tokens is not None else "",
        amounts.money(action.cost_usd) or "price unknown",
        amounts.duration(action.latency_ns),
    ]
    return ", ".join(filter(None, parts))


def _shown(arguments: Any) -> str:
    if isinstance(arguments, dict):
        return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return json.dumps(arguments, ensure_ascii=False)


def _plain(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return None  # there is nothing on this side
    return value
