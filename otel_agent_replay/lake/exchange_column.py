"""The `exchange` column <-> a call and its outcome: the wire message, less what has a column of its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from otel_agent_replay.model import Call, Outcome, digest_of
from otel_agent_replay.wire.convert import (
    CallBeside,
    OutcomeBeside,
    call_beside_from_wire,
    call_to_wire,
    outcome_beside_from_wire,
    outcome_to_wire,
)
from otel_agent_replay.wire.v1.exchange_pb2 import Exchange


def whole_exchange(call: Call | None, outcome: Outcome | None) -> Exchange:
    """Return the message with every field set: what the manifest's exchange digest is computed over."""
    message = Exchange()
    if call is not None:
        call_to_wire(call, message)
    if outcome is not None:
        outcome_to_wire(outcome, message)
    return message


class StoredExchange(NamedTuple):
    """An exchange as the lake has it: the column's value, None when nothing is left to say, and the whole's SHA-256."""

    column: bytes | None
    digest: bytes


def store_exchange(call: Call | None, outcome: Outcome | None) -> StoredExchange:
    """Return what the lake has of an exchange."""
    message = whole_exchange(call, outcome)
    digest = digest_of_exchange(message)
    message.ClearField("idempotency_key")  # each has a column of its own
    message.ClearField("request_media_type")
    message.ClearField("request_size")
    message.ClearField("result_media_type")
    message.ClearField("result_size")
    return StoredExchange(message.SerializeToString(deterministic=True) or None, digest)


def digest_of_exchange(message: Exchange) -> bytes:
    """Return the SHA-256 of an exchange with every field set, empty where it says nothing."""
    data = message.SerializeToString(deterministic=True)
    return digest_of(data) if data else b""


Beside = tuple[CallBeside, OutcomeBeside]
_NOTHING: Beside = CallBeside(), OutcomeBeside()


def load_exchanges(column: Sequence[bytes | None]) -> list[Beside]:
    """Return both sides of each exchange of a column; those that say the same are one object."""
    known: dict[bytes | None, Beside] = {None: _NOTHING}
    for stored in column:
        if stored not in known:
            message = Exchange.FromString(stored or b"")
            known[stored] = call_beside_from_wire(message), outcome_beside_from_wire(message)
    return [known[stored] for stored in column]
