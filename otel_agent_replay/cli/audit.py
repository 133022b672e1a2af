"""`agent-replay audit`: who went back to which run, and whether the log of it is whole."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit, emit_json
from otel_agent_replay.cli.reading import tell_absent

_EPILOG = """\b
Exit codes: 0 listed (also when there is nothing), 2 usage.

\b
Examples:
  agent-replay audit --run 0198c2
  agent-replay audit verify
"""
_EPILOG_OF_VERIFY = """\b
Exit codes: 0 the chain holds, 1 it is broken, 2 usage.

\b
Examples:
  agent-replay audit verify
  agent-replay audit verify --lake ./lake --head 5e2b88c1a893b8f6b7af52b63c55b51da3b82a54b7268857021eff390c1e4a0b
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@lake_option
@click.option("--run", "run_id", default="", metavar="RUN", help="Only entries of this run: the beginning of its id.")
@json_option
@click.pass_context
def audit(context: click.Context, lake: Path, run_id: str, as_json: bool) -> None:
    """List who replayed, resumed or forked which run of the lake, how, and what that was allowed."""
    context.obj = lake
    if context.invoked_subcommand is not None:
        return
    from otel_agent_replay.replay.audit import AuditLog

    tell_absent(lake)
    entries = AuditLog(lake).entries(run_id.lower())
    emit(entries if as_json else [_row(entry) for entry in entries], as_json=as_json, title="audit")


@audit.command(epilog=_EPILOG_OF_VERIFY)
@click.option(
    "--lake",
    "of_lake",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the lake.  [default: that of `audit`]",
)
@click.option(
    "--head", default="", metavar="HASH", help="A head that was kept elsewhere and must still be in the chain."
)
@json_option
@click.pass_obj
def verify(lake: Path, of_lake: Path | None, head: str, as_json: bool) -> int:
    """Recompute the chain; name the line where it first breaks.

    It cannot see that the whole log was put away, or written anew with its head, unless --head has one that you kept.
    """
    from otel_agent_replay.replay.audit import AuditLog

    tell_absent(of_lake or lake)
    log = AuditLog(of_lake or lake)
    found = log.check(head.lower())
    holds = found.first_break is None
    if as_json:
        line, why = found.first_break or (None, "")
        emit_json(
            {
                "schema": "agent-replay/audit-check",
                "schema_version": 1,
                "holds": holds,
                "entries": found.entries,
                "head": found.head,
                "line": line,
                "why": why,
                "notes": list(found.notes),
            }
        )
        return 0 if holds else 1
    for note in found.notes:
        click.echo(f"note: {note}")
    if found.first_break is not None:
        click.echo(f"broken at line {found.first_break[0]} of {log.path}: {found.first_break[1]}")
        return 1
    click.echo(f"the chain holds: {found.entries} entries, head {found.head}")
    return 0


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    who = entry.get("who", {})
    allowed = entry.get("allowed", {})
    return {
        "nr": entry["sequence"],
        "time": datetime.fromtimestamp(entry["time_ns"] / 1e9, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
        "who": f"{who.get('user')}@{who.get('host')}",
        "action": entry.get("action"),
        "run": entry["run_id"],
        "mode": entry.get("mode"),
        "allowed": "; ".join(f"{name} {', '.join(values)}" for name, values in allowed.items()),
        "walls": ", ".join(entry.get("walls", ())),
        "command": " ".join(entry.get("command", ())),
    }
