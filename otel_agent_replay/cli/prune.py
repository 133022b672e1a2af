"""`agent-replay prune`: forget what is older than it must be kept."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json

if TYPE_CHECKING:
    from otel_agent_replay.ledger import Ledger

_FILE = "file"
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_EPILOG = """\b
Whole hours of the lake go, with all that lies in them; an hour that a younger fork shares its steps with stays, and
says so, and so does one with a run that somebody goes on with now or that waits for a person. In the ledger runs go
that have ended; pending ones and those in doubt stay.

\b
Exit codes: 0 done, 2 usage, 125 another process seals the lake.

\b
Examples:
  agent-replay prune --older-than 30d --dry-run
  agent-replay prune --older-than 30d
"""


def _age(_context: click.Context, _parameter: click.Parameter, given: str) -> int:
    """Return the seconds of 12h, 30d or 8w."""
    found = re.fullmatch(r"(\d+)([hdw])", given.strip())
    if found is None:
        raise click.BadParameter(f"{given!r} is no age like 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]]


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--older-than", "age_s", callback=_age, required=True, metavar="AGE", help="12h, 30d, 8w ...")
@click.option("--ledger", metavar="URL", help="The ledger.  [env AGENT_REPLAY_LEDGER; default: a file in the lake]")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
def prune(lake: Path, age_s: int, ledger: str | None, dry_run: bool, as_json: bool) -> None:
    """Delete recordings, and their rows in the ledger, that are older than AGE."""
    from otel_agent_replay.export.pruning import prune_lake
    from otel_agent_replay.export.unsealed import ended_on_record

    older_than_ns = time.time_ns() - age_s * 10**9
    book = _book(lake, ledger)
    if book is None:
        report, forgotten, in_use = prune_lake(lake, older_than_ns, dry_run=dry_run), 0, set()
    else:
        left = book.left_running()
        how = ended_on_record(lake, [run.run_id for run in left])  # to be asked before recordings go
        report = prune_lake(lake, older_than_ns, dry_run=dry_run, in_use=book.in_use)
        ended = [(run, how[run.run_id]) for run in left if run.run_id in how]
        forgotten, in_use = book.prune(older_than_ns, dry_run=dry_run, ended=ended), book.in_use()
    kept = [
        {
            "hour": f"{one.partition.date} {one.partition.hour}",
            "run": one.run_id.hex(),
            "needed_by": one.needed_by.hex() or ("the ledger" if one.run_id in in_use else "the journal"),
        }
        for one in report.kept
    ]
    document = {
        "dry_run": dry_run,
        "hours": len(report.partitions),
        "runs": report.runs,
        "files": report.files,
        "bytes": report.size,
        "ledger_runs": forgotten,
        "kept": kept,
    }
    if as_json:
        emit_json({"schema": "agent-replay/prune", "schema_version": 1, **document})
        return
    verb = "would go" if dry_run else "went"
    click.echo(
        f"{len(report.partitions)} hours {verb}: {report.runs} runs in {report.files} files, {report.size} bytes; "
        f"{forgotten} runs of the ledger"
    )
    for one in kept:
        click.echo(f"kept: {one['hour']}, for run {one['run']} is needed by {one['needed_by']}")


def _book(lake: Path, ledger: str | None) -> Ledger | None:
    """Return the ledger, None where it would be a file that nobody has made."""
    from otel_agent_replay.ledger import ledger_url, open_ledger
    from otel_agent_replay.settings import Settings

    setting = ledger or Settings.load().ledger or _FILE
    if setting == _FILE and not (lake / "ledger.sqlite").exists():
        return None
    return open_ledger(ledger_url(setting, lake))
