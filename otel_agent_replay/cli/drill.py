"""`agent-replay drill`: kill an agent at a chosen point, resume it, and see whether anything happened twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark
from otel_agent_replay.cli.record import recording_environment

_EPILOG = """\b
before:STEP   nothing of the step is known yet
during:STEP   its call was made, its end is not recorded: the worst moment
after:STEP    its end is recorded

\b
Exit codes: as of `agent-replay resume`; 125 when the agent never came to that step.

\b
Example:
  agent-replay drill --kill-at during:3 -- python agent.py "Where is order 17?"
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option("--kill-at", required=True, metavar="POINT:STEP", help="before:STEP, during:STEP or after:STEP.")
@click.option("--ledger", default="file", metavar="URL", help="Where effects happen once.  [default: file]")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def drill(lake: Path, kill_at: str, ledger: str, as_json: bool, command: tuple[str, ...]) -> None:
    """Record COMMAND, kill it there as a crash would, resume it, and report what was done by whom.

    It is the real thing: run it where its side effects may happen.
    """
    from otel_agent_replay.capture.drills import killer
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.replay.launch_continued import resume_command
    from otel_agent_replay.report.continued_lines import continued_lines
    from otel_agent_replay.report.terminal import print_lines

    killer(kill_at)  # a wrong point is told before anything runs
    started_ns = time.time_ns()
    environment = recording_environment(os.environ, lake, None)
    environment.update(AGENT_REPLAY_KILL_AT=kill_at, AGENT_REPLAY_LEDGER=ledger)
    status = subprocess.call(list(command), env=environment)
    seal(lake)
    found = [summary.run for summary in Lake(lake).runs(since_ns=started_ns) if summary.step_count]
    if status != -signal.SIGKILL or not found:
        remark(f"the agent ended with status {status} and never came to {kill_at}: nothing was tried")
        sys.exit(CANNOT_JUDGE)
    run = min(found, key=lambda one: one.ordinal)
    remark(f"killed at {kill_at}; resuming run {run.run_id.hex()}")
    report = resume_command(run, command, lake=lake, ledger=ledger)
    seal(lake)
    if as_json:
        emit_json({"schema": "agent-replay/drill", "schema_version": 1, "kill_at": kill_at, **_facts(report)})
    else:
        print_lines(continued_lines(report))
    sys.exit(report.exit_code)


def _facts(report: object) -> dict[str, object]:
    import json

    text: str = report.to_json()  # type: ignore[attr-defined]
    found: dict[str, object] = json.loads(text)
    return found
