"""`agent-replay component CASE`: an orchestrator on prepared answers, its whole event log checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import remark, table
from otel_agent_replay.cli.started_options import isolate_option, limit_option
from otel_agent_replay.report.safe_text import visible

if TYPE_CHECKING:
    from otel_agent_replay.replay.component.result import ComponentResult

_EPILOG = """\b
CASE is a folder with a case.yaml. The entry's real code runs; models, retrieval, tools and plain HTTP answer as the
case's fixtures say, attempt by attempt, and time passes only where somebody waits. Every change of state and every
effect is checked, and the event log is held against events.yaml.

\b
Exit codes: 0 the case holds, 1 it is broken, 2 usage, 125 cannot judge.

\b
Examples:
  agent-replay component cases/refund-timeout
  agent-replay component cases/refund-timeout --update
  agent-replay component new 0198c2 --step 4 --step 6 --into cases/refund-timeout
"""
_CELLS = 60


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--update", is_flag=True, help="Write the event log that came as the expected one, and show the change.")
@isolate_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Real seconds after which the run is given up.",
)
@limit_option
@click.option("--schema", is_flag=True, help="Print the JSON Schema of case.yaml.")
@click.option(
    "--step", "steps", type=click.IntRange(min=1), multiple=True, metavar="N", help="With new: the steps to take."
)
@click.option(
    "--into", type=click.Path(file_okay=False, path_type=Path), metavar="CASE", help="With new: the folder to write."
)
@json_option
@click.argument("words", nargs=-1, metavar="CASE | new RUN")
def component(
    lake: Path,
    update: bool,
    isolate: bool,
    timeout: float,
    limits: tuple[str, ...],
    schema: bool,
    steps: tuple[int, ...],
    into: Path | None,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Run the orchestrator of CASE on its fixtures; or cut a new case from the steps of a recorded RUN."""
    if schema:
        _print_schema()
    elif len(words) == 2 and words[0] == "new":
        _new(lake, words[1], steps, into, as_json=as_json)
    elif len(words) != 1 or words[0] == "new":
        raise click.UsageError("say which case: one folder, or `new RUN --step N --into CASE`")
    elif steps or into is not None:
        raise click.UsageError("--step and --into belong to `component new RUN`")
    else:
        _run(Path(words[0]), update=update, isolate=isolate, timeout_s=timeout, limits=limits, as_json=as_json)


def _print_schema() -> None:
    from otel_agent_replay.casefile.document import schema_text

    click.echo(schema_text())


def _run(
    folder: Path, *, update: bool, isolate: bool, timeout_s: float, limits: tuple[str, ...], as_json: bool
) -> None:
    from otel_agent_replay.replay.component.case import Case
    from otel_agent_replay.replay.component.launch import run_in_child
    from otel_agent_replay.replay.component.update import update_expected
    from otel_agent_replay.replay.limits import Limits

    case = Case.load(folder)
    result = run_in_child(case, isolate=isolate, timeout_s=timeout_s, limits=Limits.parse(limits))
    if update:
        result, diff = update_expected(case, result)
        remark(f"{case.events_file}: {'written' if diff else 'unchanged'}")
        for line in diff:
            remark(line)
    if as_json:
        click.echo(result.to_json())
    else:
        _tell(result)
    sys.exit(result.exit_code)


def _tell(result: ComponentResult) -> None:
    for line in table([_row(number, event) for number, event in enumerate(result.log, 1)]):
        click.echo(line)
    if result.log:
        click.echo()
    click.echo(f"case {result.case}: {result.status.value.replace('_', ' ')}, {result.elapsed_s:g} s of virtual time")
    if result.states:
        click.echo(f"states: {' -> '.join(result.states)}")
    for line in result.told():
        click.echo(visible(line, keep_lines=True))
    for note in result.notes:
        click.echo(f"note: {visible(note)}")
    click.echo(f"walls: {', '.join(result.walls)}")


def _row(number: int, event: Mapping[str, Any]) -> dict[str, Any]:
    kind = next(name for name in event if name != "at")
    about = event.get("state", event.get("arguments", event.get("result")))
    answer = " ".join(str(event[name]) for name in ("shape", "http_status") if name in event)
    outcome = " ".join(str(event[name]) for name in ("status", "error") if name in event)
    return {
        "nr": number,
        "at": event["at"],
        "event": f"{kind} {event[kind]}",
        "about": "" if about is None else str(about)[:_CELLS],
        "attempt": event.get("attempt"),
        "answer": answer,
        "took": event.get("took"),
        "outcome": outcome or ("effect happened" if "effect" in event else ""),
    }


def _new(lake: Path, run: str, steps: tuple[int, ...], into: Path | None, *, as_json: bool) -> None:
    if into is None or not steps:
        raise click.UsageError("a new case needs --step N (one or more) and --into CASE")
    from otel_agent_replay.cli.output import emit_json
    from otel_agent_replay.export.unsealed import load_run
    from otel_agent_replay.replay.component.cut import cut_case

    written = cut_case(load_run(lake, run, facts=False), steps, into)
    if as_json:
        files = [str(path) for path in written]
        emit_json({"schema": "agent-replay/component-new", "schema_version": 1, "case": str(into), "files": files})
        return
    for path in written:
        click.echo(str(path))
