"""Whose checkpoint states are worth keeping in the lake: those of runs that somebody will want to go back to.

Decided where a run ends, because there its outcome and its settings are known; the sealer, which may be another process
on another day, only reads the decision. The journal always has every state, and every other record of the run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.session import active_for_call
from otel_agent_replay.capture.recorder import Recorder
from otel_agent_replay.model import RunStatus
from otel_agent_replay.wire.text import whole_text


@dataclass(frozen=True, slots=True)
class StatesKept:
    """The policy of a process. With `only_failed` the states of a run that ended well are left out of the lake.

    Unless it was flagged, or is one of a `sample` (0 to 1) of all runs, which is the same runs in every process.
    """

    only_failed: bool = False
    sample: float = 0.0

    def leaves_out(self, run_id: bytes, status: RunStatus, *, flagged: bool) -> bool:
        """Whether the states of a run that has ended so are left out."""
        if not self.only_failed or flagged or status is not RunStatus.OK:
            return False
        return int.from_bytes(hashlib.sha256(run_id).digest()[:8], "big") >= self.sample * 2**64


ALWAYS = StatesKept()


def flag(reason: str) -> None:
    """Mark the run as one to look at, and say why: its checkpoint states are kept whatever the settings say.

    A run may be flagged more than once. Outside a run it does nothing.
    """
    here = active_for_call()
    if here is None or not isinstance(here[0].observer, Recorder):
        return
    session, recorder = here[0], here[0].observer
    try:
        recorder.flags.append(session.redaction.text(whole_text(reason)))
        live = session.root.span.live
        if live is not None:
            live.span.set_attributes(flag_attributes(recorder.flags))
    except Exception as error:
        report(session, "flagging a run", error)


def flag_attributes(flags: list[str]) -> dict[str, Any]:
    """Return what a run that was flagged has on its root span."""
    return {semconv.FLAGGED: True, semconv.FLAG_REASONS: list(flags)} if flags else {}
