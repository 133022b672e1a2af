"""What our spans are called, and the small facts that everyone sees on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import SpanKind

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import AnswerSource, Call, Kind, Outcome

_NAMES = {
    Kind.RUN: "invoke_agent",
    Kind.TOOL: "execute_tool",
    Kind.RETRIEVAL: "retrieval",
    Kind.DECISION: "decision",
    Kind.APPROVAL: "approval",
    Kind.CHECKPOINT: "checkpoint",
    Kind.INPUT: "input",
}


def span_name(place: Place, attributes: Mapping[str, Any]) -> str:
    """Return the span's name: the conventions' form where they have one (`chat gpt-4o`, `execute_tool refund`)."""
    kind = place.kind
    if kind is Kind.MODEL:
        operation = attributes.get(semconv.OPERATION_NAME, "chat")
        model = attributes.get(semconv.REQUEST_MODEL, "")
        return f"{operation} {model}".rstrip()
    if kind is Kind.HTTP:
        return place.name.partition(" ")[0]
    prefix = _NAMES.get(kind)
    return place.name if prefix is None else f"{prefix} {place.name}"


def span_kind(kind: Kind) -> SpanKind:
    """Return CLIENT for what leaves by the network, INTERNAL for the rest."""
    return SpanKind.CLIENT if kind in (Kind.MODEL, Kind.HTTP) else SpanKind.INTERNAL


def call_attributes(call: Call, place: Place, source: AnswerSource) -> dict[str, Any]:
    """Return the small `agent_replay.*` facts of a crossing's begin."""
    attributes: dict[str, Any] = {
        semconv.KIND: call.kind.value,
        semconv.SIDE_EFFECT: call.side_effect.value,
        semconv.REQUEST_DIGEST: call.request.digest.hex(),
    }
    if place.step is not None:
        attributes[semconv.STEP] = place.step
    if source is not AnswerSource.LIVE:
        attributes[semconv.SOURCE] = source.value
    if not call.round_trips:
        attributes[semconv.ROUND_TRIPS] = False
    return attributes


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the small `agent_replay.*` facts of a crossing's end."""
    attributes: dict[str, Any] = {}
    if outcome.result is not None:
        attributes[semconv.RESULT_DIGEST] = outcome.result.digest.hex()
    if outcome.head is not None:
        attributes[semconv.HTTP_STATUS] = outcome.head.status
    if outcome.closed_early:
        attributes[semconv.CLOSED_EARLY] = True
    if not outcome.round_trips:
        attributes[semconv.ROUND_TRIPS] = False
    return attributes
