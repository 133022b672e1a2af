"""`agent-replay case check CASE...` and `case suggest RUN`: whether cases notice what they should, and what could."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.report.safe_text import visible

if TYPE_CHECKING:
    from otel_agent_replay.gate import InvariantResult
    from otel_agent_replay.gate.worth import CaseWorth, Held

_CHECK_EPILOG = """\b
Exit codes: 0 every case is sound, 1 one accepts its bad run, rejects a good one or was tampered with, 2 usage,
125 a recording does not tell. Mutants that survive are told, and do not fail a case by themselves.

\b
Example:
  agent-replay case check cases/refund-twice
  agent-replay case check cases/* --json
"""
_SUGGEST_EPILOG = """\b
Exit codes: 0 something tells the runs apart, 1 nothing does.

\b
Example:
  agent-replay case suggest 0198c2 --good 0198d7 --good 0198e1
"""
_MOST_SURVIVORS = 20


@click.command(epilog=_CHECK_EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CASE...")
@click.option(
    "--mutants",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    metavar="N",
    help="Try at most this many mutants of a run; 0: none.",
)
@json_option
def check_command(folders: tuple[Path, ...], mutants: int, as_json: bool) -> int:
    """Try CASE: it must reject its bad run and accept its good ones; mutants of the run are killed or survive."""
    from otel_agent_replay.casebook.folder import open_case
    from otel_agent_replay.casebook.trying import try_case
    from otel_agent_replay.gate.worth import Worth

    found = []
    for number, folder in enumerate(folders, 1):
        if len(folders) > 1:
            remark(f"case {number} of {len(folders)}: {folder}")
        found.append(try_case(open_case(folder), mutants=mutants))
    if as_json:
        cases = [case_json(one) for one in found]
        emit_json({"schema": "agent-replay/case-check", "schema_version": 1, "cases": cases})
    else:
        for one in found:
            _tell(one)
    if any(one.worth not in (Worth.SOUND, Worth.UNKNOWN) for one in found):
        return 1
    return CANNOT_JUDGE if any(one.worth is Worth.UNKNOWN for one in found) else 0


@click.command(epilog=_SUGGEST_EPILOG)
@lake_option
@click.argument("run")
@click.option("--good", multiple=True, required=True, metavar="RUN", help="A run that did it right; repeatable.")
@json_option
@verbose_option
def suggest_command(lake: Path, run: str, good: tuple[str, ...], as_json: bool, verbose: bool) -> int:
    """Say what holds of every good run and is broken by RUN, as a part of case.yaml to keep or to drop."""
    from otel_agent_replay.casefile.yaml_text import document
    from otel_agent_replay.gate.suggesting import merged, suggest

    stored = open_lake(lake, verbose=verbose)
    bad = stored.load(stored.find(run))
    found = suggest(bad, [stored.load(stored.find(one)) for one in good])
    if as_json:
        rows = [
            {
                "name": one.name,
                "content": dict(one.content),
                "good_runs": one.good,
                "evidence": [_evidence(item) for item in one.evidence],
            }
            for one in found
        ]
        emit_json({
            "schema": "agent-replay/case-suggest",
            "schema_version": 1,
            "run": bad.run.run_id.hex(),
            "suggestions": rows,
        })  # fmt: skip
        return 0 if found else 1
    if not found:
        click.echo(f"nothing tells run {bad.run.run_id.hex()[:12]} from the {len(good)} good ones")
        return 1
    click.echo(f"# Held by {len(good)} good run{'s'[: len(good) != 1]}, broken by {bad.run.run_id.hex()[:12]}:")
    for one in found:
        step = next((f" (step {item.step})" for item in one.evidence if item.step), "")
        click.echo(f"# - {visible(one.name)}: {visible(one.evidence[0].told) if one.evidence else ''}{step}")
    click.echo(document(merged(found)), nl=False)
    return 0


def case_json(one: CaseWorth) -> dict[str, Any]:
    """Return what came of one case as JSON."""
    return {
        "case": str(one.case.folder),
        "kind": one.case.kind.value,
        "worth": one.worth.value,
        "tampering": [{"kind": item.kind.value, "what": item.what} for item in one.tampering],
        "added_since_sealed": list(one.added),
        "runs": [
            {
                "run": held.run,
                "must": "be rejected" if held.bad else "be accepted",
                "invariants": _results(held.results),
            }
            for held in one.held
        ],
        "mutants": {
            "tried": len(one.mutants),
            "killed": one.killed,
            "survived": [
                {"mutation": item.mutation.value, "what": item.what, "step": item.step} for item in one.survived
            ],
        },
    }


def _results(results: Sequence[InvariantResult]) -> list[dict[str, Any]]:
    return [
        {
            "invariant": one.invariant.name,
            "rule": one.invariant.rule.value,
            "state": one.state.value,
            "evidence": [_evidence(item) for item in one.evidence],
        }
        for one in results
    ]


def _evidence(item: Any) -> dict[str, Any]:
    return {
        "told": item.told,
        "step": item.step,
        "path": item.path,
        "expected": item.expected,
        "actual": item.actual,
    }


def _tell(one: CaseWorth) -> None:
    click.echo(f"{one.case.folder}: {one.worth}")
    for item in one.tampering:
        click.echo(f"  {item.kind}: {visible(item.what)}")
    for name in one.added:
        click.echo(f"  not sealed yet: {visible(name)}")
    for held in one.held:
        _tell_held(held)
    if one.mutants:
        click.echo(f"  mutants: {one.killed} of {len(one.mutants)} killed")
        for mutant in one.survived[:_MOST_SURVIVORS]:
            where = f" (step {mutant.step})" if mutant.step else ""
            click.echo(f"    survived: {mutant.mutation}: {visible(mutant.what)}{where}")
        more = len(one.survived) - _MOST_SURVIVORS
        if more > 0:
            click.echo(f"    and {more} more; --json has them all")


def _tell_held(held: Held) -> None:
    wanted = "must be rejected" if held.bad else "must be accepted"
    kept = sum(1 for one in held.results if one.holds)
    click.echo(f"  run {held.run[:12]} {wanted}: {kept} of {len(held.results)} invariants hold")
    for one in [*held.broken, *held.unknown]:
        click.echo(f"    {one.state}: {visible(one.invariant.name)}")
        for item in one.evidence[:2]:
            step = f"step {item.step}: " if item.step else ""
            click.echo(f"      {visible(step + item.told)}")
