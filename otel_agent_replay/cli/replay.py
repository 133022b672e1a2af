"""`agent-replay replay RUN`: run the agent's real code with every answer from the tape."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.started_options import (
    allow_option,
    allow_write_option,
    entry_option,
    env_file_option,
    isolate_option,
    limit_option,
    one_way_in,
    timeout_option,
    volatile_option,
)

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
@entry_option
@isolate_option
@allow_option
@allow_write_option
@volatile_option
@limit_option
@env_file_option
@timeout_option
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
    one_way_in(entry, command)
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.redaction import redaction_at
    from otel_agent_replay.replay.enclosed import Enclosure
    from otel_agent_replay.replay.launch import entry_command, in_process_run, replay_command
    from otel_agent_replay.replay.limits import Limits
    from otel_agent_replay.replay.scrub import read_env_file
    from otel_agent_replay.report.terminal import print_lines
    from otel_agent_replay.report.verdict_lines import verdict_lines

    seal(lake)
    stored = Lake(lake)
    recorded = stored.load(stored.find(run)).run
    enclosure = Enclosure(
        lake,
        isolate=isolate,
        allow=allow,
        allow_write=allow_write,
        timeout_s=timeout,
        limits=Limits.parse(limits),
        identity={} if env_file is None else read_env_file(env_file),
        redaction=redaction_at(lake),
    )
    argv = entry_command(entry) if entry is not None else command
    process_run = entry is None and in_process_run(stored, recorded)
    verdict = replay_command(recorded, argv, enclosure=enclosure, volatile=volatile, process_run=process_run)
    seal(lake)
    if as_json:
        click.echo(verdict.to_json())
    else:
        print_lines(verdict_lines(verdict))
    sys.exit(verdict.exit_code)
