"""Which protocol an exchange speaks: as its recording says, else by its request, else by its answer's bytes."""

from __future__ import annotations

from otel_agent_replay.model import WireExchange
from otel_agent_replay.protocols import PROTOCOLS, Protocol, recognise, recognise_answer


def protocol_of(exchange: WireExchange) -> Protocol | None:
    """The protocol, or None when nobody knows. An error alone tells it only where there is no request to ask."""
    named = PROTOCOLS.get(exchange.protocol)
    if named is not None:
        return named
    head = exchange.request
    if head is None:
        return recognise_answer(exchange.body)
    asked = recognise(head.method, head.url, head.headers, exchange.request_body)
    if asked is None and head.method.upper() == "POST":
        return recognise_answer(exchange.body, errors=False)
    return asked
