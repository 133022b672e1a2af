"""`agent-replay compare`: two runs, two conditions over a lake, or the lanes of a cohort, with honest statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.judge_option import judge_option
from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.cli.report_files import report_options, write_cohort_reports

if TYPE_CHECKING:
    from otel_agent_replay.compare.cohort import CohortComparison
    from otel_agent_replay.compare.matrix import Matrix

_EPILOG = """\b
Two runs are compared as `agent-replay diff` does. A condition is SQL over the view `runs`, as it stands behind WHERE.
Exit codes: 0 no difference beyond noise, 1 different, 2 usage, 125 not enough data to judge.

\b
Example:
  agent-replay compare --a "version_agent = '1.2'" --b "version_agent = '1.3'"
  agent-replay compare --a "version_agent = '1.2'" --b "version_agent = '1.3'" --pair-by thread_id
  agent-replay compare --cohort sample.jsonl --replays .agent-replay-reruns --format markdown > comment.md
  agent-replay compare --cohort sample.jsonl --replays .agent-replay-reruns --html report.html --junit junit.xml
  agent-replay compare 0198c2 0198d7
"""


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return add


_what = _options(
    click.option("--a", "where_a", metavar="SQL", help="The runs of side A."),
    click.option("--b", "where_b", metavar="SQL", help="The runs of side B."),
    click.option("--pair-by", metavar="COLUMN",
                 help="Column or SQL expression over `runs` whose equal values make a case (default: the same input)."),
    click.option("--lake-b", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
                 help="Folder of side B's lake, where that is another."),
    click.option("--cohort", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="A cohort file; with --replays."),
    click.option("--replays", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Lake of the cohort's re-runs, lanes baseline and candidate."),
)  # fmt: skip
_how = _options(
    click.option("--case", "cases", multiple=True, type=click.Path(exists=True, path_type=Path), metavar="DIR",
                 help="Hold every run against the invariants of this case; repeatable."),
    click.option("--alpha", type=click.FloatRange(0, 0.5, min_open=True), default=0.05, show_default=True,
                 help="Chance of any false alarm over all metrics."),
    click.option("--seed", default="compare", show_default=True, metavar="TEXT", help="Seed of the intervals."),
    click.option("--format", "form", type=click.Choice(["terminal", "json", "markdown"]), default="terminal",
                 show_default=True, help="Markdown is for a comment on a pull request."),
    report_options,
    judge_option,
)  # fmt: skip


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("runs", nargs=-1, metavar="[RUN_A RUN_B]")
@_what
@_how
@json_option
@verbose_option
@click.pass_context
def compare(
    context: click.Context, /, lake: Path, runs: tuple[str, ...], as_json: bool, verbose: bool, **given: Any
) -> int:
    """Say whether side B does anything else than side A: case by case, and over all of them beyond noise."""
    form = "json" if as_json else given["form"]
    conditions = given["where_a"] is not None or given["where_b"] is not None
    lanes = given["cohort"] is not None or given["replays"] is not None
    if bool(runs) + conditions + lanes != 1:
        raise click.UsageError("say what to compare: two runs, --a SQL and --b SQL, or --cohort FILE and --replays DIR")
    if runs:
        files = {name: given[name] for name in ("html", "html_limit", "junit", "judge")}
        return _two_runs(context, lake, runs, given["lake_b"], form, verbose=verbose, **files)
    if conditions and (given["where_a"] is None or given["where_b"] is None):
        raise click.UsageError("--a and --b go together: each is a condition over the runs of its side")
    if lanes and (given["cohort"] is None or given["replays"] is None):
        raise click.UsageError("--cohort and --replays go together: the observed runs, and the lake of their re-runs")
    if lanes and not given["replays"].is_dir():
        raise click.UsageError(f"--replays {given['replays']}: there is no such lake; `agent-replay rerun` makes it")
    open_lake(lake, verbose=verbose)
    lake_b = given["replays"] or given["lake_b"] or lake
    if lake_b != lake:
        open_lake(lake_b, verbose=verbose)
    comparison, matrix = _compared(lake, lake_b, given)
    if given["html"] or given["junit"]:
        from otel_agent_replay.report.cohort_json import cohort_json

        document = cohort_json(comparison, matrix)
        write_cohort_reports(
            document, (lake, lake_b), html=given["html"], html_limit=given["html_limit"], junit=given["junit"]
        )
    _show(comparison, matrix, form)
    return comparison.verdict.exit_code


def _two_runs(
    context: click.Context,
    lake: Path,
    runs: Sequence[str],
    lake_b: Path | None,
    form: str,
    *,
    verbose: bool,
    **files: Any,
) -> int:
    from otel_agent_replay.cli.diff import diff

    if len(runs) != 2:
        raise click.UsageError(f"{len(runs)} runs were given: name two, or give conditions (--a, --b) for many")
    code: int = context.invoke(
        diff, lake=lake, run_a=runs[0], run_b=runs[1], form=form, lake_b=lake_b, as_json=False, verbose=verbose, **files
    )
    return code


def _compared(lake: Path, lake_b: Path, given: dict[str, Any]) -> tuple[CohortComparison, Matrix | None]:
    from otel_agent_replay.cli.case_pairs import SAME_INPUT, left_over, pair_conditions, pair_lanes
    from otel_agent_replay.cli.comparing import Sources, compare_planned, titles_of
    from otel_agent_replay.cli.progress import CountLine
    from otel_agent_replay.compare.cohort_comparison import compare_cohorts
    from otel_agent_replay.compare.matrix import matrix_of
    from otel_agent_replay.replay.cohort import how_drawn, read_cohort

    if given["cohort"] is not None:
        planned, drawn = pair_lanes(read_cohort(given["cohort"]), lake_b), dict(how_drawn(given["cohort"]))
        names = _lane_names(given["cohort"], lake_b, has_baseline=any(case.baseline for case in planned))
    else:
        by = given["pair_by"]
        planned = pair_conditions(lake, given["where_a"], given["where_b"], by=by, lake_b=lake_b)
        drawn = {"paired by": by or SAME_INPUT}
        names = (given["where_a"], given["where_b"], "")
    paired = [case for case in planned if case.a and case.b]
    line = CountLine(len(paired), "cases compared")
    try:
        compared = compare_planned(
            paired, Sources(lake, lake_b, tuple(given["cases"]), given["judge"] or ""), told=line.add
        )
    finally:
        line.end()
    rows = {one.planned.key: one.row for one in compared if one.row is not None}
    comparison = compare_cohorts(
        rows.values(),
        a=names[0],
        b=names[1],
        baseline=names[2],
        unpaired=left_over(planned, rows),
        alpha=given["alpha"],
        seed=given["seed"],
        drawn=drawn,
    )
    only = comparison.cases[0] if len(comparison.cases) == 1 else None
    if only is None or len(only.a) + len(only.b) < 3:
        return comparison, None
    return comparison, matrix_of(only, titles_of(lake, only.a[0].run_id), alpha=given["alpha"])


def _lane_names(cohort: Path, replays: Path, *, has_baseline: bool) -> tuple[str, str, str]:
    baseline = f"baseline re-runs in {replays}" if has_baseline else ""
    return f"observed runs of {cohort}", f"re-runs in {replays}", baseline


def _show(comparison: CohortComparison, matrix: Matrix | None, form: str) -> None:
    if form == "json":
        from otel_agent_replay.report.cohort_json import cohort_json

        emit_json(cohort_json(comparison, matrix))
    elif form == "markdown":
        from otel_agent_replay.report.cohort_markdown import cohort_markdown

        click.echo(cohort_markdown(comparison), nl=False)
    else:
        from otel_agent_replay.report.cohort_lines import cohort_lines
        from otel_agent_replay.report.terminal import print_lines

        print_lines(cohort_lines(comparison, matrix))
