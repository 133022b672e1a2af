"""What happens when our own code fails around somebody's HTTP call.

While recording, the call goes on as if we were not there, and the loss is logged once and counted. Where a
replay may not go live, the replay stops: going on would leave the tape in silence.
"""

from __future__ import annotations

import logging

from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import Loss, LossReason

_log = logging.getLogger("otel_agent_replay")
_said: set[str] = set()


def may_go_live(session: Session) -> bool:
    """Whether a call may go through unasked when our own code fails around it."""
    return not session.guarded


def answers_first(session: Session | None) -> bool:
    """Whether something other than the live call is asked first, so that a request must be known before it is sent."""
    return session is not None and session.guarded


def report(session: Session, what: str, error: BaseException) -> None:
    """Log a defect of ours once a kind, and count what it lost."""
    if what not in _said:
        _said.add(what)
        _log.error("%s failed; the call itself goes on, the loss is counted", what, exc_info=error)
    session.observer.lost(Loss(LossReason.INTERNAL, what, 1, _told(session, error), session.run_id))


def _told(session: Session, error: BaseException) -> str:
    """Return the error in a few words that may be stored: its text may hold what the call held."""
    kind = type(error).__name__
    try:
        return session.redaction.text(f"{kind}: {error}")[:300]
    except Exception:  # redaction itself may be what failed; the log has the whole error
        return kind


def stop(session: Session, interrupt: ReplayInterrupt) -> ReplayInterrupt:
    """Make `interrupt` what every later call of the session gets too, and return it to be raised."""
    if session.interrupt is None:
        session.interrupt = interrupt
    return session.interrupt
