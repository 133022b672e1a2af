"""`agent-replay diff RUN_A RUN_B`: where two runs part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from otel_agent_replay.cli.garbage import without_collection
from otel_agent_replay.cli.judge_option import judge_option
from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.report_files import report_options, write_reports
from otel_agent_replay.cli.run_or_file import load_run, read_risk_rules

_EPILOG = """\b
Exit codes: 0 the same (or only in another order), 1 different, 125 cannot be compared.

\b
Example:
  agent-replay diff 0198c2 0198d7
  agent-replay diff 0198c2 0198d7 --format markdown > comment.md
  agent-replay diff 0198c2 0198d7 --html report.html --junit junit.xml
  agent-replay diff before.otlp.json after.otlp.json --risk-rules risk.yaml --expect-change tool:search
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
@click.option(
    "--risk-rules",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML: which steps are checks or writes that matter, for the order of the changes.",
)
@click.option(
    "--expect-change",
    metavar="NODE",
    help="Say whether this step changed: its number, name, kind:name (* allowed), or path.",
)
@click.option(
    "--pair",
    "pairs",
    multiple=True,
    metavar="A:B",
    help="Take step A of RUN_A and step B of RUN_B for the same one; repeatable. A link of the HTML report may say it.",
)
@judge_option
@json_option
@verbose_option
@without_collection()
def diff(
    lake: Path,
    run_a: str,
    run_b: str,
    form: str,
    html: Path | None,
    html_limit: int,
    junit: Path | None,
    lake_b: Path | None,
    risk_rules: Path | None,
    expect_change: str | None,
    pairs: tuple[str, ...],
    judge: str | None,
    as_json: bool,
    verbose: bool,
) -> int:
    """Compare RUN_B with RUN_A: the first departure, its cause, and what follows from it.

    Each is a run of the lake, or a file of spans of another instrumentation: OTLP, or what else `import` reads as
    spans (FILE#TRACE where it holds several).
    """
    from otel_agent_replay.cli.judge_option import load_judge
    from otel_agent_replay.compare import Verdict, compare, expected_change, explain, final_answer, rank_changes
    from otel_agent_replay.compare.judged import judge_answers
    from otel_agent_replay.report.json_report import comparison_json
    from otel_agent_replay.report.pair_summary import pair_summary
    from otel_agent_replay.report.risk_lines import risk_json, risk_lines, risk_markdown

    by_hand = [_steps_of(text) for text in pairs]
    rules, asked = read_risk_rules(risk_rules), load_judge(judge) if judge else None
    a, b = load_run(run_a, lake, verbose=verbose), load_run(run_b, lake_b or lake, verbose=verbose)
    comparison = compare(a, b, by_hand=by_hand)
    if asked is not None:
        comparison = replace(comparison, questions=[*comparison.questions, judge_answers(a, b, asked).question()])
    if expect_change is not None:
        questions = [*comparison.questions, expected_change(comparison, expect_change)]
        comparison = replace(comparison, questions=questions)
    ranked = rank_changes(comparison, a, b, rules)
    walks = explain(a, b, comparison)
    final = final_answer(comparison, walks)

    def document() -> dict[str, Any]:
        return {**comparison_json(comparison, walks), "risk": risk_json(ranked), **pair_summary(comparison, a, b)}

    if html or junit:
        write_reports(document(), html=html, html_limit=html_limit, junit=junit)
    if as_json or form == "json":
        emit_json(document())
    elif form == "html":
        from otel_agent_replay.report.html import comparison_html

        click.echo(comparison_html(document(), limit=html_limit * 1_000_000), nl=False)
    elif form == "markdown":
        from otel_agent_replay.report.markdown import comparison_markdown

        click.echo(comparison_markdown(comparison, final) + risk_markdown(ranked), nl=False)
    else:
        from otel_agent_replay.report.comparison_tree import comparison_lines
        from otel_agent_replay.report.terminal import print_lines

        print_lines([*comparison_lines(comparison, final), *risk_lines(ranked)])
    codes = {Verdict.IDENTICAL: 0, Verdict.REORDERED: 0, Verdict.DIFFERENT: 1, Verdict.NOT_COMPARABLE: 125}
    return codes[comparison.verdict]


def _steps_of(text: str) -> tuple[int, int]:
    a, colon, b = text.partition(":")
    if not (colon and a.isdecimal() and b.isdecimal()):
        raise click.UsageError(f"--pair {text}: a step of A and a step of B are wanted, such as 12:14")
    return int(a), int(b)
