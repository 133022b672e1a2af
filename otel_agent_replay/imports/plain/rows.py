"""Plain spans of sound traces -> rows of the lake's table of spans, and of their runs. Pure.

Gives the rows that the writer makes of the same spans one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay import semconv
from otel_agent_replay.imports.plain.attribute_columns import taken
from otel_agent_replay.imports.plain.plain_spans import Members, PlainSpans
from otel_agent_replay.imports.plain.request_columns import lengths_in
from otel_agent_replay.imports.plain.root_columns import PlainRun, RootPattern
from otel_agent_replay.lake.arrays import array_of, struct_array
from otel_agent_replay.lake.schema import EVENT, LINK, SPANS
from otel_agent_replay.lake.span_columns import store_origins

_T = TypeVar("_T")


class PlainRows:
    """Makes rows of spans: `runs` are their runs, `run` says of each span which of them it belongs to.

    `position` is the place of a span in its run, `root` a mask of those that stand for theirs.
    """

    def __init__(
        self, pattern: RootPattern, spans: PlainSpans, runs: Sequence[PlainRun], run: Any, position: Any, root: Any
    ) -> None:
        self._pattern = pattern
        self._spans = spans
        self._runs = runs
        self._run = run
        self._position = position
        self._root = root
        self._services = _Services(spans, runs)
        self._run_ids = pa.array([one.run_id for one in runs], pa.binary(16))
        self._agents = array_of([one.agent or None for one in runs], pa.string())

    def table(self, chosen: Any) -> pa.Table:
        """Return the rows of spans, given by their numbers, in that order."""
        spans = self._spans
        run, root = self._run[chosen], self._root[chosen]
        of_run = pa.array(run)
        arrays: dict[str, Any] = {
            "run_id": self._run_ids.take(of_run),
            "attempt": pa.repeat(pa.scalar(1, pa.int32()), len(chosen)),
            "position": pa.array(self._position[chosen], pa.int32()),
            "root": pa.array(root),
            "agent": self._agents.take(of_run),
            "service": self._services.column(chosen, run),
            **_span_columns(spans, chosen),
        }
        if root.any():
            roots = self._pattern.columns([self._runs[number] for number in run[root].tolist()])
            places = np.where(root, np.cumsum(root) - 1, -1)
            arrays |= roots if root.all() else {name: taken(array, places) for name, array in roots.items()}
        attributes = spans.attributes
        arrays["attributes"] = attributes.maps(
            chosen, promoted=True, more=self._pattern.added if root.any() else None, to=root
        )
        for name in attributes.columns:
            arrays[name] = attributes.column(name, chosen)
        for name, members, kind in (("events", spans.events, EVENT), ("links", spans.links, LINK)):
            if members is not None:
                arrays[name] = _lists(members, chosen, kind)
        columns = spans.columns
        arrays |= store_origins(
            *_used(columns.resources, columns.resource[chosen]), *_used(columns.scopes, columns.scope[chosen])
        )
        return pa.Table.from_arrays(
            [
                pa.nulls(len(chosen), field.type) if arrays.get(field.name) is None else arrays[field.name]
                for field in SPANS
            ],
            schema=SPANS,
        )


def _used(origins: Sequence[_T], places: Any) -> tuple[list[_T], Any]:
    """Return those origins that lie at any of the places, and at which of them each does."""
    used, which = np.unique(places, return_inverse=True)
    return [origins[place] for place in used.tolist()], pa.array(which)


def _span_columns(spans: PlainSpans, chosen: Any) -> dict[str, Any]:
    """Return the columns in which a span's own fields lie."""
    fields, places = spans.columns.fields, spans.places
    at, named = pa.array(chosen), places.has_parent[chosen]
    end = places.end[chosen]
    return {
        "trace_id": fields["trace_id"].take(at),
        "span_id": fields["span_id"].take(at),
        "parent_span_id": taken(fields["parent_span_id"], np.where(named, chosen, -1)),
        "parent_basis": _where(named, "recorded"),
        "name": _text(fields["name"], at),
        "start_ns": pa.array(places.start[chosen]),
        "end_ns": pa.array(end, mask=end == 0),
        "span_kind": fields["kind"].take(at),
        "status_code": spans.status["code"].fill_null(0).take(at),
        "status_message": _text(spans.status["message"], at),
        "trace_state": _text(fields["trace_state"], at),
        "flags": _count(fields["flags"], at),
        "dropped_attributes": _count(fields["dropped_attributes_count"], at),
        "dropped_events": _count(fields["dropped_events_count"], at),
        "dropped_links": _count(fields["dropped_links_count"], at),
    }


def _where(mask: Any, text: str) -> Any:
    return pa.array([None, text], pa.string()).take(pa.array(mask.astype(np.int8)))


def _text(texts: Any, at: Any) -> Any:
    """Return texts at places, an empty one as null; None where all of them are."""
    return _without_empty(texts.take(at))


def _without_empty(values: Any) -> Any:
    """Return texts or bytes, an empty one as null; None where all of them are."""
    there = lengths_in(values) > 0
    if not there.any():
        return None
    return values if there.all() else pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def _count(numbers: Any, at: Any) -> Any:
    """Return counts at places, none as null."""
    found = numbers.take(at).to_numpy().astype(np.int64)
    return pa.array(found, mask=found == 0) if found.any() else None


def _lists(members: Members, chosen: Any, kind: pa.StructType) -> Any:
    """Return the lists of events or links of spans; an empty one is null."""
    begins, lengths = members.begins[chosen], members.lengths[chosen]
    ends = np.cumsum(lengths)
    numbers = np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1])
    if not len(numbers):
        return None
    at = pa.array(numbers)
    fields = members.fields
    dropped = _count(fields["dropped_attributes_count"], at)
    if kind is EVENT:
        columns = {
            "time_ns": fields["time_unix_nano"].take(at).cast(pa.int64()),
            "name": _text(fields["name"], at),
            "attributes": members.attributes.maps(numbers),
            "dropped_attributes": dropped,
        }
    else:
        columns = {
            "trace_id": _without_empty(fields["trace_id"].take(at)),
            "span_id": _without_empty(fields["span_id"].take(at)),
            "trace_state": _text(fields["trace_state"], at),
            "flags": _count(fields["flags"], at),
            "attributes": members.attributes.maps(numbers),
            "dropped_attributes": dropped,
            "basis": pa.repeat(pa.scalar("recorded"), len(numbers)),
        }
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    nulls = np.concatenate([lengths == 0, [False]])
    told = {name: column for name, column in columns.items() if column is not None}
    return pa.ListArray.from_arrays(pa.array(offsets, mask=nulls), struct_array(told, kind))


class _Services:
    """The service of each span: its resource's name for it, else its run's."""

    def __init__(self, spans: PlainSpans, runs: Sequence[PlainRun]) -> None:
        known: dict[str, int] = {}
        told = [resource.attributes.get(semconv.SERVICE_NAME) for resource in spans.columns.resources]
        self._of_resource = np.array(
            [known.setdefault(name, len(known)) if type(name) is str else -1 for name in told], np.int64
        )
        self._of_run = np.array([known.setdefault(run.service, len(known)) for run in runs], np.int64)
        self._resource = spans.columns.resource
        self._texts = array_of([name or None for name in known], pa.string())

    def column(self, chosen: Any, run: Any) -> Any:
        own = self._of_resource[self._resource[chosen]]
        return self._texts.take(pa.array(np.where(own < 0, self._of_run[run], own)))
