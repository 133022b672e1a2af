"""An exception on its way into a recording: as data, with every redaction rule applied."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay.model import Failure, FailurePhase
from otel_agent_replay.payload.failure import failure_of
from otel_agent_replay.payload.redaction import Redaction


def recorded_failure(error: BaseException, phase: FailurePhase, redaction: Redaction) -> Failure:
    """Return `error` as a redacted failure, its causes too."""
    return _redacted(failure_of(error, phase), redaction)


def _redacted(failure: Failure, redaction: Redaction) -> Failure:
    return replace(
        failure,
        message=redaction.text(failure.message),
        state=None if failure.state is None else redaction.value_bytes(failure.state),
        cause=None if failure.cause is None else _redacted(failure.cause, redaction),
    )
