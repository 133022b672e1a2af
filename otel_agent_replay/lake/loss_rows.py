"""A loss <-> a row of the losses table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_agent_replay.model import Loss, LossReason
from otel_agent_replay.wire.text import text_from_wire as load_text
from otel_agent_replay.wire.text import text_to_wire as store_text


def store_loss(loss: Loss) -> dict[str, Any]:
    """Return the row of a loss."""
    return {
        "run_id": loss.run_id or None,
        "span_id": loss.span_id or None,
        "reason": str(loss.reason),
        "what": store_text(loss.what),
        "count": loss.count,
        "detail": store_text(loss.detail) or None,
        "time_ns": loss.time_ns or None,
    }


def load_loss(row: Mapping[str, Any]) -> Loss:
    """Return the loss of a row."""
    return Loss(
        reason=LossReason(row["reason"]),
        what=load_text(row["what"]),
        count=row["count"],
        detail="" if row["detail"] is None else load_text(row["detail"]),
        run_id=row["run_id"] or b"",
        span_id=row["span_id"] or b"",
        time_ns=row["time_ns"] or 0,
    )
