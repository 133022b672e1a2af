"""What `resume` and `fork` share: their options, and how their outcome is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.started_options import entry_option, options, timeout_option

if TYPE_CHECKING:
    from otel_agent_replay.replay.continued_report import ContinuedReport

going_on_options = options(
    entry_option,
    timeout_option,
    click.option("--max-steps", type=click.IntRange(min=0), metavar="N", help="Abort beyond this many steps."),
    click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON."),
    click.argument("run"),
    click.argument("command", nargs=-1, type=click.UNPROCESSED),
)
"""The options of a command that goes on with a run."""


def tell(report: ContinuedReport, *, as_json: bool) -> None:
    """Print the report and end the process with its exit code."""
    from otel_agent_replay.report.continued_lines import continued_lines
    from otel_agent_replay.report.terminal import print_lines

    if as_json:
        click.echo(report.to_json())
    else:
        print_lines(continued_lines(report))
    sys.exit(report.exit_code)
