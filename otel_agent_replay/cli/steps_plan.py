"""The plan of `agent-replay steps`: what it would take, told before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.output import emit, emit_json, remark
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.replay.ask.candidate import Candidate
    from otel_agent_replay.replay.ask.plan import LanePlan, Plan


def planned(lake: Lake, run_ids: Sequence[bytes], lanes: Mapping[str, Candidate], repeats: int) -> Plan:
    """Return the plan. Raises CannotJudge, with the reasons, where no step can be asked again."""
    from otel_agent_replay.errors import CannotJudge
    from otel_agent_replay.replay.ask.plan import plan

    found = plan(lake.root, run_ids, lanes, repeats)
    judged = next(iter(found.lanes.values()))
    if not judged.questions:
        reasons = {**found.skipped, **judged.refused}
        told = "; ".join(f"{counted(count, 'step')}: {why}" for why, count in reasons.items()) or "they have none"
        raise CannotJudge(
            f"no model step of the {counted(found.runs, 'run')} can be asked again ({told}). "
            "It takes the recorded request and "
            "answer: fidelity `exchange` or better, at a capture level that keeps them"
        )
    return found


def checked(found: Plan, *, has_budget: bool) -> None:
    """Refuse a budget that cannot be held. Raises ConfigurationError."""
    from otel_agent_replay.errors import ConfigurationError

    unpriced = sorted({model for lane in found.lanes.values() for model in lane.unpriced})
    if has_budget and unpriced:
        raise ConfigurationError(
            f"no price is known of {', '.join(unpriced)}, so --budget cannot be held: give the candidate its price "
            "(price=IN/OUT, US dollars a million tokens), or bound the questions with --max-calls"
        )


def plan_sentence(found: Plan, left: int) -> str:
    """Return on one line what is left to ask, and what all of it costs."""
    about = sum(lane.about_usd for lane in found.lanes.values())
    most = sum(lane.most_usd for lane in found.lanes.values())
    unpriced = sorted({model for lane in found.lanes.values() for model in lane.unpriced})
    price = f"about ${about:.4f}, at most ${most:.4f}" if about or not unpriced else "price unknown"
    if unpriced and about:
        price += f", without {', '.join(unpriced)}, of which no price is known"
    of = f"{counted(found.steps, 'step')} of {counted(found.runs, 'run')}"
    return f"asking {left:,} of {counted(found.questions, 'question')} ({of}); all: {price}"


def show_plan(found: Plan, lanes: Mapping[str, Candidate], *, as_json: bool) -> None:
    """Print the plan."""
    rows = [_row(name, lanes[name].name, lane) for name, lane in found.lanes.items()]
    if as_json:
        emit_json(
            {
                "schema": "agent-replay/steps-plan",
                "schema_version": 1,
                "runs": found.runs,
                "steps": found.steps,
                "skipped": dict(found.skipped),
                "steps_without_tokens": found.guessed,
                "lanes": rows,
            }
        )
        return
    click.echo(f"{found.steps:,} model steps of {counted(found.runs, 'run')} can be asked again")
    for why, count in found.skipped.items():
        click.echo(f"left out: {counted(count, 'step')}: {why}")
    emit([_shown(row) for row in rows], as_json=False, title="lanes")
    for row in rows:
        for why, count in row["refused"].items():
            remark(f"note: {counted(count, 'question')} of {row['lane']} cannot be sent: {why}")
        for model, count in row["unpriced"].items():
            remark(
                f"note: no price is known of {model or 'a model without a name'} "
                f"({counted(count, 'question')} of {row['lane']})"
            )
    if found.guessed:
        remark(
            f"note: of {counted(found.guessed, 'step')} no tokens were recorded: "
            "a quarter of their bytes stands for them"
        )
    remark("nothing was asked; the price is what the recorded answers' tokens cost today, at most: with longer ones")


def _row(lane: str, asked: str, plan: LanePlan) -> dict[str, Any]:
    priced = plan.questions - sum(plan.unpriced.values())
    return {
        "lane": lane,
        "asked": asked,
        "questions": plan.questions,
        "input_tokens": plan.input_tokens,
        "output_tokens": plan.output_tokens,
        "most_output_tokens": plan.most_output_tokens,
        "about_usd": plan.about_usd if priced else None,
        "most_usd": plan.most_usd if priced else None,
        "unpriced": dict(plan.unpriced),
        "refused": dict(plan.refused),
        "endpoints": dict(plan.endpoints),
    }


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "lane": row["lane"],
        "asked": row["asked"],
        "questions": row["questions"],
        "tokens in": row["input_tokens"],
        "tokens out": row["output_tokens"],
        "about $": row["about_usd"],
        "at most $": row["most_usd"],
        "endpoints": ", ".join(row["endpoints"]),
    }
