"""The report files of comparing commands: `--html` and `--junit`, beside whatever they print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from otel_agent_replay.cli.progress import CountLine
from otel_agent_replay.errors import ConfigurationError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_MEGABYTE = 1_000_000
_PAIRS = 200  # aligned pairs of a cohort's report
_TOGETHER = 20  # cases whose runs are loaded at once
_SAME = ("identical", "reordered")


def report_options(command: _Command) -> _Command:
    """Add `--html FILE`, `--html-limit MB` and `--junit FILE` to a command."""
    for option in (
        click.option(
            "--junit", type=_file(), metavar="FILE", help="Write JUnit XML there, for a CI system's test page."
        ),
        click.option(
            "--html-limit",
            type=click.IntRange(min=1),
            default=10,
            show_default=True,
            metavar="MB",
            help="Size of the HTML; values that do not fit are listed with digest and size.",
        ),
        click.option("--html", type=_file(), metavar="FILE", help="Write one HTML file there that needs no network."),
    ):
        command = option(command)
    return command


def write_reports(document: Mapping[str, Any], *, html: Path | None, html_limit: int, junit: Path | None) -> None:
    """Write the reports of one comparison's JSON document; None: not that one. `html_limit` is in megabytes.

    Raises ConfigurationError where a file cannot be written.
    """
    if html is not None:
        from otel_agent_replay.report.html import comparison_html

        write_file(html, comparison_html(document, limit=html_limit * _MEGABYTE))
    if junit is not None:
        from otel_agent_replay.report.junit import comparison_junit

        write_file(junit, comparison_junit(document))


def write_cohort_reports(
    document: Mapping[str, Any], lakes: tuple[Path, Path], *, html: Path | None, html_limit: int, junit: Path | None
) -> None:
    """Write the reports of a comparison of cohorts; `lakes` hold the runs of side A and of side B.

    The HTML holds the aligned pairs of cases that differ, those with a departure of a known cause first.
    """
    if html is not None:
        from otel_agent_replay.report.cohort_html import cohort_html

        pairs = dict(_pairs(document, lakes))
        write_file(html, cohort_html(document, pairs, limit=html_limit * _MEGABYTE))
    if junit is not None:
        from otel_agent_replay.report.junit import cohort_junit

        write_file(junit, cohort_junit(document))


def _pairs(document: Mapping[str, Any], lakes: tuple[Path, Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key of a case and its first pair that differs, compared anew: a cohort keeps summaries only."""
    from otel_agent_replay.compare import compare
    from otel_agent_replay.lake.many_runs import ManyRuns
    from otel_agent_replay.report.json_report import comparison_json

    wanted = []
    for case in document["cases"]:
        number = next((at for at, one in enumerate(case["pairs"]) if one["verdict"] not in _SAME), None)
        if number is not None:
            doubtful = case["pairs"][number]["cause"] in (None, "unknown")
            wanted.append((doubtful, case["key"], case["a"][0]["run"], case["b"][number]["run"]))
    wanted = sorted(wanted)[:_PAIRS]
    side_a = ManyRuns(lakes[0])
    side_b = side_a if lakes[0] == lakes[1] else ManyRuns(lakes[1])
    line = CountLine(len(wanted), "pairs aligned for the report")
    try:
        for start in range(0, len(wanted), _TOGETHER):
            some = wanted[start : start + _TOGETHER]
            runs_a = side_a.load(bytes.fromhex(a) for _, _, a, _ in some)
            runs_b = side_b.load(bytes.fromhex(b) for _, _, _, b in some)
            for _, key, a, b in some:
                yield key, comparison_json(compare(runs_a[bytes.fromhex(a)], runs_b[bytes.fromhex(b)]))
                line.add(1)
    finally:
        line.end()


def write_file(path: Path, text: str) -> None:
    """Write a report. Raises ConfigurationError where that cannot be done."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigurationError(
            f"the report cannot be written to {path}: {error.strerror or error}; name a file in a folder that is there"
        ) from error


def _file() -> click.Path:
    return click.Path(dir_okay=False, path_type=Path)
