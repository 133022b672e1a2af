"""`agent-replay verify RUN`: whether what is stored is what was recorded; with `--replay`, whether it replays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.cli.started_options import (
    entry_option,
    isolate_option,
    one_way_in,
    timeout_option,
    volatile_option,
)
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake

_EPILOG = """\b
Exit codes: 0 every digest holds, 1 something is missing or altered, 125 the run cannot be read.
With --replay: 0 proven, 1 it departs or replays only with the recorded hash seed, 125 cannot judge.

\b
Example:
  agent-replay verify 0198c2
  agent-replay verify 0198c2 --replay --entry app.agents:support
  agent-replay verify 0198c2 --replay --times 5 -- python agent.py "Where is order 17?"
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option(
    "--replay",
    "replays",
    is_flag=True,
    help="Replay it offline several times, each with another hash seed and other scheduling, and keep the verdict.",
)
@click.option("--times", type=click.IntRange(1, 100), default=3, show_default=True, help="How often.")
@entry_option
@isolate_option
@volatile_option
@timeout_option
@click.argument("run")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@json_option
@verbose_option
def verify(
    lake: Path,
    replays: bool,
    times: int,
    entry: str | None,
    isolate: bool,
    volatile: tuple[str, ...],
    timeout: float | None,
    run: str,
    command: tuple[str, ...],
    as_json: bool,
    verbose: bool,
) -> int:
    """Recompute every digest of RUN and its manifest; name what is missing or altered."""
    if replays:
        one_way_in(entry, command)
    if not replays and (entry is not None or command):
        raise click.UsageError("an entry or a command is for --replay")
    stored = open_lake(lake, verbose=verbose)
    if replays:
        from otel_agent_replay.cli.proving import prove_and_keep
        from otel_agent_replay.redaction import redaction_at
        from otel_agent_replay.replay.enclosed import Enclosure

        return prove_and_keep(
            stored,
            run,
            entry=entry,
            command=command,
            times=times,
            enclosure=Enclosure(lake, isolate=isolate, timeout_s=timeout, redaction=redaction_at(lake)),
            volatile=volatile,
            as_json=as_json,
        )
    return _digests(stored, run, as_json=as_json)


def _digests(stored: Lake, run: str, *, as_json: bool) -> int:
    from otel_agent_replay.lake.verify import verify as findings_of

    recorded = stored.load(stored.find(run))
    findings = findings_of(recorded)
    rows = [
        {
            "finding": finding.kind.value,
            "what": finding.what,
            "step": finding.step,
            "path": "/".join(finding.path),
            "attempt": finding.attempt or None,
            "detail": finding.detail,
        }
        for finding in findings
    ]
    run_id = recorded.run.run_id.hex()
    emit(rows, as_json=as_json, title="findings", run=run_id, holds=not rows)
    if not as_json and not rows:
        steps = {node.step for part in recorded.stored for node in part.nodes if node.step is not None}
        click.echo(f"run {run_id} holds: every digest of {counted(len(steps), 'step')} and the manifest")
        if recorded.origin is not None:
            origin, step = recorded.run.origin_run_id.hex(), recorded.run.fork_step
            click.echo(f"its steps before step {step} belong to run {origin}: verify that one for them")
    return 1 if rows else 0
