"""`agent-replay gate CASES...`: try every kept case with today's code, and say whether it may ship."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from otel_agent_replay.cli.judge_option import judge_option
from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import remark
from otel_agent_replay.cli.started_options import (
    allow_option,
    allow_write_option,
    env_file_option,
    isolate_option,
    limit_option,
    live_clock_option,
    named_function,
    options,
    text_of,
    timeout_option,
    volatile_option,
)

_EPILOG = """\b
CASES are case folders, or folders of them. Each is replayed exactly with today's code first: free and offline. Where
every request is on the recording, its invariants decide. What departs goes on live from its departure, with
--candidate or --live: the model is asked, reads come from the recording, nothing is written. Without either it is
"departed: not decided", which is no pass. Controls and good runs are tried like bad ones.

\b
With --mode recorded nothing runs: runs of a lake, recorded or imported, are held against the case that has their input.
So a case of an imported run, whose code cannot be run again, is decided too.

\b
A case fails, each for its own reason, also where its recording is missing, an invariant was removed, it was tampered
with, or its bad run breaks nothing. No case at all fails too.

\b
Exit codes: 0 may ship, 1 may not, 2 usage, 125 cannot judge.

\b
Examples:
  agent-replay gate cases --entry app.agents:support
  agent-replay gate cases --entry app.agents:support --candidate model=gpt-5-mini --env-file keys.env --plan
  agent-replay gate cases --candidate model=gpt-5-mini --env-file keys.env --repeats 20 --budget 2
  agent-replay gate cases --mode recorded --where "version_agent = '8'" --lake nightly
  agent-replay gate cases --markdown comment.md --junit gate.xml -- python agent.py "Where is order 17?"
"""


class _WithCommand(click.Command):
    """Takes what stands behind `--` as a command to start: CASES may be many, so that click could not tell them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta["command"] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


_what = options(
    click.option("--entry", callback=named_function, metavar="PKG.MOD:FUNC",
                 help="The agent to run.  [default: the `entry` of each case]"),
    click.option("--mode", type=click.Choice(["auto", "exact", "component", "rerun", "recorded"]), default="auto",
                 show_default=True, help="How cases are decided."),
    click.option("--where", metavar="SQL", help="With --mode recorded: which runs of the lake are judged, as it stands "
                 "behind WHERE over the view `runs`."),
    lake_option,
    click.option("--candidate", metavar="model=NEW", help="Go live, with this model: model=, price=IN/OUT; with "
                 "--mode rerun also base_url=, key_env=."),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Change model requests otherwise."),
    click.option("--live", is_flag=True, help="Go live as the agent does by itself."),
    live_clock_option,
    click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
                 help="Live trials of a case."),
    click.option("--min-pass", type=click.FloatRange(0, 1, min_open=True), default=0.95, show_default=True,
                 metavar="SHARE", help="Share of the trials that must pass."),
    click.option("--plan", is_flag=True, help="Say what would go live and what that takes; spend nothing."),
    click.option("--budget", type=click.FloatRange(min=0), metavar="USD",
                 help="For all live trials: each begins only if its forecast fits, and stops when its share is spent."),
    click.option("--parallel", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
                 help="Trials side by side, each in a process of its own."),
    judge_option,
    click.option("--update", is_flag=True, help="Accept drift, case by case: of cases that pass and changed."),
    click.option("--yes", is_flag=True, help="With --update: accept without asking."),
)  # fmt: skip
_reports = options(
    click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML."),
    click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write Markdown, for a comment on a pull request."),
    click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write one HTML file that needs no network; each case opens its aligned diff."),
)  # fmt: skip
_how = options(
    isolate_option,
    allow_option,
    allow_write_option,
    volatile_option,
    limit_option,
    env_file_option,
    timeout_option,
    click.option("--max-steps", type=click.IntRange(min=1), metavar="N", help="Abort a live trial beyond this many."),
    click.option("--into", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Keep the trials' lakes and logs there.  [default: they are deleted]"),
)  # fmt: skip


@click.command(cls=_WithCommand, epilog=_EPILOG)
@_what
@_reports
@_how
@json_option
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path))
def gate(cases: tuple[Path, ...], as_json: bool, **given: Any) -> None:
    """Try every case with today's code and say whether it may ship."""
    from otel_agent_replay.cli import gating

    given["command"] = click.get_current_context().meta.get("command", ())
    chosen = gating.options_of(given, read=text_of)
    if given["yes"] and not given["update"]:
        raise click.UsageError("--yes belongs to --update")
    for path in cases:
        if not path.exists():
            raise click.UsageError(f"there is no {str(path)!r}: CASES are case folders, or folders of them")
    with tempfile.TemporaryDirectory(prefix="agent-replay-gate-", ignore_cleanup_errors=True) as scratch:
        work = gating.work_in(given["into"] or Path(scratch))
        prepared = gating.prepare(cases, chosen, work, told=remark)
        if given["plan"]:
            gating.show_plan(prepared, chosen, as_json=as_json)
            sys.exit(0)
        gating.say_spending(prepared, chosen)
        verdict = gating.finish(prepared, chosen, told=remark)
        gating.tell(verdict, as_json=as_json, junit=given["junit"], markdown=given["markdown"], html=given["html"])
        if given["update"]:
            gating.update(verdict, yes=given["yes"])
    sys.exit(verdict.exit_code)
