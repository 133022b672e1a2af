"""The report files of comparing commands: `--html` and `--junit`, beside whatever they print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from otel_agent_replay.errors import ConfigurationError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_MEGABYTE = 1_000_000


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
