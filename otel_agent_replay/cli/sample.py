"""`agent-replay sample`: draw a cohort that says how it was drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json, remark, table
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.replay.sampling import Sample

_SHOWN = 20
_EPILOG = """\b
Each run is drawn with its weight (how many it stands for); every stratum has one at least, where N allows, and what is
too rare for one each is drawn from together. The same seed draws the same runs.
Exit codes: 0 drawn, 2 usage (no run meets the condition, among others).

\b
Example:
  agent-replay sample --where "agent = 'support' AND NOT replay" --n 200 --stratify tool_path,status --out cohort.jsonl
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--where", "condition", default="true", metavar="SQL", help="Of which runs, as behind WHERE.")
@click.option("--n", "size", type=click.IntRange(min=1), required=True, metavar="N", help="How many runs.")
@click.option(
    "--stratify",
    default="",
    metavar="COLUMN,...",
    help="Columns of `runs`, tool_path or language, by which the strata are made.",
)
@click.option("--seed", default="sample", show_default=True, metavar="TEXT", help="Seed of the draw.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The cohort file (default: standard output).",
)
@json_option
@verbose_option
def sample(
    lake: Path, condition: str, size: int, stratify: str, seed: str, out: Path | None, as_json: bool, verbose: bool
) -> int:  # fmt: skip
    """Draw N runs, stratum by stratum, into a cohort file that says how it was drawn."""
    from otel_agent_replay.model import format_run_id
    from otel_agent_replay.replay.cohort import cohort_lines, write_cohort
    from otel_agent_replay.replay.sampling import draw_sample

    open_lake(lake, verbose=verbose)
    columns = [column.strip() for column in stratify.split(",") if column.strip()]
    drawn = draw_sample(lake, condition, size, columns, seed)
    if out is not None:
        write_cohort(out, drawn.runs, drawn=drawn.drawn())
    if as_json:
        runs = [{"run": format_run_id(one.run_id), **one.notes} for one in drawn.runs]
        emit_json({"schema": "agent-replay/sample", "schema_version": 1, **drawn.drawn(), "runs": runs})
    elif out is None:
        sys.stdout.writelines(f"{line}\n" for line in cohort_lines(drawn.runs, drawn.drawn()))
    _tell(drawn, out)
    return 0


def _tell(drawn: Sample, out: Path | None) -> None:
    """Say on standard error what was drawn."""
    into = f" into {out}" if out is not None else ""
    remark(
        f"{len(drawn.runs)} of {counted(drawn.population, 'run')} drawn{into}, "
        f"{len(drawn.strata)} strata, seed {drawn.seed!r}"
    )
    rows = [
        {"stratum": one.name, "runs": one.runs, "drawn": one.drawn, "weight": one.weight}
        for one in drawn.strata[:_SHOWN]
    ]
    for text in table(rows):
        remark(text)
    if len(drawn.strata) > _SHOWN:
        remark(f"and {len(drawn.strata) - _SHOWN} more strata")
