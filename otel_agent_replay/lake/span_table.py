"""Recorded spans <-> rows of the spans table, all of them at once: one list a column. Pure.

An empty text, a zero count and "no id" are all stored as null, so that columns that are seldom used cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from otel_agent_replay import semconv
from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.arrays import Lists, array_of
from otel_agent_replay.lake.columns import Columns
from otel_agent_replay.lake.later_rows import CoverageOfRow, LaterRows, RowAttributes, RowsRead, of_rows
from otel_agent_replay.lake.node_columns import Attributes, beside_of, load_nodes, store_node_columns
from otel_agent_replay.lake.run_row import load_coverage
from otel_agent_replay.lake.run_rows import RowsLater
from otel_agent_replay.lake.schema import RUN, SPANS
from otel_agent_replay.lake.span_columns import load_attributes, load_span_columns, store_span_columns
from otel_agent_replay.model import CoverageEntry, Node, RecordedSpan, Run, Span


class SpanRow(NamedTuple):
    """A span to store, and what lies around it.

    `position` is its place in the attempt, `facts` the `run` struct of a root row, `numbers` those of the payloads of
    its run in the pack beside, by digest, `check` the short check of its node, `exchange` its column.
    """

    span: Span
    node: Node | None
    run: Run
    position: int
    root: bool = False
    facts: Mapping[str, Any] | None = None
    pack: int = 0
    numbers: Mapping[bytes, int] = {}
    check: bytes | None = None
    exchange: bytes | None = None


def store_spans(rows: Sequence[SpanRow]) -> pa.Table:
    """Return the table of rows, in order. Raises ValueError for a call that is not its node's."""
    lists = Lists(len(rows))
    lists["run_id"] = [row.run.run_id or None for row in rows]
    lists["attempt"] = [row.run.attempt if row.run.run_id else None for row in rows]
    lists["position"] = [row.position for row in rows]
    lists["root"] = [row.root for row in rows]
    lists["agent"] = [row.run.agent or None for row in rows]
    lists["service"] = [_service(row.span, row.run) for row in rows]
    arrays: dict[str, Any] = {}
    nodes = {place: row.node for place, row in enumerate(rows) if row.node is not None}
    if nodes:
        _store_nodes(rows, nodes, lists, arrays)
    if any(row.facts is not None for row in rows):
        arrays["run"] = pa.array([row.facts for row in rows], RUN)
    arrays |= store_span_columns([row.span for row in rows], lists)
    columns = [
        arrays[field.name]
        if field.name in arrays
        else array_of(lists[field.name], field.type)
        if field.name in lists
        else pa.nulls(len(rows), field.type)
        for field in SPANS
    ]
    return pa.Table.from_arrays(columns, schema=SPANS)


def _service(span: Span, run: Run) -> str | None:
    name = span.resource.attributes.get(semconv.SERVICE_NAME)
    return (name if type(name) is str else run.service) or None


def _store_nodes(rows: Sequence[SpanRow], nodes: Mapping[int, Node], lists: Lists, arrays: dict[str, Any]) -> None:
    """Add the columns of the replay side, of the rows that have one."""
    members = [rows[place] for place in nodes]
    of_nodes, nested = store_node_columns(list(nodes.values()), [row.span for row in members])
    for side in ("request", "result"):
        numbers = [row.numbers.get(digest) for row, digest in zip(members, of_nodes[f"{side}_digest"], strict=True)]
        of_nodes[f"{side}_payload"] = numbers
    of_nodes["pack"] = [
        None if request is None and result is None else row.pack
        for row, request, result in zip(members, of_nodes["request_payload"], of_nodes["result_payload"], strict=True)
    ]
    of_nodes["entry_check"] = [row.check for row in members]
    of_nodes["exchange"] = [row.exchange for row in members]
    if len(nodes) == len(rows):
        lists.update(of_nodes)
        arrays.update(nested)
        return
    for name, values in of_nodes.items():
        column = lists[name]
        for place, value in zip(nodes, values, strict=True):
            column[place] = value
    number_at = dict(zip(nodes, range(len(nodes)), strict=True))
    places = pa.array([number_at.get(place) for place in range(len(rows))], pa.int32())
    arrays.update({name: kernels.taken(array, places) for name, array in nested.items()})


def load_spans(table: pa.Table, columns: Columns | None = None, later: SpansLater | None = None) -> list[RecordedSpan]:
    """Return the recorded span of each row, in order. Their payloads come with digests only.

    `columns` are those of `table`, where some are made already. `later` has what of the same rows is made when somebody
    looks into it.
    """
    if not len(table):
        return []
    columns = columns or Columns(table)
    spans = load_span_columns(columns, None if later is None else later.attributes())
    kinds = columns.array("kind")
    if kinds is None:
        return list(map(RecordedSpan, spans))
    if not kinds.null_count:
        beside = None if later is None else later.beside(range(len(spans)))
        return list(map(RecordedSpan, spans, load_nodes(columns, spans, beside)))
    ours = kernels.is_valid(kinds)
    whose = ours.to_pylist()
    of_node = [span for span, is_ours in zip(spans, whose, strict=True) if is_ours]
    rows = [row for row, is_ours in enumerate(whose) if is_ours]
    beside = None if later is None else later.beside(rows)
    nodes = iter(load_nodes(Columns(kernels.filtered(table, ours)), of_node, beside))
    return [RecordedSpan(span, next(nodes) if is_ours else None) for span, is_ours in zip(spans, whose, strict=True)]


class SpansLater:
    """What stands for the attributes of the rows of `table`, and for the coverage of their runs, until somebody looks
    into one: then all are read.
    """

    def __init__(self, table: pa.Table, later: RowsLater) -> None:
        self._count = len(table)
        self._names = later.columns
        self._later = LaterRows(lambda: _read(table, later))

    def attributes(self) -> Attributes:
        """Return those of the spans."""
        return of_rows(self._later, "spans", range(self._count))

    def beside(self, rows: Sequence[int]) -> tuple[Attributes, Attributes]:
        """Return those of the calls and of the outcomes of some rows."""
        return self._of(rows, "calls", "call_attributes"), self._of(rows, "outcomes", "outcome_attributes")

    def coverage(self, row: int) -> Sequence[CoverageEntry]:
        """Return the coverage of the run whose root the row is."""
        return CoverageOfRow(self._later, row)

    def _of(self, rows: Sequence[int], side: str, column: str) -> Attributes:
        if column not in self._names:
            return [{} for _ in rows]
        return of_rows(self._later, side, rows)


def _read(table: pa.Table, later: RowsLater) -> RowsRead:
    """Read what was left for later of all rows of `table`."""
    read = later.table()
    names = [*table.column_names, *read.column_names]  # what has a column of its own is not told twice
    columns = Columns(pa.Table.from_arrays([*table.columns, *read.columns], names=names))
    spans = load_attributes(columns)
    calls, outcomes = (beside_of(columns, f"{side}_attributes", spans) for side in ("call", "outcome"))
    return RowsRead(RowAttributes(spans, calls, outcomes), load_coverage(Columns(read)))
