"""Requests -> runs in the lake, of those traces that are plain: thousands at a time, no object a span.

A trace lands here when each of its spans is plain, its structure is sound, and the lake has nothing of it. Everything
else is left to `imports.landing`; what lands is the same in the lake either way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from otel_agent_replay import semconv
from otel_agent_replay.imports.foreign_trace import imported_run_id
from otel_agent_replay.imports.plain.anomalies import losses_of
from otel_agent_replay.imports.plain.landed import PlainLanded
from otel_agent_replay.imports.plain.plain_spans import PlainSpans
from otel_agent_replay.imports.plain.request_columns import ColumnsReader
from otel_agent_replay.imports.plain.root_columns import PlainRun, RootPattern
from otel_agent_replay.imports.plain.rows import PlainRows
from otel_agent_replay.imports.plain.trace_order import TraceOrder, order_of
from otel_agent_replay.lake.layout import Partition
from otel_agent_replay.lake.row_file import RowFile, write_rows
from otel_agent_replay.lake.trace_lookup import imported_runs
from otel_agent_replay.lake.writer import FILE_ROWS, ROOT_GROUP_ROWS, ROW_GROUP_ROWS
from otel_agent_replay.model import Failure

_MOST_ATTRIBUTES = 4_000_000
"""Attributes that are looked at together: of each a hundred bytes are in memory then, however short it is."""

_HOUR_NS = 3600 * 1_000_000_000

Keeps = Callable[[bytes, bool], bool]
"""Whether a trace is kept: its id, and whether a span of it failed."""


class PlainLander:
    """Lands plain traces from one source. Raises ImportError where the extra `collector` is not installed."""

    def __init__(self, lake: Path, source: str) -> None:
        self._lake = lake
        self._reader = ColumnsReader()
        self._pattern = RootPattern(source)

    def land(
        self,
        requests: Sequence[bytes],
        trace_ids: Collection[bytes],
        *,
        segments: Sequence[str],
        least: int = 1,
        keeps: Keeps | None = None,
    ) -> PlainLanded:
        """Write those of the traces that are plain. All spans that there are of them must be in the requests.

        None of them when they have less than `least` spans. `keeps` None keeps all. Raises DecodeError for a request
        that is none, OSError when the lake cannot be written.
        """
        landed = PlainLanded()
        columns = self._reader.read(requests)
        if not len(columns) or columns.attribute_count > _MOST_ATTRIBUTES:
            return landed
        spans = PlainSpans(columns)
        order = order_of(spans.places)
        chosen = self._chosen(spans, order, trace_ids)
        counts = np.bincount(spans.places.trace, minlength=spans.places.traces)
        if counts[chosen].sum() < least:
            return landed
        failed = np.bincount(spans.places.trace[spans.failed], minlength=spans.places.traces) > 0
        traces = []
        for trace in np.flatnonzero(chosen).tolist():
            trace_id, count = spans.trace_ids[trace], int(counts[trace])
            if keeps is None or keeps(trace_id, bool(failed[trace])):
                traces.append(trace)
                landed.kept.append(trace_id)
                landed.span_count += count
            else:
                landed.left_out.append(trace_id)
                landed.left_out_spans += count
        if traces:
            landed.anomalies = self._write(spans, order, traces, counts, segments)
        return landed

    def _chosen(self, spans: PlainSpans, order: TraceOrder, trace_ids: Collection[bytes]) -> Any:
        """Return which traces are plain, wanted, and not in the lake."""
        places = spans.places
        chosen = order.sound & spans.whole_ids()
        chosen &= np.bincount(places.trace[spans.odd], minlength=places.traces) == 0
        chosen &= np.array([trace_id in trace_ids for trace_id in spans.trace_ids], bool)
        there = np.flatnonzero(chosen).tolist()
        if there:
            starts = places.start[chosen[places.trace]]
            window = int(starts.min()) // 1_000_000, int(starts.max()) // 1_000_000
            known = imported_runs(self._lake, [spans.trace_ids[trace] for trace in there], *window)
            chosen[[trace for trace in there if spans.trace_ids[trace] in known]] = False
        return chosen

    def _write(
        self, spans: PlainSpans, order: TraceOrder, traces: Sequence[int], counts: Any, segments: Sequence[str]
    ) -> int:
        """Write the runs of traces, and return how many anomalies they have."""
        runs = sorted(_runs(spans, order, traces, counts), key=lambda run: run.run_id)
        number = np.full(spans.places.traces, -1)
        number[[one.trace for one in runs]] = np.arange(len(runs))
        run = number[spans.places.trace]
        rows, ordered, root = _rows(self._pattern, spans, order, runs, run)
        losses = losses_of(spans, order, runs, run)
        done = first = 0
        for members in _files(runs):
            starts = [run.started_ns // 1_000_000 for run in members]
            identities = [run.run_id + run.trace_id for run in members]
            file = RowFile(Partition.of_ms(starts[0]), identities, min(starts), max(starts))
            count = sum(run.span_count for run in members)
            groups = _groups(ordered[done : done + count], root)
            lost = [loss for number in range(first, first + len(members)) for loss in losses.get(number, ())]
            write_rows(self._lake, file, map(rows.table, groups), losses=lost, segments=segments)
            done, first = done + count, first + len(members)
        return sum(map(len, losses.values()))


def _runs(spans: PlainSpans, order: TraceOrder, traces: Sequence[int], counts: Any) -> Iterator[PlainRun]:
    roots = order.root[traces]
    services = [str(one.attributes.get(semconv.SERVICE_NAME, "")) for one in spans.columns.resources]
    told = zip(
        traces,
        spans.places.name.take(pa.array(roots)).to_pylist(),
        spans.columns.resource[roots].tolist(),
        spans.places.start[roots].tolist(),
        spans.places.end[roots].tolist(),
        counts[traces].tolist(),
        order.root_begin[traces].tolist(),
        order.root_end[traces].tolist(),
        _failures(spans, roots),
        strict=True,
    )
    for trace, name, resource, start, end, count, sequence, end_sequence, failure in told:
        trace_id = spans.trace_ids[trace]
        run_id, service = imported_run_id(trace_id, start), services[resource]
        yield PlainRun(trace, trace_id, run_id, name, service, start, end, count, sequence, end_sequence, failure)


def _failures(spans: PlainSpans, roots: Any) -> Iterator[Failure | None]:
    types = spans.attributes.texts_at(semconv.ERROR_TYPE, roots)
    messages = spans.status["message"].take(pa.array(roots)).to_pylist()
    for failed, error_type, message in zip(spans.failed[roots].tolist(), types, messages, strict=True):
        yield Failure(error_type or "", message or "") if failed else None


def _rows(
    pattern: RootPattern, spans: PlainSpans, order: TraceOrder, runs: Sequence[PlainRun], run: Any
) -> tuple[PlainRows, Any, Any]:
    """Return what makes the rows of runs, their spans in order, and a mask of their roots."""
    ordered = np.lexsort((order.place, order.begun, run))
    ordered = ordered[np.count_nonzero(run < 0) :]
    counts = np.array([one.span_count for one in runs])
    position: Any = np.zeros(len(run), np.int64)
    position[ordered] = np.arange(len(ordered)) - np.repeat(np.cumsum(counts) - counts, counts)
    root: Any = np.zeros(len(run), bool)
    root[order.root[[one.trace for one in runs]]] = True
    return PlainRows(pattern, spans, runs, run, position, root), ordered, root


def _files(runs: Sequence[PlainRun]) -> Iterator[Sequence[PlainRun]]:
    """Yield the runs that lie in a file together: those of one hour, as many as a file takes."""
    first = rows = 0
    hour = -1
    for place, run in enumerate(runs):
        own = run.started_ns // _HOUR_NS
        if place > first and (own != hour or rows + run.span_count > FILE_ROWS):
            yield runs[first:place]
            first, rows = place, 0
        hour = own
        rows += run.span_count
    yield runs[first:]


def _groups(ordered: Any, root: Any) -> Iterator[Any]:
    """Yield the spans of each row group of a file; the root rows have their own where there are several."""
    if len(ordered) <= ROW_GROUP_ROWS:
        yield ordered
        return
    is_root = root[ordered]
    for part, size in ((ordered[~is_root], ROW_GROUP_ROWS), (ordered[is_root], ROOT_GROUP_ROWS)):
        for first in range(0, len(part), size):
            yield part[first : first + size]
