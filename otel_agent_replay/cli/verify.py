"""`agent-replay verify RUN`: whether what is stored is what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit
from otel_agent_replay.cli.reading import open_lake

_EPILOG = """\b
Exit codes: 0 every digest holds, 1 something is missing or altered, 125 the run cannot be read.

\b
Example:
  agent-replay verify 0198c2
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("run")
@json_option
@verbose_option
def verify(lake: Path, run: str, as_json: bool, verbose: bool) -> int:
    """Recompute every digest of RUN and its manifest; name what is missing or altered."""
    from otel_agent_replay.lake.verify import verify as findings_of

    stored = open_lake(lake, verbose=verbose)
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
        click.echo(f"run {run_id} holds: every digest of {len(steps)} steps and the manifest")
        if recorded.origin is not None:
            origin, step = recorded.run.origin_run_id.hex(), recorded.run.fork_step
            click.echo(f"its steps before step {step} belong to run {origin}: verify that one for them")
    return 1 if rows else 0
