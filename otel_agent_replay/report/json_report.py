"""Results as JSON, for scripts: every document says its schema and version.

The version rises when a field changes its meaning or goes; new fields may come without it. Ids and digests are
hexadecimal, times nanoseconds, money US dollars. A side that has nothing at a place has no `before` or no `after`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay.compare import (
    Added,
    Change,
    Comparison,
    Departure,
    FieldChange,
    Measure,
    Measures,
    Moved,
    NodeRef,
    Removed,
    TimingOnly,
)
from otel_agent_replay.model import Outcome, Payload, RecordedRun, RecordedSpan, Run
from otel_agent_replay.payload.difference import MISSING

SCHEMA_VERSION = 1


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON document, `schema` "agent-replay/comparison"."""
    return {
        "schema": "agent-replay/comparison",
        "schema_version": SCHEMA_VERSION,
        "verdict": comparison.verdict.value,
        "sentence": comparison.sentence,
        "notices": [{"code": item.code, "run": item.run, "text": item.text} for item in comparison.notices],
        "a": run_facts(comparison.a),
        "b": run_facts(comparison.b),
        "questions": [
            {
                "asked": item.asked.value,
                "reply": item.reply.value,
                "compared": item.compared,
                "differing": item.differing,
                "first": None if item.first is None else _reference(item.first),
                "detail": item.detail,
            }
            for item in comparison.questions
        ],
        "departure": None if comparison.departure is None else _departure(comparison.departure),
        "changes": [change_json(change) for change in comparison.changes],
        "reordered": [{"a": _reference(item.a), "b": _reference(item.b)} for item in comparison.reordered],
        "timing": [_timing(item) for item in comparison.timing],
        "volatile": dict(comparison.volatile),
        "totals": _measures(comparison.totals),
        "nodes": [
            {
                "a": None if item.a is None else _reference(item.a),
                "b": None if item.b is None else _reference(item.b),
                **_measures(item.measures),
            }
            for item in comparison.nodes
        ],
        "pairs": [
            {"a": pair.a, "b": pair.b, "rule": pair.rule.value, "strength": pair.strength}
            for pair in comparison.alignment.pairs
        ],
        "trust": {
            "nodes_a": comparison.trust.nodes_a,
            "nodes_b": comparison.trust.nodes_b,
            "paired": comparison.trust.paired,
            "not_run": comparison.trust.unobserved,
            "similarity": round(comparison.trust.similarity, 6),
        },
    }


def change_json(change: Change) -> dict[str, Any]:
    """Return one change; `kind` tells which fields it has."""
    if isinstance(change, Added):
        return {"kind": "added", "b": _reference(change.b), "below": change.below, "wraps": change.wraps}
    if isinstance(change, Removed):
        return {"kind": "removed", "a": _reference(change.a), "below": change.below, "wraps": change.wraps}
    ends = {"a": _reference(change.a), "b": _reference(change.b)}
    if isinstance(change, Moved):
        return {"kind": "moved", **ends}
    return {"kind": "changed", **ends, "rule": change.rule.value, "fields": [_field(item) for item in change.fields]}


