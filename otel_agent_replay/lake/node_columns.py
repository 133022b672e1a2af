"""The replay side of a span <-> columns of the spans table: place in the run, what was asked, what came back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from otel_agent_replay.lake.attributes import load_nested
from otel_agent_replay.lake.columns import Columns, Same, bounds, made, places_where
from otel_agent_replay.lake.exchange_column import Beside, load_exchanges
from otel_agent_replay.lake.path_column import load_path
from otel_agent_replay.model import (
    AnswerSource,
    AttributeValue,
    Call,
    Fidelity,
    Kind,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    SideEffect,
    Span,
    make_call,
    make_node,
    make_outcome,
)

_READ_VALUES = ("integer", "number", "text", "data", "nested")


def load_nodes(columns: Columns, spans: Sequence[Span]) -> list[Node]:
    """Return the replay side of each row, all of which have one; `spans` are the spans of the same rows."""
    kinds: Sequence[Any] = columns.words("kind", Kind)
    names = columns.texts("node_name")
    effects: Sequence[Any] = columns.words("side_effect", SideEffect)
    exchanges = load_exchanges(columns.values("exchange"))
    reads = columns.array("reads")
    return made(
        make_node,
        len(columns),
        {
            "run_id": columns.filled("run_id", b""),
            "kind": kinds,
            "name": names,
            "path": [load_path(path) for path in columns.array("path").to_pylist()],
            "sequence": columns.values("sequence"),
            "end_sequence": columns.filled("end_sequence", 0),
            "step": columns.values("step"),
            "side_effect": effects,
            "source": columns.words("source", AnswerSource),
            "fidelity": columns.words("fidelity", Fidelity),
            "call": _load_calls(columns, spans, exchanges, zip(kinds, names, effects, strict=True)),
            "outcome": _load_outcomes(columns, spans, exchanges),
            "reads": Same((), len(columns)) if reads is None else _load_reads(reads),
            "strand": columns.texts("strand"),
            "origin_step": columns.values("origin_step"),
            "key_id": columns.texts("key_id"),
        },
    )


def _load_calls(
    columns: Columns, spans: Sequence[Span], exchanges: Sequence[Beside], named: Iterable[tuple[Kind, str, SideEffect]]
) -> list[Call | None]:
    requests = _load_payloads(columns, "request")
    beside = _load_beside(columns, "call_attributes", spans)
    keys = columns.texts("idempotency_key")
    return [
        None if request is None else make_call(kind, name, effect, request, call.head, attributes, key, *call[1:])
        for (kind, name, effect), request, (call, _), attributes, key in zip(
            named, requests, exchanges, beside, keys, strict=True
        )
    ]


def _load_outcomes(columns: Columns, spans: Sequence[Span], exchanges: Sequence[Beside]) -> list[Outcome | None]:
    statuses = columns.words("outcome", OutcomeStatus)
    results = _load_payloads(columns, "result")
    beside = _load_beside(columns, "outcome_attributes", spans)
    return [
        None if status is None else make_outcome(status, result, *outcome, attributes)
        for status, result, (_, outcome), attributes in zip(statuses, results, exchanges, beside, strict=True)
    ]


def _load_payloads(columns: Columns, side: str) -> list[Payload | None]:
    digests, sizes = columns.values(f"{side}_digest"), columns.values(f"{side}_size")
    media_types = columns.texts(f"{side}_media_type")
    return [
        None if digest is None else Payload(digest, None, media_type, size)
        for digest, media_type, size in zip(digests, media_types, sizes, strict=True)
    ]


def _load_beside(columns: Columns, name: str, spans: Sequence[Span]) -> list[dict[str, AttributeValue]]:
    """Return the attributes of the calls or outcomes: most are those of the span, named only."""
    array = columns.array(name)
    if array is None:
        return [{} for _ in range(len(columns))]
    entries = Columns(array.values)
    names, told = entries.values("name"), entries.values("value")
    return [
        {
            name: span.attributes[name] if value is None else load_nested(value)
            for name, value in zip(names[first:last], told[first:last], strict=True)
        }
        for (first, last), span in zip(bounds(array), spans, strict=True)
    ]


def _load_reads(array: Any) -> list[tuple[Read, ...]]:
    columns = Columns(array.values)
    values: list[Any] = [None] * len(columns)
    for name in _READ_VALUES:
        told = columns.array(name)
        if told is not None:
            found = columns.values(name)
            for place in places_where(told.is_valid()):
                values[place] = load_nested(found[place]) if name == "nested" else found[place]
    reads = list(
        map(
            Read,
            columns.words("kind", Kind),
            columns.values("name"),
            values,
            columns.texts("strand"),
            columns.filled("sequence", 0),
            columns.filled("masked", False),
        )
    )
    return [tuple(reads[first:last]) for first, last in bounds(array)]
