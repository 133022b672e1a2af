"""`agent-replay record -- COMMAND`: run any Python program with recording switched on, then seal."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.output import emit, remark
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.settings import Settings

_EPILOG = """\b
Example:
  agent-replay record -- python my_agent.py "why was order 17 refunded twice?"
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option("--capture", type=click.Choice(["digest", "redacted", "full"]), help="How much of each payload is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the recorded runs as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def record(lake: Path, capture: str | None, as_json: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND with recording on; what crosses outside any agent becomes one run of the whole process.

    The exit code is the command's. Recorded runs are listed on standard error when it has ended.
    """
    started_ns = time.time_ns()
    environment = recording_environment(os.environ, lake, capture)
    try:
        status = subprocess.call(list(command), env=environment)
    except OSError as error:
        raise click.UsageError(f"cannot run {command[0]!r}: {error.strerror}") from error
    settings = Settings.load({"lake": lake})
    if settings.export == "otlp":
        _send(settings)
    else:
        _list(lake, started_ns, as_json=as_json)
    sys.exit(status if status >= 0 else 128 - status)


def _list(lake: Path, started_ns: int, *, as_json: bool) -> None:
    """List what was recorded since; where the lake cannot be read say so: the command ended as it ended."""
    try:
        recorded = open_lake(lake).runs(since_ns=started_ns) if lake.is_dir() else []
    except (OSError, AgentReplayError) as error:
        remark(f"note: what was recorded cannot be listed: {error}")
        return
    if not recorded and not as_json:
        remark("no run was recorded: is it Python, and does it use the interpreter that has otel-agent-replay?")
    # The run of the process is listed only where something crossed outside every agent.
    shown = [summary for summary in recorded if summary.step_count] or recorded
    emit(
        [
            {
                "run": summary.run.run_id.hex(),
                "agent": summary.run.agent,
                "status": summary.run.status.value,
                "steps": summary.step_count,
            }
            for summary in reversed(shown)
        ],
        as_json=as_json,
        title="recorded",
        stream=sys.stdout if as_json else sys.stderr,
    )


def _send(settings: Settings) -> None:
    from otel_agent_replay.export.otlp_sender import send_outgoing

    try:
        report = send_outgoing(settings)
    except OSError as error:
        remark(f"note: the runs were not taken and wait in {settings.lake}; `agent-replay seal` sends them: {error}")
    else:
        remark(f"sent {counted(report.runs, 'run')}, {counted(report.spans, 'span')}")


def recording_environment(environment: Mapping[str, str] | None, lake: Path, capture: str | None) -> dict[str, str]:
    """Return a recorded child's environment, made from `environment` (None: this process's).

    Our start-up shim is first on PYTHONPATH, options are set, and a hash seed that is known.
    """
    from otel_agent_replay import bootstrap

    shim = str(Path(bootstrap.__file__).parent)
    child = dict(os.environ if environment is None else environment)
    child["PYTHONPATH"] = os.pathsep.join(filter(None, (shim, child.get("PYTHONPATH", ""))))
    child["AGENT_REPLAY_LAKE"] = str(lake.resolve())
    child["AGENT_REPLAY_PROCESS_RUN"] = "true"
    child["AGENT_REPLAY_SEAL"] = "off"
    if capture is not None:
        child["AGENT_REPLAY_CAPTURE"] = capture
    # The order of sets is an input too: with a seed of our own it can be had again.
    child.setdefault("PYTHONHASHSEED", str(secrets.randbelow(2**32)))
    return child
