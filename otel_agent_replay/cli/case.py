"""`agent-replay case`: runs kept as cases, sealed after an edit, tried, and what of runs could become one."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.case_check import check_command, suggest_command
from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.reading import open_lake

if TYPE_CHECKING:
    from otel_agent_replay.casebook.adding import AddedCase
    from otel_agent_replay.lake.catalog import Lake, StoredRun

_EPILOG = """\b
A case is a folder: case.yaml says what must hold, manifest.json seals all that the run depended on, lake/ has the run.

\b
Exit codes: 0 done, or every case is sound; 1 a case is none, or nothing was found; 2 usage; 125 cannot judge.

\b
Examples:
  agent-replay case add 0198c2 --from 7 --name refund-twice
  agent-replay case check cases/refund-twice
  agent-replay case suggest 0198c2 --good 0198d7
"""
_ADD_EPILOG = """\b
Personal data (mail addresses, phone and card numbers, names in fields called so) that came in from outside is
replaced by made-up values of the same form, the same ones everywhere, so that ids join and the case replays. With
AGENT_REPLAY_HASH_KEY they are the same in all cases. What the agent's own code says stays, and is told.

\b
Examples:
  agent-replay case add 0198c2 --from 7 --name refund-twice
  agent-replay case add 0198c2 --good 0198d7 --redact-field customer_id
  agent-replay case add 0198d7 --control --into cases/guard
"""
_SEAL_EPILOG = """\b
Do this after you have edited case.yaml, and look at what it says: an invariant that goes is told.

\b
Example:
  agent-replay case seal cases/refund-twice
"""


@click.group(epilog=_EPILOG)
def case() -> None:
    """Keep runs as cases, and try whether the cases notice what they are there for."""


case.add_command(check_command, "check")
case.add_command(suggest_command, "suggest")


@case.command(epilog=_ADD_EPILOG)
@lake_option
@click.argument("run")
@click.option("--from", "from_step", type=click.IntRange(min=1), metavar="STEP", help="The step where it went wrong.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("cases"),
    show_default=True,
    metavar="DIR",
    help="Folder of cases.",
)
@click.option("--name", metavar="NAME", help="Folder of this case in it.  [default: agent and run]")
@click.option("--control", is_flag=True, help="The run is a good one, and must stay good.")
@click.option("--good", multiple=True, metavar="RUN", help="A run that the case must accept; kept beside; repeatable.")
@click.option(
    "--redact-field", "fields", multiple=True, metavar="REGEX", help="Replace the values of fields of this name too."
)
@click.option(
    "--redact-pattern", "patterns", multiple=True, metavar="REGEX", help="Replace what fits this in any text too."
)
@click.option("--redact-own", is_flag=True, help="Replace what the agent's code says too: a replay may then depart.")
@click.option("--no-redact", is_flag=True, help="Keep the values as they were recorded.")
@json_option
@verbose_option
def add(
    lake: Path,
    run: str,
    from_step: int | None,
    into: Path,
    name: str | None,
    control: bool,
    good: tuple[str, ...],
    fields: tuple[str, ...],
    patterns: tuple[str, ...],
    redact_own: bool,
    no_redact: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Make a case of RUN: its own small lake, all that it depended on, and a case.yaml to edit."""
    from otel_agent_replay.casebook.adding import add_case
    from otel_agent_replay.gate import CaseKind
    from otel_agent_replay.gate.synthetic_run import SyntheticRuns
    from otel_agent_replay.gate.synthetic_values import KnownValues
    from otel_agent_replay.settings import Settings

    if no_redact and (fields or patterns or redact_own):
        raise click.UsageError("--no-redact goes with none of --redact-field, --redact-pattern, --redact-own")
    stored = open_lake(lake, verbose=verbose)
    recorded = stored.load(stored.find(run))
    key = Settings.load({"lake": lake}).hash_key.encode() or secrets.token_bytes(32)
    values = KnownValues(key, fields=fields, patterns=patterns, own=redact_own)
    added = add_case(
        recorded,
        into / (name or _name_of(recorded)),
        kind=CaseKind.CONTROL if control else CaseKind.BAD,
        from_step=from_step or 0,
        beside=_inner(lake, stored, recorded),
        good=[stored.load(stored.find(one)) for one in good],
        synthetic=None if no_redact else SyntheticRuns(values),
    )
    _tell(added, as_json=as_json)


@case.command(epilog=_SEAL_EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CASE...")
@json_option
def seal(folders: tuple[Path, ...], as_json: bool) -> int:
    """Seal CASE as it stands now, and say what of its invariants has changed since."""
    from otel_agent_replay.casebook.sealing import seal_case

    changes = [(folder, seal_case(folder)) for folder in folders]
    if as_json:
        cases = [{"case": str(folder), "changes": list(told)} for folder, told in changes]
        emit_json({"schema": "agent-replay/case-seal", "schema_version": 1, "cases": cases})
        return 0
    for folder, told in changes:
        click.echo(f"{folder}: sealed{'' if told else ', nothing changed'}")
        for line in told:
            click.echo(f"  {line}")
    return 0


def _inner(lake: Path, stored: Lake, recorded: StoredRun) -> list[StoredRun]:
    """Return the runs of agents that the run's own code called."""
    from otel_agent_replay.export.unsealed import load_with_inner

    found = load_with_inner(lake, recorded.run.run_id.hex())[1:]
    return [stored.load(one.run.run_id) for one in found if stored.has(one.run.run_id)]


def _name_of(recorded: StoredRun) -> str:
    agent = re.sub(r"[^A-Za-z0-9_-]+", "-", recorded.run.agent).strip("-") or "run"
    return f"{agent}-{recorded.run.run_id.hex()[:12]}"


def _tell(added: AddedCase, *, as_json: bool) -> None:
    case = added.case
    if as_json:
        emit_json({
            "schema": "agent-replay/case-add",
            "schema_version": 1,
            "case": str(case.folder),
            "run": case.run,
            "kind": case.kind.value,
            "invariants": [one.name for one in case.invariants],
            "replaced": added.replaced,
            "left": list(added.left),
        })  # fmt: skip
        return
    click.echo(f"{case.folder}: case.yaml (yours to edit), manifest.json, lake/")
    source = "runs" if case.good else "run"
    click.echo(f"  {len(case.invariants)} invariants, all of them taken from the {source}: say what matters")
    replaced = ", ".join(f"{count} of sort {sort}" for sort, count in added.replaced.items())
    click.echo(f"  replaced by made-up values: {replaced or 'nothing'}")
    for value in added.left:
        remark(f"note: {value} stands in the agent's own code, and stays: a replay says it again")
    click.echo(f"edit it, then: agent-replay case seal {case.folder} && agent-replay case check {case.folder}")
