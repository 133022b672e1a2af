"""An exception on its way into a recording: as data, with every redaction rule applied."""

from __future__ import annotations

import json
from dataclasses import replace

from otel_agent_replay.model import CaptureLevel, Failure, FailurePhase
from otel_agent_replay.payload.failure import failure_of
from otel_agent_replay.payload.http_objects import without_bodies
from otel_agent_replay.payload.redaction import Redaction


def recorded_failure(error: BaseException, phase: FailurePhase, redaction: Redaction) -> Failure:
    """Return `error` as a redacted failure, its causes too; at level `digest` no body of a response is in it."""
    return _redacted(failure_of(error, phase), redaction)


def _kept(state: bytes, level: CaptureLevel) -> bytes:
    if level is not CaptureLevel.DIGEST or b'"http_response"' not in state:
        return state
    return json.dumps(without_bodies(json.loads(state)), separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _redacted(failure: Failure, redaction: Redaction) -> Failure:
    return replace(
        failure,
        message=redaction.text(failure.message),
        state=None if failure.state is None else redaction.value_bytes(_kept(failure.state, redaction.level)),
        cause=None if failure.cause is None else _redacted(failure.cause, redaction),
    )
