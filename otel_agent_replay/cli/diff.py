"""`agent-replay diff RUN_A RUN_B`: where two runs part."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.cli.report_files import report_options, write_reports

_EPILOG = """\b
Exit codes: 0 the same (or only in another order), 1 different, 125 cannot be compared.

\b
Example:
  agent-replay diff 0198c2 0198d7
  agent-replay diff 0198c2 0198d7 --format markdown > comment.md
  agent-replay diff 0198c2 0198d7 --html report.html --junit junit.xml
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("run_a")
@click.argument("run_b")
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json", "markdown", "html"]),
    default="terminal",
    show_default=True,
    help="Markdown is for a comment on a pull request, HTML one file that needs no network.",
)
@report_options
@click.option(
    "--lake-b",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of RUN_B's lake, where that is another: a re-run's.",
)
@json_option
@verbose_option
def diff(
    lake: Path,
    run_a: str,
    run_b: str,
    form: str,
    html: Path | None,
    html_limit: int,
    junit: Path | None,
    lake_b: Path | None,
    as_json: bool,
    verbose: bool,
) -> int:
    """Compare RUN_B with RUN_A: the first departure, its cause, and what follows from it."""
    from otel_agent_replay.compare import Verdict, compare

    stored = open_lake(lake, verbose=verbose)
    other = stored if lake_b is None else open_lake(lake_b, verbose=verbose)
    first, second = stored.find(run_a), other.find(run_b)
    comparison = compare(stored.load(first), other.load(second))
    if html or junit:
        from otel_agent_replay.report.json_report import comparison_json

        write_reports(comparison_json(comparison), html=html, html_limit=html_limit, junit=junit)
    if as_json or form == "json":
        from otel_agent_replay.report.json_report import comparison_json

        emit_json(comparison_json(comparison))
    elif form == "html":
        from otel_agent_replay.report.html import comparison_html
        from otel_agent_replay.report.json_report import comparison_json

        click.echo(comparison_html(comparison_json(comparison), limit=html_limit * 1_000_000), nl=False)
    elif form == "markdown":
        from otel_agent_replay.report.markdown import comparison_markdown

        click.echo(comparison_markdown(comparison), nl=False)
    else:
        from otel_agent_replay.report.comparison_tree import comparison_lines
        from otel_agent_replay.report.terminal import print_lines

        print_lines(comparison_lines(comparison))
    codes = {Verdict.IDENTICAL: 0, Verdict.REORDERED: 0, Verdict.DIFFERENT: 1, Verdict.NOT_COMPARABLE: 125}
    return codes[comparison.verdict]
