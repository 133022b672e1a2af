"""Results as JSON, for scripts: every document says its schema and version.

The version rises when a field changes its meaning or goes; new fields may come without it. Ids and digests are
hexadecimal, times nanoseconds, money US dollars. A side that has nothing at a place has no `before` or no `after`.
`comparison.schema.json` beside this module describes a comparison. It is the one source of what HTML and JUnit show.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    Row,
    TimingOnly,
    Walk,
)
from otel_agent_replay.payload.difference import MISSING
from otel_agent_replay.report.kinship import relation_sentence
from otel_agent_replay.report.run_document import plain, run_facts

SCHEMA_VERSION = 1
SENTENCES = 8
"""Of a walk in words, at most."""


def comparison_json(comparison: Comparison, walks: Mapping[int, Walk] | None = None) -> dict[str, Any]:
    """Return a comparison as a JSON document, `schema` "agent-replay/comparison"; `walks` as `compare.explain` gives.

    `rows` are both runs as one list, parents first: `a` and `b` are places in preorder, `change` is a number in
    `changes` (as `change_number` is elsewhere), counted from 0.
    """
    numbers = {id(change): number for number, change in enumerate(comparison.changes)}
    return {
        "schema": "agent-replay/comparison",
        "schema_version": SCHEMA_VERSION,
        "verdict": comparison.verdict.value,
        "sentence": comparison.sentence,
        "relation": relation_sentence(comparison.a, comparison.b) or None,
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
        "departure": None if comparison.departure is None else _departure(comparison.departure, numbers),
        "changes": [change_json(change) for change in comparison.changes],
        "walks": [_walk(number, walk) for number, walk in (walks or {}).items()],
        "reordered": [{"a": _reference(item.a), "b": _reference(item.b)} for item in comparison.reordered],
        "timing": [_timing(item) for item in comparison.timing],
        "volatile": dict(comparison.volatile),
        "rows": [_row(row, numbers) for row in comparison.rows],
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


def _row(row: Row, numbers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "depth": row.depth,
        "mark": row.mark.value,
        "a": None if row.a is None else row.a.index,
        "b": None if row.b is None else row.b.index,
        "rule": None if row.rule is None else row.rule.value,
        "strength": None if row.rule is None else row.rule.strength,
        "change": None if row.change is None else numbers.get(id(row.change)),
    }


def _departure(departure: Departure, numbers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "at": _reference(departure.at),
        "change": change_json(departure.change),
        "change_number": numbers.get(id(departure.change)),
        "instead": None if departure.counterpart is None else change_json(departure.counterpart),
        "cause": departure.cause.value,
        "comparable": departure.cause.is_comparable,
        "evidence": list(departure.evidence),
        "consequences": [
            {
                "change": change_json(item.change),
                "change_number": numbers.get(id(item.change)),
                "basis": item.basis.value,
                "edge": None if item.basis.edge is None else item.basis.edge.value,
                "words": list(item.words),
            }
            for item in departure.consequences
        ],
    }


def _walk(number: int, walk: Walk) -> dict[str, Any]:
    return {
        "change_number": number,
        "side": walk.side,
        "end": walk.end.value,
        "at": walk.at.index,
        "detail": walk.detail,
        "hops": [
            {
                "asker": hop.asker.index,
                "path": hop.path,
                "source": hop.source.index,
                "source_path": hop.source_path,
                "part": hop.part.hex() or None,
                "basis": hop.basis.value,
            }
            for hop in walk.hops
        ],
        "sentences": walk.told(SENTENCES),
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
        "source": node.source or None,
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
