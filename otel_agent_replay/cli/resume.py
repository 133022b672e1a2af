"""`agent-replay resume RUN`: finish a run that died, was stopped or waits, with no side effect twice."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.going_on import going_on_options, tell
from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.started_options import one_way_in

_EPILOG = """\b
Exit codes: 0 finished, 1 departed, stopped or the agent failed, 2 usage, 75 not now (a person must decide, or another
worker holds the run), 125 it cannot go on.

\b
Examples:
  agent-replay resume 0198c2 -- python agent.py "Where is order 17?"
  agent-replay resume 0198c2 --entry app.agents:support
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option("--changed", is_flag=True, help="Go on also with other code or configuration than recorded.")
@click.option("--ledger", metavar="URL", help="Where effects happen once.  [default: a file in the lake's folder]")
@going_on_options
def resume(
    lake: Path,
    changed: bool,
    ledger: str | None,
    entry: str | None,
    timeout: float | None,
    max_steps: int | None,
    as_json: bool,
    run: str,
    command: tuple[str, ...],
) -> None:
    """Finish RUN: what is done comes from the recording, what was in flight is settled, the rest goes on live."""
    one_way_in(entry, command)
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.export.unsealed import load_run
    from otel_agent_replay.replay.launch import entry_command
    from otel_agent_replay.replay.launch_continued import resume_command

    report = resume_command(
        load_run(lake, run, facts=False).run,
        entry_command(entry) if entry is not None else command,
        lake=lake,
        ledger=ledger or "",
        changed=changed,
        max_steps=max_steps or 0,
        timeout_s=timeout,
    )
    seal(lake)
    tell(report, as_json=as_json)
