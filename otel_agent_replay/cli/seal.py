"""`agent-replay seal`: journal segments into the lake, once or for ever."""

from __future__ import annotations

import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.reading import tell_absent, tell_sealing
from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.settings import Settings

if TYPE_CHECKING:
    from otel_agent_replay_collector.sealing import SealedRequests

    from otel_agent_replay.export.sealer import SealReport

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
    """Seal closed journal segments, and what a collector has received. With --watch also runs that have ended.

    Runs that are to be sent (AGENT_REPLAY_EXPORT=otlp) are sent. With --watch what was received waits for its trace to
    be complete.

    --watch says a line for each round that did something (with --json one document a line), and of what goes wrong
    only what is new.
    """
    stop = threading.Event()
    if not watch:
        tell_absent(lake)
    else:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    rounds = _Rounds(lake, as_json=as_json, watch=watch)
    failed = rounds.seal()
    while watch and not stop.wait(interval):
        failed = rounds.seal()
    return 1 if failed else 0


class _Rounds:
    """One sealing after the other, each told."""

    def __init__(self, lake: Path, *, as_json: bool, watch: bool) -> None:
        self._lake = lake
        self._as_json = as_json
        self._watch = watch
        self._told: object = None  # what went wrong in the last round

    def seal(self) -> bool:
        """Seal, send and tell. Returns whether something failed."""
        from otel_agent_replay.export.sealer import seal as seal_lake

        try:
            report = seal_lake(self._lake, only_closed=not self._watch)
            received, sent = self._received(), self._sent()
        except (OSError, AgentReplayError) as error:
            if self._is_new(str(error)):
                remark(f"error[seal]: {self._lake} could not be sealed: {error}")
            return True
        wrong = (report.failed, report.unreadable, report.busy)
        is_new = self._is_new(wrong)
        if is_new or _did_something(report, received, sent) or not self._watch:
            self._tell(report, received, sent, wrong=is_new)
        return bool(report.failed or (sent and sent.failed))

    def _received(self) -> SealedRequests | None:
        """Land what a collector has received."""
        from otel_agent_replay_collector.sealing import seal_requests

        return seal_requests(self._lake, all_of_them=not self._watch)

    def _sent(self) -> SealReport | None:
        """Send what is to be sent, where runs are."""
        settings = Settings.load({"lake": self._lake})
        if settings.export != "otlp":
            return None
        from otel_agent_replay.export.otlp_sender import send_outgoing

        return send_outgoing(settings, only_closed=not self._watch)

    def _is_new(self, wrong: object) -> bool:
        is_new, self._told = wrong != self._told, wrong
        return is_new

    def _tell(
        self, report: SealReport, received: SealedRequests | None, sent: SealReport | None, *, wrong: bool
    ) -> None:
        if self._as_json:
            document = {"schema": "agent-replay/seal", "schema_version": 1, **asdict(report)}
            more = {name: asdict(done) for name, done in (("received", received), ("sent", sent)) if done is not None}
            emit_json({**document, **more}, on_one_line=self._watch)
            return
        if wrong:
            tell_sealing(report, verbose=False)
        click.echo(
            f"sealed {counted(report.runs, 'run')}, {counted(report.spans, 'span')}; "
            f"{counted(report.segments_removed, 'segment')} removed, "
            f"{report.open_segments} still written"
        )
        if received is not None:
            click.echo(f"of what was received: {counted(received.runs, 'run')}, {counted(received.spans, 'span')}")
        if sent is not None:
            click.echo(f"sent {counted(sent.runs, 'run')}, {counted(sent.spans, 'span')}")


def _did_something(report: SealReport, received: SealedRequests | None, sent: SealReport | None) -> bool:
    sealed = [report] if sent is None else [report, sent]
    landed = received is not None and bool(received.spans or received.segments_removed)
    return landed or any(done.runs or done.spans or done.segments_removed for done in sealed)
