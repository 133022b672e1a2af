"""`agent-replay diff RUN_A RUN_B`: where two runs part."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake

_EPILOG = """\b
Exit codes: 0 the same (or only in another order), 1 different, 125 cannot be compared.

\b
Example:
  agent-replay diff 0198c2 0198d7
  agent-replay diff 0198c2 0198d7 --format markdown > comment.md
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("run_a")
@click.argument("run_b")
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json", "markdown"]),
    default="terminal",
    show_default=True,
    help="Markdown is for a comment on a pull request.",
)
@click.option(
    "--lake-b",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of RUN_B's lake, where that is another: a re-run's.",
)
@json_option
@verbose_option
def diff(lake: Path, run_a: str, run_b: str, form: str, lake_b: Path | None, as_json: bool, verbose: bool) -> int:
    """Compare RUN_B with RUN_A: the first departure, its cause, and what follows from it."""
    from otel_agent_replay.compare import Verdict, compare

    stored = open_lake(lake, verbose=verbose)
    other = stored if lake_b is None else open_lake(lake_b, verbose=verbose)
    first, second = stored.find(run_a), other.find(run_b)
    comparison = compare(stored.load(first), other.load(second))
    if as_json or form == "json":
        from otel_agent_replay.report.json_report import comparison_json

        emit_json(comparison_json(comparison))
    elif form == "markdown":
        from otel_agent_replay.report.markdown import comparison_markdown

        click.echo(comparison_markdown(comparison), nl=False)
    else:
        from otel_agent_replay.report.comparison_tree import comparison_lines
        from otel_agent_replay.report.terminal import print_lines

        print_lines(comparison_lines(comparison))
    codes = {Verdict.IDENTICAL: 0, Verdict.REORDERED: 0, Verdict.DIFFERENT: 1, Verdict.NOT_COMPARABLE: 125}
    return codes[comparison.verdict]
