"""The `exchange` column <-> a call and its outcome: the wire message, less what has a column of its own. Pure."""

from __future__ import annotations

from otel_agent_replay.model import Call, Outcome
from otel_agent_replay.wire.convert import call_to_wire, outcome_to_wire
from otel_agent_replay.wire.v1.exchange_pb2 import Exchange


def whole_exchange(call: Call | None, outcome: Outcome | None) -> Exchange:
    """Return the message with every field set: what the manifest's exchange digest is computed over."""
    message = Exchange()
    if call is not None:
        call_to_wire(call, message)
    if outcome is not None:
        outcome_to_wire(outcome, message)
    return message


def store_exchange(call: Call | None, outcome: Outcome | None) -> bytes | None:
    """Return the column's value; None when nothing is left to say."""
    message = whole_exchange(call, outcome)
    message.ClearField("idempotency_key")  # each has a column of its own
    message.ClearField("request_media_type")
    message.ClearField("request_size")
    message.ClearField("result_media_type")
    message.ClearField("result_size")
    return message.SerializeToString(deterministic=True) or None


def load_exchange(stored: bytes | None, *, idempotency_key: str | None) -> Exchange:
    """Return the message, its idempotency key put back as it was stored in its own column."""
    message = Exchange.FromString(stored or b"")
    message.idempotency_key = idempotency_key or ""
    return message
