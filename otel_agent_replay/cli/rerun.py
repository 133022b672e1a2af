"""`agent-replay rerun RUN|--cohort FILE`: would today's model, prompt or code do the same? Nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.started_options import (
    allow_option,
    allow_write_option,
    entry_option,
    env_file_option,
    limit_option,
    live_clock_option,
    named_function,
    one_way_in,
    options,
    text_of,
    timeout_option,
)

if TYPE_CHECKING:
    from otel_agent_replay.replay.rerun.outcome import RerunResult

_EPILOG = """\b
The agent's real code runs from its first step. The model is asked live, as the candidate says. Reads come from the
recording where their arguments are the same and the same was written before, then from other runs (--pool), else live
with a drift check if they are declared reads. Writes and external calls come from the recording, else from the tool's
dry_run=, else they are refused and the run ends there. Approvals hold for the same action and policy; the user's
later turns while the agent's message still fits them (the same; or both a question or neither, the same numbers, and
half of the words in common).

\b
Re-runs go to a lake of their own, LAKE-reruns beside the lake unless --into says otherwise. A cohort's results are kept
there in reruns/*.jsonl: the same command goes on where it was interrupted.

\b
Exit codes: 0 all finished alike, 1 some departed, failed, were refused or stopped, 2 usage, 125 cannot judge.

\b
Examples:
  agent-replay rerun 0198c2 --candidate model=gpt-5-mini --env-file keys.env --entry app.agents:support
  agent-replay rerun 0198c2 --prompt @prompt.txt --baseline --repeats 5 --entry app.agents:support
  agent-replay rerun --cohort bad.jsonl --candidate model=qwen3,base_url=http://127.0.0.1:8000/v1 --entry app.agents:it
  agent-replay rerun --where "agent = 'support'" --candidate model=new --pool cohort --parallel 4 --entry app.agents:it
"""


_what = options(
    click.option("--cohort", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help='Runs of a file, a JSON line each: {"run": "..."}.'),
    click.option("--where", metavar="SQL", help="Runs for which a condition over the view `runs` holds."),
    click.option("--candidate", metavar="model=NEW",
                 help="model=, base_url=, key_env=VARIABLE of the --env-file, price=IN/OUT (USD a million tokens)."),
    click.option("--prompt", metavar="TEXT|@FILE", help="Another system prompt."),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Change model requests otherwise."),
    click.option("--baseline", is_flag=True, help="Also run it again as it was: the noise floor."),
    click.option("--repeats", type=click.IntRange(min=1), default=1, metavar="N", help="Re-runs a lane."),
    entry_option,
)  # fmt: skip
_who = options(
    click.option("--pool", multiple=True, metavar="lake|cohort|RUN", help="Runs that may answer reads; repeatable."),
    click.option("--pool-age", metavar="AGE", help="How much older than the run they may be: 90s, 30m, 12h, 7d."),
    click.option("--own-worlds", is_flag=True, help="Each run had a world of its own (a benchmark, a sandbox)."),
    click.option("--live", multiple=True, metavar="NAME",
                 help="Ask this read or pure tool live, also where it is on record."),
    click.option("--stub", multiple=True, metavar="NAME", help="Never call this live; * for all but --live."),
    click.option("--user-script", type=click.Path(dir_okay=False), metavar="FILE",
                 help="The user's turns where the recorded ones no longer fit: a JSON array, or a line each."),
    click.option("--simulator", callback=named_function, metavar="PKG.MOD:FUNC",
                 help="Function of (message, turns) that plays the user then."),
    click.option("--seed", default="rerun", metavar="TEXT", help="Seed of random draws."),
    live_clock_option,
)  # fmt: skip
_how = options(
    click.option("--into", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Lake of the re-runs (default: LAKE-reruns)."),
    click.option("--results", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="File of results; those in it are not made again."),
    click.option("--again", is_flag=True, help="Make all of them again, whatever results there are."),
    click.option("--parallel", type=click.IntRange(min=1), default=1, metavar="N", help="Re-runs side by side."),
    click.option("--isolate/--no-isolate", default=None, help="The kernel's fence around each; on where there is one."),
    allow_option,
    allow_write_option,
    env_file_option,
    limit_option,
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Stop a run that has used so many."),
    click.option("--budget", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="For all of them."),
    timeout_option,
    click.option("--max-steps", type=click.IntRange(min=1), metavar="N", help="Abort a run beyond this many steps."),
)  # fmt: skip


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@_what
@_who
@_how
@json_option
@click.argument("run", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def rerun(lake: Path, as_json: bool, run: str | None, command: tuple[str, ...], **given: Any) -> None:
    """Run RUN (or each run of a cohort) again from its first step on a candidate, with its side effects shut off."""
    from otel_agent_replay.cli.rerunning import Reruns

    if (given["cohort"] or given["where"]) and run is not None:
        command, run = (run, *command), None
    if sum(one is not None for one in (run, given["cohort"], given["where"])) != 1:
        raise click.UsageError("say which runs: one of RUN, --cohort FILE and --where SQL")
    one_way_in(given["entry"], command)
    if not (given["baseline"] or given["candidate"] or given["prompt"] or given["settings"]):
        raise click.UsageError("say what is new: --candidate, --prompt or --set; or --baseline alone")
    reruns = Reruns(lake, run, command, given, read=text_of, quiet=as_json)
    results = reruns.made(told=remark)
    _tell(reruns.lanes(results), lake, reruns.into, results_file=reruns.results.path, as_json=as_json)


def _tell(results: Sequence[RerunResult], lake: Path, into: Path, *, results_file: Path, as_json: bool) -> None:
    """Print the lanes and end the process with the exit code."""
    from otel_agent_replay.replay.rerun.totals import exit_code, totals_of
    from otel_agent_replay.report.rerun_lines import rerun_lines
    from otel_agent_replay.report.terminal import print_lines

    totals = totals_of(results)
    if as_json:
        lanes = [{**asdict(one), "statuses": dict(one.statuses), "answers": dict(one.answers)} for one in totals]
        emit_json(
            {
                "schema": "agent-replay/rerun",
                "schema_version": 1,
                "into": str(into),
                "results_file": str(results_file),
                "exit_code": exit_code(results),
                "lanes": lanes,
                "results": [one.to_json() for one in results],
            }
        )
    else:
        print_lines(rerun_lines(totals, results, lake, into))
    sys.exit(exit_code(results))
