"""`agent-replay calibrate -- COMMAND`: what an agent does not do twice alike, and which rules make it replay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import json_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark
from otel_agent_replay.cli.started_options import named_function, one_way_in, timeout_option

_EPILOG = """\b
The agent runs twice, live: give it a question whose side effects may happen twice.
Exit codes: 0 nothing is missing on its tapes, 1 something is, 2 usage, 125 cannot judge.

\b
Examples:
  agent-replay calibrate -- python agent.py "Where is order 17?"
  agent-replay calibrate --entry app.agents:support --input '{"question": "Where is order 17?"}'
  agent-replay calibrate --write -- python agent.py "Where is order 17?"
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@click.option(
    "--entry", callback=named_function, metavar="PKG.MOD:FUNC", help="Call this function, instead of a command."
)
@click.option("--input", "given", metavar="JSON", help="With --entry: its named arguments, a JSON object.")
@click.option("--write", is_flag=True, help="Put the proposed rules into [tool.otel-agent-replay] of ./pyproject.toml.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep both recordings in this lake.  [default: a folder that is deleted]",
)
@click.option("--volatile", multiple=True, metavar="PATH", help="A JSON path of requests that is left out already.")
@timeout_option
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def calibrate(
    entry: str | None,
    given: str | None,
    write: bool,
    into: Path | None,
    volatile: tuple[str, ...],
    timeout: float | None,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Record COMMAND twice, align both, replay offline, and list what differs that no recorded input explains.

    Rules for volatile fields are proposed. They re-key what is already recorded as well: both sides are read under
    them when a replay asks its tape.
    """
    one_way_in(entry, command, which="a command")
    if given is not None and (entry is None or not _is_object(given)):
        raise click.UsageError("--input is a JSON object of named arguments, and goes with --entry")
    from otel_agent_replay.cli.calibrating import calibrated
    from otel_agent_replay.report.calibration_lines import calibration_document, calibration_lines
    from otel_agent_replay.report.terminal import print_lines

    argv = list(command)
    if entry is not None:
        argv = [sys.executable, "-m", "otel_agent_replay.replay.called", entry, given or "{}"]
    results = calibrated(argv, entry=entry, into=into, known=volatile, timeout_s=timeout, told=remark)
    if as_json:
        emit_json(calibration_document(results))
    else:
        print_lines(calibration_lines(results))
    rules = [rule for result in results for rule in result.proposed]
    if write and rules:
        from otel_agent_replay.cli.rules_writing import write_volatile

        write_volatile(Path("pyproject.toml"), rules)
        remark("written to [tool.otel-agent-replay] of pyproject.toml")
    if any(result.settled.reason for result in results):
        return CANNOT_JUDGE if not any(result.settled.found for result in results) else 1
    return 1 if any(result.settled.found for result in results) else 0


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
