"""What a declared function gave, taken down: its value, its error, the items that it yielded.

Owns how much of each is kept (redaction, capture level) and how a defect of ours there stays ours.
"""

from __future__ import annotations

import asyncio
from typing import Any

from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CaptureLevel, FailurePhase, MediaType, Outcome, OutcomeStatus, Payload, make_outcome
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.payload.level import apply_level
from otel_agent_replay.payload.redaction import Redaction

_VALUE = MediaType.VALUE.value
_OK = OutcomeStatus.OK

NOT_KEPT = Payload.of(b'{"$type":"text_only","class":"builtins:dict","text":"<not kept>"}', _VALUE)
"""What stands for a value that could not be taken down at all."""


NOT_WHOLE = "the state could not be kept whole"
MASKED = "something in the state was masked"
"""Why a state that was taken down cannot be handed back as it was."""


def lacking(*parts: Outcome) -> list[str]:
    """Return why a state that consists of these parts cannot be handed back as it was, as a list of one or none."""
    if not all(part.round_trips for part in parts):
        return [NOT_WHOLE]
    return [] if all(part.exact for part in parts) else [MASKED]


def rules_at(session: Session, level: CaptureLevel | None) -> Redaction:
    """Return the rules at a declared level; None: at that of the run."""
    return session.redaction if level is None else session.redaction.at(level)


def _kept(data: bytes, level: CaptureLevel | None) -> Payload:
    payload = Payload.of(data, _VALUE)
    return payload if level is None else apply_level(payload, level)


def value_outcome(session: Session, value: Any, level: CaptureLevel | None = None) -> Outcome:
    """Return the outcome that holds `value` as `level` allows (None: the run's), with what could not be kept noted."""
    try:
        data, round_trips, notes = encode(value)
        rules = session.redaction if level is None else session.redaction.at(level)
        stored = rules.value_bytes(data)
        exact = stored is data or stored == data
        result = Payload.of(stored, _VALUE) if level is None else _kept(stored, level)
        return make_outcome(_OK, result, None, (), (), None, False, exact, round_trips, notes)
    except Exception as error:
        return _not_kept(session, _OK, error)


def error_outcome(session: Session, error: BaseException, level: CaptureLevel | None = None) -> Outcome:
    """Return the outcome of a call that raised `error`."""
    cancelled = isinstance(error, asyncio.CancelledError)
    status = OutcomeStatus.CANCELLED if cancelled else OutcomeStatus.ERROR
    try:
        failure = recorded_failure(error, FailurePhase.CALL, rules_at(session, level))
    except Exception as defect:
        return _not_kept(session, status, defect)
    return Outcome(status, failure=failure, round_trips=failure.round_trips)


def _not_kept(session: Session, status: OutcomeStatus, defect: Exception) -> Outcome:
    """Return the outcome of a call of which a defect of ours kept nothing but how it ended."""
    report(session, "taking down the outcome of a declared function", defect)
    notes = (f"the outcome was not kept: {type(defect).__name__}",)
    return Outcome(status, round_trips=False, exact=False, notes=notes)


def items_outcome(
    session: Session, level: CaptureLevel | None, items: list[Any], returned: Any, *, closed_early: bool = False
) -> Outcome:
    """Return the outcome of a generator that gave `items` (each encoded), and at its end `returned`."""
    parts = b",".join(item.data for item in items)
    end = encode(returned)
    data = b'{"yielded":[' + parts + b'],"returned":' + end.data + b"}"
    try:
        stored = rules_at(session, level).value_bytes(data)
    except Exception as defect:
        return _not_kept(session, OutcomeStatus.OK, defect)
    return Outcome(
        status=OutcomeStatus.OK,
        result=_kept(stored, level),
        closed_early=closed_early,
        exact=stored == data,
        round_trips=end.round_trips and all(item.round_trips for item in items),
        notes=tuple(note for item in (*items, end) for note in item.notes),
    )


def failed_items(session: Session, level: CaptureLevel | None, items: list[Any], error: BaseException) -> Outcome:
    """Return the outcome of a generator that gave `items` (each encoded) and then raised `error`."""
    whole = items_outcome(session, level, items, None)
    failed = error_outcome(session, error, level)
    return Outcome(
        status=failed.status,
        result=whole.result,
        failure=failed.failure,
        exact=whole.exact,
        round_trips=failed.round_trips and whole.round_trips,
        notes=whole.notes,
    )
