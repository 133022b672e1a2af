"""`agent-replay show RUN`: one run on the screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake

if TYPE_CHECKING:
    from otel_agent_replay.model import RecordedRun

_EPILOG = """\b
Exit codes: 0 shown, 2 usage, 125 there is no such run, or it cannot be read.

\b
Example:
  agent-replay show 0198c2 --coverage
  agent-replay show 0198c2 --step 7
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("run")
@click.option("--coverage", is_flag=True, help="Show what was captured, what was not, and what was lost.")
@click.option(
    "--step",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show step N in full: request, answer, reads; of a checkpoint, all that it takes to be back there.",
)
@click.option(
    "--limit", type=click.IntRange(min=0), default=500, show_default=True, help="Most lines of spans or losses; 0: all."
)
@json_option
@verbose_option
def show(lake: Path, run: str, coverage: bool, step: int | None, limit: int, as_json: bool, verbose: bool) -> int:
    """Show RUN: its steps as a tree, with times, tokens, cost and failures."""
    if coverage and step is not None:
        raise click.UsageError("--coverage and --step show different things; give one of them")
    stored = open_lake(lake, verbose=verbose)
    recorded = stored.load(stored.find(run))
    facts = _checkpoint(lake, recorded, step)
    if as_json:
        emit_json(_document(recorded, coverage=coverage, step=step, checkpoint=facts))
        return 0
    from otel_agent_replay.report.checkpoint_facts import checkpoint_lines
    from otel_agent_replay.report.coverage import coverage_lines
    from otel_agent_replay.report.run_tree import run_lines, step_lines
    from otel_agent_replay.report.terminal import print_lines

    if coverage:
        print_lines(coverage_lines(recorded, limit))
    elif step is not None:
        print_lines(step_lines(recorded, step))
        if facts is not None:
            print_lines(checkpoint_lines(facts))
    else:
        print_lines(run_lines(recorded, limit))
    return 0


def _checkpoint(lake: Path, recorded: RecordedRun, step: int | None) -> dict[str, Any] | None:
    if step is None:
        return None
    from otel_agent_replay.report.checkpoint_facts import checkpoint_facts

    return checkpoint_facts(lake, recorded, step)


def _document(recorded: RecordedRun, *, coverage: bool, step: int | None, checkpoint: dict[str, Any] | None) -> object:
    from otel_agent_replay.report.run_document import coverage_document, run_json, step_json

    if coverage:
        return coverage_document(recorded)
    return run_json(recorded) if step is None else step_json(recorded, step, checkpoint)
