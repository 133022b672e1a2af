"""`agent-replay retain`: forget what is older than it must be kept, and say what must be kept all the same."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake, passed_over_facts, tell_absent, tell_passed_over
from otel_agent_replay.cli.sealed_case import refuse_case_lake
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.retention import RetentionReport
    from otel_agent_replay.ledger import Ledger

HOLD = "hold"
_FILE = "file"
_CASES = Path("cases")
_EPILOG = """\b
Whole hours of the lake go, with all that lies in them, but for an hour with a run that is needed, which is named: one
that is held (--hold RUN, until --release RUN), bears a label of --keep-label, is the run of a case (--cases), shares
its steps with a younger fork, is gone on with now, or waits for a person. In the ledger runs go that have ended;
pending ones and those in doubt stay.

\b
While a file that is not old cannot be read, no hour goes: a fork in it may share its steps with any run. The file is
named; put a copy of it back, or move it out of the lake. When it is old it goes like any other.

\b
Exit codes: 0 done, 1 files cannot be read, and what they may need stays, 2 usage, 125 it could not be done: somebody
seals or compacts the lake, a file that says which runs are held cannot be read, or the lake cannot be written.

\b
Example:
  agent-replay retain --days 30 --dry-run
  agent-replay retain --days 30 --keep-label good
  agent-replay retain --hold 0198c2 --note "claim 4711"
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Keep what is younger than that."
)
@click.option("--keep-label", "labels", multiple=True, metavar="NAME", help="Keep runs with this label, unless false.")
@click.option(
    "--cases",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR",
    help="Keep the runs of the cases in DIR.  [default: cases, where it is there]",
)
@click.option("--hold", metavar="RUN", help="Keep this run from now on.")
@click.option("--release", metavar="RUN", help="Keep this run no longer than others.")
@click.option("--note", default="", metavar="TEXT", help="Why it is held, or no longer.")
@click.option("--ledger", metavar="URL", help="The ledger.  [env AGENT_REPLAY_LEDGER; default: a file in the lake]")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
def retain(
    lake: Path,
    days: float | None,
    labels: tuple[str, ...],
    cases: tuple[Path, ...],
    hold: str | None,
    release: str | None,
    note: str,
    ledger: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete recordings, and their rows in the ledger, that are older than N days and not needed."""
    refuse_case_lake(lake, "thinned out")
    if sum(one is not None for one in (days, hold, release)) != 1:
        raise click.UsageError("give one of --days N, --hold RUN and --release RUN")
    if hold is not None or release is not None:
        _hold(lake, hold or release or "", note, stands=hold is not None, as_json=as_json)
        return
    tell_absent(lake)
    since_ns = time.time_ns() - int((days or 0) * 86_400e9)
    folders = cases or ((_CASES,) if _CASES.is_dir() else ())
    report, forgotten = _retain(lake, since_ns, labels, folders, ledger, dry_run=dry_run)
    _tell(report, forgotten, as_json=as_json)
    sys.exit(tell_passed_over(report.unreadable))


def _hold(lake: Path, text: str, note: str, *, stands: bool, as_json: bool) -> None:
    from otel_agent_replay.lake.label_file import write_labels
    from otel_agent_replay.model import Label

    run_id = open_lake(lake).find(text)
    write_labels(lake, [Label(run_id, getpass.getuser(), time.time_ns(), HOLD, stands, note)])
    if as_json:
        head = {"schema": "agent-replay/hold", "schema_version": 1}
        emit_json({**head, "run": run_id.hex(), "held": stands, "note": note})
        return
    click.echo(f"run {run_id.hex()} is {'held: retention leaves it' if stands else 'held no longer'}")


def _retain(
    lake: Path, since_ns: int, labels: tuple[str, ...], cases: tuple[Path, ...], ledger: str | None, *, dry_run: bool
) -> tuple[RetentionReport, int]:
    """Delete, and return what went, and how many runs the ledger forgot."""
    from otel_agent_replay.export.retaining import retain_lake
    from otel_agent_replay.export.unsealed import ended_on_record

    book = _book(lake, ledger)

    def needed() -> dict[bytes, str]:
        found = dict(_needed(lake, labels, cases))
        return found if book is None else found | dict.fromkeys(book.in_use(), "the ledger")

    left = [] if book is None else book.left_running()
    how = ended_on_record(lake, [run.run_id for run in left])  # to be asked before recordings go
    report = retain_lake(lake, since_ns, dry_run=dry_run, needed=needed)
    if book is None:
        return report, 0
    ended = [(run, how[run.run_id]) for run in left if run.run_id in how]
    return report, book.prune(since_ns, dry_run=dry_run, ended=ended)


def _needed(lake: Path, labels: tuple[str, ...], cases: tuple[Path, ...]) -> Iterator[tuple[bytes, str]]:
    from otel_agent_replay.casefile.document import CaseDocument
    from otel_agent_replay.lake.label_file import runs_labelled
    from otel_agent_replay.trials.subject import case_folders

    for folder in case_folders(cases):
        run = CaseDocument.load(folder).content.get("run", "")
        if run:
            yield bytes.fromhex(run), f"case {folder.resolve().name}"
    for name in labels:
        for run_id in runs_labelled(lake, name):
            yield run_id, f"label {name}"
    for run_id in runs_labelled(lake, HOLD):
        yield run_id, "a hold"


def _tell(report: RetentionReport, forgotten: int, *, as_json: bool) -> None:
    kept = [
        {
            "hour": f"{one.partition.date} {one.partition.hour}",
            "run": one.run_id.hex(),
            "needed_by": one.needed_by,
        }
        for one in report.kept
    ]
    document = {
        "dry_run": report.dry_run,
        "hours": len(report.partitions),
        "runs": report.runs,
        "files": report.files,
        "bytes": report.size,
        "ledger_runs": forgotten,
        "kept": kept,
        "in_doubt": [f"{one.date} {one.hour}" for one in report.in_doubt],
        "unreadable": passed_over_facts(report.unreadable),
    }
    if as_json:
        emit_json({"schema": "agent-replay/retain", "schema_version": 1, **document})
        return
    verb = "would go" if report.dry_run else "went"
    click.echo(
        f"{counted(len(report.partitions), 'hour')} {verb}: "
        f"{counted(report.runs, 'run')} in {counted(report.files, 'file')}, {report.size} bytes; "
        f"{counted(forgotten, 'run')} of the ledger"
    )
    for one in kept:
        click.echo(f"kept: {one['hour']}, for run {one['run']} is needed by {one['needed_by']}")
    if report.in_doubt:
        click.echo(
            f"kept: {counted(len(report.in_doubt), 'old hour')}, for a fork in a file that cannot be read may share "
            "its steps with any run: put a copy of the file back, or move it out of the lake"
        )


def _book(lake: Path, ledger: str | None) -> Ledger | None:
    """Return the ledger, None where it would be a file that nobody has made."""
    from otel_agent_replay.ledger import ledger_url, open_ledger
    from otel_agent_replay.settings import Settings

    setting = ledger or Settings.load().ledger or _FILE
    if setting == _FILE and not (lake / "ledger.sqlite").exists():
        return None
    return open_ledger(ledger_url(setting, lake))
