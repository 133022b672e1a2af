"""Capture levels: how much of a payload goes on, after redaction."""

from __future__ import annotations

from otel_agent_replay.model import CaptureLevel, Payload


def apply_level(payload: Payload, level: CaptureLevel) -> Payload:
    """Return `payload` as `level` allows: without its bytes at `digest`, as it is otherwise.

    The rules of `redacted` and `full` were applied before the digest was computed (`redaction`).
    """
    return payload.without_data() if level is CaptureLevel.DIGEST else payload
