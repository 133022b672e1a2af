"""`agent-replay replay RUN`: run the agent's real code with every answer from the tape."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from otel_agent_replay.cli.lake_option import lake_option

_EPILOG = """\b
Exit codes: 0 the same, 1 departed, 2 usage, 125 cannot judge (so `git bisect run` skips).

\b
Examples:
  agent-replay replay 0198c2 -- python agent.py "Where is order 17?"
  agent-replay replay 0198c2 --entry app.agents:support --isolate
  git bisect run agent-replay replay 0198c2 --entry app.agents:support
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option(
    "--entry", metavar="PKG.MOD:FUNC", help="Call this function with the recorded input, instead of a command."
)
@click.option(
    "--isolate", is_flag=True, help="Put a kernel fence around the replay (Linux), beside the one in process."
)
@click.option("--allow", multiple=True, metavar="HOST:PORT", help="An endpoint that the replay may reach.")
@click.option(
    "--allow-write", multiple=True, type=click.Path(exists=True), metavar="DIR", help="A folder it may write files in."
)
@click.option("--volatile", multiple=True, metavar="PATH", help="A JSON path of requests that is not compared.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help="Bound what it may use: cpu=SECONDS, memory=MIB or files=NUMBER; repeatable.",
)
@click.option(
    "--env-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Variables (KEY=VALUE lines) of the replay's own identity; never stored.",
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Kill the replay after this long.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.argument("run")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def replay(
    lake: Path,
    entry: str | None,
    isolate: bool,
    allow: tuple[str, ...],
    allow_write: tuple[str, ...],
    volatile: tuple[str, ...],
    limits: tuple[str, ...],
    env_file: Path | None,
    timeout: float | None,
    as_json: bool,
    run: str,
    command: tuple[str, ...],
) -> None:
    """Replay RUN exactly: offline, no side effect, every crossing answered from the recording."""
    if (entry is None) == (not command):
        raise click.UsageError("say what to run: either --entry PKG.MOD:FUNC or, after `--`, the recorded command")
    from otel_agent_replay.export.rules_file import redaction_of
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.replay.launch import is_process_run, replay_command, replay_entry
    from otel_agent_replay.replay.limits import Limits
    from otel_agent_replay.replay.scrub import read_env_file
    from otel_agent_replay.report.terminal import print_lines
    from otel_agent_replay.report.verdict_lines import verdict_lines
    from otel_agent_replay.settings import Settings

    seal(lake)
    stored = Lake(lake)
    recorded = stored.load(stored.find(run)).run
    options: dict[str, Any] = {
        "lake": lake,
        "isolate": isolate,
        "allow": allow,
        "allow_write": allow_write,
        "volatile": volatile,
        "timeout_s": timeout,
        "limits": Limits.parse(limits),
        "identity": {} if env_file is None else read_env_file(env_file),
        "redaction": redaction_of(Settings.load({"lake": lake})),
    }
    if entry is not None:
        verdict = replay_entry(recorded, entry, **options)
    else:
        of_process = any(is_process_run(stored.load(one).run) for one in stored.siblings(recorded.run_id))
        verdict = replay_command(recorded, command, process_run=of_process, **options)
    seal(lake)
    if as_json:
        click.echo(verdict.to_json())
    else:
        print_lines(verdict_lines(verdict))
    sys.exit(verdict.exit_code)
