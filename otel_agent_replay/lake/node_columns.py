"""The replay side of a span <-> columns of the spans table: place in the run, what was asked, what came back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.arrays import Lists, list_array, struct_array
from otel_agent_replay.lake.attributes import load_nested, store_nested
from otel_agent_replay.lake.columns import Columns, Same, bounds, made, places_where
from otel_agent_replay.lake.exchange_column import Beside, load_exchanges
from otel_agent_replay.lake.path_column import join_path, load_path
from otel_agent_replay.lake.schema import BESIDE_ATTRIBUTE, READ
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

_INT64 = 1 << 63

_READ_VALUES = ("integer", "number", "text", "data", "nested")
_READ_FIELD_OF: dict[type[Any], str] = {int: "integer", float: "number", str: "text", bytes: "data"}


def store_node_columns(nodes: Sequence[Node], spans: Sequence[Span]) -> tuple[Lists, dict[str, Any]]:
    """Return the plain columns of nodes, but for their exchanges, and the arrays of the others.

    `spans` are the spans of the same nodes.

    Raises ValueError for a call that is not its node's.
    """
    lists = Lists(len(nodes))
    lists["kind"] = [node.kind for node in nodes]
    lists["node_name"] = [node.name or None for node in nodes]
    lists["path"] = [join_path(node.path) for node in nodes]
    lists["step"] = [node.step for node in nodes]
    lists["sequence"] = [node.sequence for node in nodes]
    lists["end_sequence"] = [node.end_sequence or None for node in nodes]
    lists["side_effect"] = [node.side_effect for node in nodes]
    lists["source"] = [node.source for node in nodes]
    lists["fidelity"] = [node.fidelity for node in nodes]
    lists["strand"] = [node.strand or None for node in nodes]
    lists["origin_step"] = [node.origin_step for node in nodes]
    lists["key_id"] = [node.key_id or None for node in nodes]
    calls, outcomes = [node.call for node in nodes], [node.outcome for node in nodes]
    lists["round_trips"] = list(map(_round_trips, calls, outcomes))
    _store_calls(nodes, lists)
    lists["outcome"] = [None if outcome is None else outcome.status for outcome in outcomes]
    _store_payloads([None if outcome is None else outcome.result for outcome in outcomes], "result", lists)
    arrays = {
        "call_attributes": _store_beside([{} if call is None else call.attributes for call in calls], spans),
        "outcome_attributes": _store_beside(
            [{} if outcome is None else outcome.attributes for outcome in outcomes], spans
        ),
        "reads": list_array([node.reads for node in nodes], _store_reads(list(chain(*[node.reads for node in nodes])))),
    }
    return lists, arrays


Attributes = Sequence[Mapping[str, AttributeValue]]
"""Those of rows, in order."""


def load_nodes(
    columns: Columns, spans: Sequence[Span], beside: tuple[Attributes, Attributes] | None = None
) -> list[Node]:
    """Return the replay side of each row, all of which have one; `spans` are the spans of the same rows.

    `beside` are the attributes of their calls and of their outcomes where they are not made of `columns`.
    """
    calls, outcomes = load_beside(columns, spans) if beside is None else beside
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
            "call": _load_calls(columns, calls, exchanges, zip(kinds, names, effects, strict=True)),
            "outcome": _load_outcomes(columns, outcomes, exchanges),
            "reads": Same((), len(columns)) if reads is None else _load_reads(reads),
            "strand": columns.texts("strand"),
            "origin_step": columns.values("origin_step"),
            "key_id": columns.texts("key_id"),
        },
    )


def _round_trips(call: Call | None, outcome: Outcome | None) -> bool | None:
    if call is None and outcome is None:
        return None
    return (call is None or call.round_trips) and (outcome is None or outcome.round_trips)


def _store_calls(nodes: Sequence[Node], lists: Lists) -> None:
    for node in nodes:
        call = node.call
        if call is not None and (call.kind, call.name, call.side_effect) != (node.kind, node.name, node.side_effect):
            raise ValueError(
                f"the call and its node disagree on kind, name or side effect: {call.name!r}, {node.name!r}"
            )
    lists["idempotency_key"] = [None if node.call is None else node.call.idempotency_key or None for node in nodes]
    _store_payloads([None if node.call is None else node.call.request for node in nodes], "request", lists)


def _load_calls(
    columns: Columns, beside: Attributes, exchanges: Sequence[Beside], named: Iterable[tuple[Kind, str, SideEffect]]
) -> list[Call | None]:
    requests = _load_payloads(columns, "request")
    keys = columns.texts("idempotency_key")
    return [
        None if request is None else make_call(kind, name, effect, request, call.head, attributes, key, *call[1:])
        for (kind, name, effect), request, (call, _), attributes, key in zip(
            named, requests, exchanges, beside, keys, strict=True
        )
    ]


def _load_outcomes(columns: Columns, beside: Attributes, exchanges: Sequence[Beside]) -> list[Outcome | None]:
    statuses = columns.words("outcome", OutcomeStatus)
    results = _load_payloads(columns, "result")
    return [
        None if status is None else make_outcome(status, result, *outcome, attributes)
        for status, result, (_, outcome), attributes in zip(statuses, results, exchanges, beside, strict=True)
    ]


def _store_payloads(payloads: Sequence[Payload | None], side: str, lists: Lists) -> None:
    lists[f"{side}_digest"] = [None if payload is None else payload.digest for payload in payloads]
    lists[f"{side}_size"] = [None if payload is None else payload.size for payload in payloads]
    lists[f"{side}_media_type"] = [None if payload is None else payload.media_type or None for payload in payloads]


def _load_payloads(columns: Columns, side: str) -> list[Payload | None]:
    digests, sizes = columns.values(f"{side}_digest"), columns.values(f"{side}_size")
    media_types = columns.texts(f"{side}_media_type")
    return [
        None if digest is None else Payload(digest, None, media_type, size)
        for digest, media_type, size in zip(digests, media_types, sizes, strict=True)
    ]


def _store_beside(beside: Sequence[Mapping[str, AttributeValue]], spans: Sequence[Span]) -> Any:
    told = [
        None if _is_same(span.attributes.get(name), value) else store_nested(value)
        for attributes, span in zip(beside, spans, strict=True)
        for name, value in attributes.items()
    ]
    names = list(chain.from_iterable(beside))
    return list_array(beside, struct_array({"name": names, "value": told}, BESIDE_ATTRIBUTE))


def _is_same(one: AttributeValue, other: AttributeValue) -> bool:
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            type(left) is str and type(right) is str and left == right for left, right in zip(one, other, strict=True)
        )
    return one is not None and type(one) is type(other) and type(one) in (str, bool, int, float, bytes) and one == other


def load_beside(columns: Columns, spans: Sequence[Span]) -> tuple[Attributes, Attributes]:
    """Return the attributes of the calls and of the outcomes of rows; `spans` are the spans of the same rows."""
    attributes = [span.attributes for span in spans]
    return beside_of(columns, "call_attributes", attributes), beside_of(columns, "outcome_attributes", attributes)


def beside_of(columns: Columns, name: str, spans: Attributes) -> list[dict[str, AttributeValue]]:
    """Return the attributes in a column: most are those of the span, which `spans` are, named only."""
    array = columns.array(name)
    if array is None:
        return [{} for _ in range(len(columns))]
    entries = Columns(array.values)
    names, told = entries.values("name"), entries.values("value")
    return [
        {
            name: of_span[name] if value is None else load_nested(value)
            for name, value in zip(names[first:last], told[first:last], strict=True)
        }
        for (first, last), of_span in zip(bounds(array), spans, strict=True)
    ]


def _store_reads(reads: Sequence[Read]) -> Any:
    lists = Lists(len(reads))
    lists["kind"] = [read.kind for read in reads]
    lists["name"] = [read.name for read in reads]
    lists["strand"] = [read.strand or None for read in reads]
    lists["sequence"] = [read.sequence or None for read in reads]
    lists["masked"] = [read.masked or None for read in reads]
    for place, read in enumerate(reads):
        value: Any = read.value
        kind = type(value)
        if kind in _READ_FIELD_OF and (kind is not int or -_INT64 <= value < _INT64):
            lists[_READ_FIELD_OF[kind]][place] = value
        elif value is not None:
            lists["nested"][place] = store_nested(value)
    return struct_array(lists, READ)


def _load_reads(array: Any) -> list[tuple[Read, ...]]:
    columns = Columns(array.values)
    values: list[Any] = [None] * len(columns)
    for name in _READ_VALUES:
        told = columns.array(name)
        if told is not None:
            found = columns.values(name)
            for place in places_where(kernels.is_valid(told)):
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