def run_facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run."""
    versions = run.versions
    names = ("agent", "prompt", "tool_schema", "model_route", "policy", "index", "code")
    return {
        "run_id": run.run_id.hex(),
        "trace_id": run.trace_id.hex(),
        "agent": run.agent,
        "status": run.status.value,
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns or None,
        "mode": run.mode,
        "origin_run_id": run.origin_run_id.hex() or None,
        "thread_id": run.thread_id or None,
        "service": run.service or None,
        "entry": run.entry or None,
        "versions": {name: value for name in names if (value := getattr(versions, name))},
        "packages": dict(versions.packages),
    }


def run_json(recorded: RecordedRun) -> dict[str, Any]:
    """Return a run with its spans in order, `schema` "agent-replay/run"; bodies are left out, digests are there."""
    return {
        "schema": "agent-replay/run",
        "schema_version": SCHEMA_VERSION,
        "run": run_facts(recorded.run),
        "coverage": coverage_json(recorded),
        "spans": [span_json(item) for item in recorded.spans],
    }


def coverage_json(recorded: RecordedRun) -> dict[str, Any]:
    """Return what was captured, what was not, and what was lost."""
    return {
        "captured": [
            {"what": entry.what, "state": entry.state, "detail": entry.detail}
            for entry in recorded.run.coverage.entries
        ],
        "losses": [
            {"reason": loss.reason.value, "what": loss.what, "count": loss.count, "detail": loss.detail}
            for loss in recorded.losses
        ],
    }


def span_json(recorded: RecordedSpan) -> dict[str, Any]:
    """Return one span; `node` is null for a span of another library."""
    span, node = recorded.span, recorded.node
    result: dict[str, Any] = {
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex() or None,
        "name": span.name,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns or None,
        "attributes": plain(span.attributes),
        "node": None,
    }
    if node is not None:
        result["node"] = {
            "step": node.step,
            "kind": node.kind.value,
            "name": node.name,
            "path": list(node.path),
            "side_effect": node.side_effect.value,
            "source": node.source.value,
            "request": None if node.call is None else payload_facts(node.call.request),
            "outcome": None if node.outcome is None else _outcome(node.outcome),
            "reads": len(node.reads),
        }
    return result


def payload_facts(payload: Payload) -> dict[str, Any]:
    """Return digest, size and media type of a payload."""
    return {"sha256": payload.digest.hex(), "size": payload.size, "media_type": payload.media_type}


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: bytes as hexadecimal, anything unknown as its repr."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    return repr(value)


def _outcome(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    return {
        "status": outcome.status.value,
        "result": None if outcome.result is None else payload_facts(outcome.result),
        "http_status": None if outcome.head is None else outcome.head.status,
        "chunks": len(outcome.chunks),
        "closed_early": outcome.closed_early,
        "failure": None if failure is None else {"type": failure.type, "message": failure.message},
    }


def _departure(departure: Departure) -> dict[str, Any]:
    return {
        "at": _reference(departure.at),
        "change": change_json(departure.change),
        "instead": None if departure.counterpart is None else change_json(departure.counterpart),
        "cause": departure.cause.value,
        "comparable": departure.cause.is_comparable,
        "evidence": list(departure.evidence),
        "consequences": [
            {
                "change": change_json(item.change),
                "basis": item.basis.value,
                "edge": None if item.basis.edge is None else item.basis.edge.value,
                "words": list(item.words),
            }
            for item in departure.consequences
        ],
    }


def _field(change: FieldChange) -> dict[str, Any]:
    places = []
    for item in change.differences:
        place: dict[str, Any] = {"path": item.path}
        if item.before is not MISSING:
            place["before"] = plain(item.before)
        if item.after is not MISSING:
            place["after"] = plain(item.after)
        places.append(place)
    return {
        "field": change.field.value,
        "differences": places,
        "complete": change.complete,
        "by_digest": change.by_digest,
    }


def _reference(node: NodeRef) -> dict[str, Any]:
    return {
        "index": node.index,
        "step": node.step,
        "kind": node.kind,
        "name": node.name,
        "path": list(node.path),
        "span_id": node.span_id.hex(),
    }


def _timing(item: TimingOnly) -> dict[str, Any]:
    return {
        "a": _reference(item.a),
        "b": _reference(item.b),
        "before_ns": item.before_ns,
        "after_ns": item.after_ns,
    }


def _measures(measures: Measures) -> dict[str, Any]:
    return {
        "latency_ns": _measure(measures.latency_ns),
        "input_tokens": _measure(measures.input_tokens),
        "output_tokens": _measure(measures.output_tokens),
        "cost_usd": _measure(measures.cost_usd),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "before": measure.before,
        "after": measure.after,
        "absolute": measure.absolute,
        "relative": measure.relative,
    }
