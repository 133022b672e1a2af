"""`agent-replay runs`: which runs a lake holds."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit, remark
from otel_agent_replay.cli.reading import open_lake, passed_over_facts, tell_passed_over

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import RunSummary

_EPILOG = """\b
Exit codes: 0 listed (also when there is none), 1 listed but for files that cannot be read, 2 usage, 125 the lake
cannot be read.

\b
Example:
  agent-replay runs --limit 10
  agent-replay runs --json | jq '.runs[] | select(.status == "error") | .run'
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="At most this many; 0: all.")
@click.option("--agent", help="Only runs of this agent.")
@json_option
@verbose_option
def runs(lake: Path, limit: int, agent: str | None, as_json: bool, verbose: bool) -> int:
    """List runs, newest first."""
    from otel_agent_replay.lake.passed_over import PassedOver

    passed_over = PassedOver()
    stored = open_lake(lake, verbose=verbose, passed_over=passed_over)
    found = stored.runs(limit=None if agent is not None or not limit else limit + 1)
    if agent is not None:
        found = [summary for summary in found if summary.run.agent == agent]
    shown = found[:limit] if limit else found
    cut = len(found) > len(shown)
    if as_json:
        unreadable = passed_over_facts(passed_over.files)
        emit([_facts(one) for one in shown], as_json=True, title="runs", more_exist=cut, unreadable=unreadable)
        return tell_passed_over(passed_over.files)
    emit([_row(summary) for summary in shown], as_json=False, title="runs")
    if cut:
        remark(f"… older runs are not shown: --limit {limit} is reached (--limit 0 shows all)")
    if not shown and lake.is_dir():
        remark(_why_empty(lake, agent))
    return tell_passed_over(passed_over.files)


def _why_empty(lake: Path, agent: str | None) -> str:
    if agent is not None:
        return f"no run of agent {agent!r} in {lake}; `agent-replay runs` lists all"
    return f"the lake at {lake} holds no run yet: nothing was recorded, or its process still writes (see `doctor`)"


def _facts(summary: RunSummary) -> dict[str, Any]:
    from otel_agent_replay.report.run_document import run_facts

    return {
        "run": summary.run.run_id.hex(),
        **run_facts(summary.run),
        "steps": summary.step_count,
        "spans": summary.span_count,
        "errors": summary.error_count,
        "model_calls": summary.model_call_count,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost_usd": summary.cost_usd,
        "losses": summary.loss_count,
    }


def _row(summary: RunSummary) -> dict[str, Any]:
    from otel_agent_replay.report import amounts

    run = summary.run
    started = dt.datetime.fromtimestamp(run.started_ns / 1e9, tz=dt.timezone.utc)
    took = run.ended_ns - run.started_ns if run.ended_ns else None
    return {
        "run": run.run_id.hex(),
        "started (UTC)": started.strftime("%Y-%m-%d %H:%M:%S"),
        "agent": run.agent,
        "status": run.status.value,
        "mode": run.mode,
        "attempts": run.attempt if run.attempt > 1 else None,
        "fork of": f"{run.origin_run_id.hex()} at {run.fork_step}" if run.fork_step else None,
        "steps": summary.step_count,
        "took": amounts.duration(took),
        "tokens in": summary.input_tokens,
        "tokens out": summary.output_tokens,
        "cost": amounts.money(summary.cost_usd),
        "lost": summary.loss_count or None,
    }
