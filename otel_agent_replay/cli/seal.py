"""`agent-replay seal`: journal segments into the lake, once or for ever."""

from __future__ import annotations

import signal
import threading
from dataclasses import asdict
from pathlib import Path

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.reading import tell_sealing

_EPILOG = """\b
Exit codes: 0 sealed (also when there was nothing), 1 something could not be sealed, 2 usage.

\b
Example:
  agent-replay seal
  agent-replay seal --watch --interval 10     # as a sidecar; ends on SIGTERM or SIGINT
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--watch", is_flag=True, help="Go on sealing until told to stop.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Seconds between.")
@json_option
def seal(lake: Path, watch: bool, interval: float, as_json: bool) -> int:
    """Seal closed journal segments. With --watch ended runs of segments still written are sealed, too."""
    stop = threading.Event()
    if watch:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    failed = _seal_once(lake, as_json=as_json, only_closed=not watch, quiet=False)
    while watch and not stop.wait(interval):
        failed = _seal_once(lake, as_json=as_json, only_closed=False, quiet=True)
    return 1 if failed else 0


def _seal_once(lake: Path, *, as_json: bool, only_closed: bool, quiet: bool) -> bool:
    """Seal; say nothing of a round in which there was nothing to do, when `quiet`. Returns whether something failed."""
    from otel_agent_replay.export.sealer import seal as seal_lake

    try:
        report = seal_lake(lake, only_closed=only_closed)
    except OSError as error:
        remark(f"error[seal]: {lake} could not be sealed: {error}")
        return True
    if quiet and not (report.runs or report.segments_removed or report.failed):
        return False
    if as_json:
        emit_json({"schema": "agent-replay/seal", "schema_version": 1, **asdict(report)})
    else:
        tell_sealing(report, verbose=False)
        click.echo(
            f"sealed {report.runs} runs, {report.spans} spans; {report.segments_removed} segments removed, "
            f"{report.open_segments} still written"
        )
    return bool(report.failed)
