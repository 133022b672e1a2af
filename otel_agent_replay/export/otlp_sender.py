"""Runs of the journal -> an OTLP endpoint: what `AGENT_REPLAY_EXPORT=otlp` starts beside the recording process.

The journal of runs that are to be sent lies in `outgoing/` of the lake's folder, so that no command that reads the lake
takes them for its own. A segment is removed only when the receiver has acknowledged all that is in it; what was not is
sent again, by this process or the next one. The heavy attributes go along: the endpoint should be our collector, or one
before it.

    python -m otel_agent_replay.export.otlp_sender OUTGOING_FOLDER
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from otel_agent_replay.errors import ExportRefused
from otel_agent_replay.export.destination import Attempts
from otel_agent_replay.export.otlp_target import Target, sender_to
from otel_agent_replay.export.outgoing import STANDARD, outgoing_folder
from otel_agent_replay.export.sealer import SealReport, seal
from otel_agent_replay.model import Loss, LossReason, RecordedRun, Span
from otel_agent_replay.settings import Settings, variables

_TRIES = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_PATIENCE_S = 900.0
"""How long a sender goes on without anything being taken; then the next one does."""


class OtlpDestination:
    """Sends whole runs to a receiver, and returns when it has acknowledged them.

    What a receiver refuses for good is no reason to keep the rest back: it stays in the lake at `leftovers`, and so do
    losses of no run, which OTLP has no place for.
    """

    def __init__(self, target: Target, leftovers: Path) -> None:
        self._sender = sender_to(target, tries=_TRIES)
        self._message_bytes = target.message_bytes
        self._leftovers = leftovers

    def attempts(self) -> Attempts:
        """Return that nothing is known to be there: the journal's own notes say what was sent."""
        return lambda _run_id: {}

    def publish(self, runs: Sequence[RecordedRun], segments: Sequence[str], losses: Sequence[Loss]) -> None:
        """Send runs. Raises OSError when they were not taken now."""
        from otel_agent_replay.lake.writer import write_runs

        left = list(losses)
        refused: list[RecordedRun] = []
        for recorded in runs:
            why = self._refused(recorded)
            if why:
                refused.append(recorded)
                left.append(Loss(LossReason.DROPPED, "run on its way", 1, why, recorded.run.run_id))
        if refused or left:
            write_runs(self._leftovers, refused, segments=segments, losses=left)

    def _refused(self, recorded: RecordedRun) -> str:
        """Send one run. Returns why it will never be taken, "" when it was; raises OSError when it was not now."""
        from otel_agent_replay.otlp.parts import messages_of

        try:
            for message in messages_of(_spans(recorded), self._message_bytes):
                self._sender.send(message)
        except ExportRefused as error:
            if error.may_try_again:
                raise OSError(str(error)) from error
            return str(error)
        return ""


def _spans(recorded: RecordedRun) -> Sequence[Span]:
    from otel_agent_replay.otlp.runs import spans_of_run

    if not recorded.run.run_id:
        return [item.span for item in recorded.spans]
    return list(spans_of_run(recorded))


def send_outgoing(settings: Settings, *, only_closed: bool = True) -> SealReport:
    """Send what waits and is not being written. Raises OSError when it was not taken, ConfigurationError."""
    folder = outgoing_folder(settings)
    destination = OtlpDestination(Target.of(settings, variables(STANDARD)), settings.lake)
    return seal(folder, only_closed=only_closed, destination=destination)


def send_until_done(
    send: Callable[[], SealReport],
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Call `send` until it has nothing left or another sender is at work. False: nothing was taken for a long time."""
    pause, since = _FIRST_PAUSE_S, clock()
    while True:
        try:
            report = send()
        except OSError:
            if clock() - since > _PATIENCE_S:
                return False
            wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            continue
        if report.busy or not report.segments_removed:
            return True
        pause, since = _FIRST_PAUSE_S, clock()


def main() -> int:
    """Send what waits in the folder named on the command line."""
    settings = Settings.load({"lake": Path(sys.argv[1]).parent})
    return 0 if send_until_done(lambda: send_outgoing(settings)) else 1


if __name__ == "__main__":
    sys.exit(main())
