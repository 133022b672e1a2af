"""What our spans are called, and the small facts that everyone sees on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import SpanKind

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import Call, Kind, Outcome
from otel_agent_replay.wire.text import whole_text

_NAMES = {
    Kind.RUN: "invoke_agent",
    Kind.TOOL: "execute_tool",
    Kind.RETRIEVAL: "retrieval",
    Kind.DECISION: "decision",
    Kind.APPROVAL: "approval",
    Kind.CHECKPOINT: "checkpoint",
    Kind.INPUT: "input",
}
_CLIENT, _INTERNAL = SpanKind.CLIENT, SpanKind.INTERNAL
_MODEL, _HTTP = Kind.MODEL, Kind.HTTP  # naming a member costs 35 ns before Python 3.12


def span_name(place: Place, attributes: Mapping[str, Any]) -> str:
    """Return the span's name: the conventions' form where they have one (`chat gpt-4o`, `execute_tool refund`)."""
    kind = place.kind
    if kind is _MODEL:
        operation = attributes.get(semconv.OPERATION_NAME, "chat")
        model = attributes.get(semconv.REQUEST_MODEL, "")
        return whole_text(f"{operation} {model}".rstrip())
    if kind is _HTTP:
        return place.name.partition(" ")[0]
    prefix = _NAMES.get(kind)
    return place.name if prefix is None else f"{prefix} {place.name}"


def span_kind(kind: Kind) -> SpanKind:
    """Return CLIENT for what leaves by the network, INTERNAL for the rest."""
    return _CLIENT if kind is _MODEL or kind is _HTTP else _INTERNAL


def call_facts(call: Call, place: Place, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is on a crossing's span from its begin; `shared` is what is on that of each of its like."""
    facts = _whole({**call.attributes, **shared}) if call.head is not None else dict(shared)
    facts[semconv.REQUEST_DIGEST] = call.request.digest.hex()
    if place.step is not None:
        facts[semconv.STEP] = place.step
    if not call.round_trips:
        facts[semconv.ROUND_TRIPS] = False
    return facts


def outcome_facts(outcome: Outcome) -> dict[str, Any]:
    """Return what its end adds."""
    facts: dict[str, Any] = _whole(dict(outcome.attributes)) if outcome.attributes else {}
    if outcome.result is not None:
        facts[semconv.RESULT_DIGEST] = outcome.result.digest.hex()
    if outcome.head is not None:
        facts[semconv.HTTP_STATUS] = outcome.head.status
    if outcome.closed_early:
        facts[semconv.CLOSED_EARLY] = True
    if not outcome.round_trips:
        facts[semconv.ROUND_TRIPS] = False
    return facts


def _whole(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts that were read from a wire, in texts that can be exported.

    Half of a surrogate pair in one of them would cost the service's exporter its whole batch.
    """
    for key, value in facts.items():
        kind = type(value)
        if kind is str:
            if not value.isascii():
                facts[key] = whole_text(value)
        elif kind is tuple or kind is list:
            facts[key] = [whole_text(item) if type(item) is str else item for item in value]
    return facts
