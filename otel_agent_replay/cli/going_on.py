"""What `resume` and `fork` share: their options, and how their outcome is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from otel_agent_replay.replay.continued_report import ContinuedReport

Command = TypeVar("Command", bound=Callable[..., Any])


def going_on_options(command: Command) -> Command:
    """Add the options of a command that goes on with a run."""
    for option in reversed(
        (
            click.option(
                "--entry", metavar="PKG.MOD:FUNC", help="Call this agent with the recorded input, instead of a command."
            ),
            click.option("--timeout", type=float, metavar="SECONDS", help="Kill the process after this long."),
            click.option("--max-steps", type=click.IntRange(min=0), metavar="N", help="Abort beyond this many steps."),
            click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON."),
            click.argument("run"),
            click.argument("command", nargs=-1, type=click.UNPROCESSED),
        )
    ):
        command = option(command)
    return command


def one_way_in(entry: str | None, command: tuple[str, ...]) -> None:
    """Raise a usage error unless exactly one of entry and command is given."""
    if (entry is None) == (not command):
        raise click.UsageError("say what to run: either --entry PKG.MOD:FUNC or, after `--`, the recorded command")


def tell(report: ContinuedReport, *, as_json: bool) -> None:
    """Print the report and end the process with its exit code."""
    from otel_agent_replay.report.continued_lines import continued_lines
    from otel_agent_replay.report.terminal import print_lines

    if as_json:
        click.echo(report.to_json())
    else:
        print_lines(continued_lines(report))
    sys.exit(report.exit_code)
