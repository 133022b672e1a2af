"""What `agent-replay gate` does with its command line: options, the plan, the reports, and accepting drift."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from otel_agent_replay.casebook.accepting import accept, acceptance
from otel_agent_replay.cli.judge_option import load_judge
from otel_agent_replay.cli.output import emit_json, on_terminal, remark, table
from otel_agent_replay.cli.report_files import write_file
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.rerun.plan import Candidate, edits_of
from otel_agent_replay.replay.scrub import read_env_file
from otel_agent_replay.report.comparison_tree import comparison_lines
from otel_agent_replay.report.gate_html import gate_html
from otel_agent_replay.report.gate_json import gate_json
from otel_agent_replay.report.gate_junit import gate_junit
from otel_agent_replay.report.gate_lines import gate_lines
from otel_agent_replay.report.gate_markdown import gate_markdown
from otel_agent_replay.report.terminal import print_lines
from otel_agent_replay.trials.accepted import drift_of
from otel_agent_replay.trials.forecast import Forecast, total
from otel_agent_replay.trials.gate_run import Pending, Prepared, finish, prepare
from otel_agent_replay.trials.options import Mode, TrialOptions
from otel_agent_replay.trials.recorded import RecordedRuns

__all__ = ["finish", "options_of", "prepare", "say_spending", "show_plan", "tell", "update", "work_in"]


def options_of(given: Mapping[str, Any], *, read: Callable[[str], str]) -> TrialOptions:
    """Return the options of a command line, by their names. Raises ConfigurationError for what cannot be."""
    candidate = Candidate.parse(given["candidate"]) if given["candidate"] else Candidate()
    identity = {} if given["env_file"] is None else read_env_file(given["env_file"])
    if candidate.key and candidate.key not in identity:
        raise ConfigurationError(f"--candidate key_env={candidate.key}: there is no {candidate.key} in the --env-file")
    return TrialOptions(
        mode=Mode(given["mode"]),
        entry=given["entry"] or "",
        command=given["command"],
        live=bool(given["live"] or given["candidate"] or given["settings"]),
        candidate=candidate,
        edits=edits_of(candidate, given["settings"], None, read=read),
        live_clock=given["live_clock"],
        repeats=given["repeats"],
        min_pass=given["min_pass"],
        budget_usd=given["budget"],
        parallel=given["parallel"],
        judge=load_judge(given["judge"]) if given["judge"] else None,
        runs=RecordedRuns.where(given["lake"], given["where"]) if given["where"] else None,
        max_steps=given["max_steps"] or 0,
        timeout_s=given["timeout"],
        isolate=given["isolate"],
        allow=given["allow"],
        allow_write=given["allow_write"],
        volatile=given["volatile"],
        limits=Limits.parse(given["limits"]),
        identity=identity,
    )


def work_in(folder: Path) -> Path:
    """Return the folder for the trials, made. Raises ConfigurationError for one that holds something."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigurationError(f"{folder} is not empty: give --into a new folder, so that no trial meets another's")
    return folder


def show_plan(prepared: Prepared, options: TrialOptions, *, as_json: bool) -> None:
    """Print what is decided already, and what would go live, from where and for how much."""
    rows = [_plan_row(one, options) for one in prepared.pending]
    decided = [one for one in prepared.rows if isinstance(one, CaseVerdict)]
    whole = _all(prepared, options)
    if as_json:
        emit_json(
            {
                "schema": "agent-replay/gate-plan",
                "schema_version": 1,
                "decided": [{"case": one.name, "standing": one.standing.value} for one in decided],
                "live": rows,
                "budget_usd": options.budget_usd,
                "total": {"calls": whole.calls, "about_usd": whole.usd, "calls_without_tokens": whole.untold},
            }
        )
        return
    click.echo(f"{len(decided)} decided for nothing, {len(rows)} would go live")
    for line in table(rows):
        click.echo(line)
    if rows:
        click.echo(_price(whole, options))
    remark("nothing was spent; the price is what the recording used from there on, at today's prices")


def say_spending(prepared: Prepared, options: TrialOptions) -> None:
    """Say on standard error what is about to be spent, before it is."""
    if options.live and prepared.pending:
        remark(f"{len(prepared.pending)} go live: {_price(_all(prepared, options), options)}")


def tell(verdict: GateVerdict, *, as_json: bool, junit: Path | None, markdown: Path | None, html: Path | None) -> None:
    """Print the verdict and write the reports asked for. Raises ConfigurationError for one that cannot be written."""
    if junit is not None:
        write_file(junit, gate_junit(verdict))
    if markdown is not None:
        write_file(markdown, gate_markdown(verdict))
    if html is not None:
        write_file(html, gate_html(gate_json(verdict)))
    if as_json:
        emit_json(gate_json(verdict))
    else:
        print_lines(gate_lines(verdict))


def update(verdict: GateVerdict, *, yes: bool) -> None:
    """Accept the drift of each case that passed and changed: show it, ask, write the run into the case."""
    drifted = [(row, trial) for row in verdict.cases for trial in drift_of(row)]
    if not drifted:
        remark("nothing to accept: no case passed with a run that differs from its recording")
    for row, trial in drifted:
        _, diff = acceptance(row.folder, trial.run)
        if trial.comparison is not None:
            print_lines(comparison_lines(trial.comparison), sys.stderr)
        for line in diff:
            remark(line)
        if yes or (on_terminal() and click.confirm(f"accept this run for {row.name}?", err=True)):
            if trial.lake is not None:
                accept(row.folder, Lake(trial.lake).load(bytes.fromhex(trial.run)))
            remark(f"{row.name}: accepted; from now on gates replay run {trial.run}")
        else:
            remark(f"{row.name}: not accepted" + ("" if on_terminal() else "; give --yes"))


def _all(prepared: Prepared, options: TrialOptions) -> Forecast:
    return total([one.each.times(options.repeats) for one in prepared.pending])


def _plan_row(pending: Pending, options: TrialOptions) -> dict[str, Any]:
    whole = pending.each.times(options.repeats)
    return {
        "case": pending.subject.name,
        "from step": pending.at,
        "trials": options.repeats,
        "model calls": whole.calls,
        "tokens in": whole.input_tokens,
        "tokens out": whole.output_tokens,
        "about $": whole.usd,
    }


def _price(whole: Forecast, options: TrialOptions) -> str:
    about = "price unknown" if whole.usd is None else f"about ${whole.usd:.4f}"
    untold = f" ({whole.untold} of them without tokens on record)" if whole.untold else ""
    budget = "no budget" if options.budget_usd is None else f"budget ${options.budget_usd:.4f}"
    return f"{whole.calls} model calls{untold}, {about}; {budget}"
