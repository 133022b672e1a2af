"""Spans of many traces -> which traces are whole and sound, and the order of their spans, many at a time. Pure.

Says of a sound trace what `trace_structure` says of it. Any anomaly, and more than one root, makes a trace one that is
not sound: it goes the way on which anomalies are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from otel_agent_replay.imports.trace_structure import DEEPEST


@dataclass(frozen=True, slots=True)
class SpanPlaces:
    """What places spans, an array each: `trace` numbers their traces from 0 to `traces`, ids are unsigned integers.

    `has_parent` tells whether a parent is named, `name` a text array, times Unix nanoseconds below 2**63.
    """

    traces: int
    trace: Any
    span_id: Any
    has_parent: Any
    parent_id: Any
    start: Any
    end: Any
    name: Any


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """Of each trace whether it is `sound`, and if so its `root` and the number of the root's end among all moments.

    `place` orders the spans of a sound trace that begin at the same time.
    """

    sound: Any
    root: Any
    root_end: Any
    place: Any


def order_of(spans: SpanPlaces) -> TraceOrder:
    """Return the order of spans."""
    parent, odd = _parents(spans)
    odd |= _odd_times(spans, parent)
    sound = np.bincount(spans.trace[odd], minlength=spans.traces) == 0
    roots = np.flatnonzero(~spans.has_parent)
    sound &= np.bincount(spans.trace[roots], minlength=spans.traces) == 1
    root = np.full(spans.traces, -1)
    root[spans.trace[roots]] = roots
    levels = _levels(spans, parent, sound)
    return TraceOrder(sound, root, _root_ends(spans, root), _places(spans, parent, levels))


def _parents(spans: SpanPlaces) -> tuple[Any, Any]:
    """Return the place of each span's parent, -1 where it has none here, and which spans are odd for it."""
    by_id = np.argsort(spans.span_id, kind="stable")
    ids = spans.span_id[by_id]
    odd: Any = np.zeros(len(ids), bool)
    same = np.flatnonzero(ids[1:] == ids[:-1])
    odd[by_id[same]] = odd[by_id[same + 1]] = True
    at = np.minimum(np.searchsorted(ids, spans.parent_id), len(ids) - 1)
    found = spans.has_parent & (ids[at] == spans.parent_id)
    parent = np.where(found, by_id[at], -1)
    odd |= spans.has_parent & ~found
    odd |= found & (spans.trace[parent] != spans.trace)
    return parent, odd


def _odd_times(spans: SpanPlaces, parent: Any) -> Any:
    start, end = spans.start, spans.end
    odd = (start == 0) | ((end != 0) & (end < start))
    above_start, above_end = start[parent], end[parent]
    late = (above_end != 0) & (np.where(end == 0, start, end) > above_end)
    return odd | (spans.has_parent & ((start < above_start) | late))


def _levels(spans: SpanPlaces, parent: Any, sound: Any) -> list[Any]:
    """Return the spans below roots by their depth. A trace that is too deep, or goes in circles, is sound no more."""
    reached = ~spans.has_parent
    waiting = np.flatnonzero(spans.has_parent & sound[spans.trace])
    levels: list[Any] = []
    while len(waiting) and len(levels) < DEEPEST:
        ready = reached[parent[waiting]]
        level = waiting[ready]
        if not len(level):
            break
        reached[level] = True
        levels.append(level)
        waiting = waiting[~ready]
    sound[spans.trace[waiting]] = False
    return levels


def _root_ends(spans: SpanPlaces, root: Any) -> Any:
    """Return, of each root, the number of its end among all begins and ends of its trace; 0: it never ended."""
    start, end, trace = spans.start, spans.end, spans.trace
    last, lasts = end[root][trace], (start[root] < end[root])[trace]
    # At one moment ends come before begins, and the ends of what does not last behind them.
    ends_behind = (end > last) | ((end == last) & (lasts | (start == end)))
    begins_behind = (start > last) | ((start == last) & lasts)
    moments = np.where(begins_behind & spans.has_parent, 0, 1) + np.where(
        (end == 0) | (ends_behind & spans.has_parent), 0, 1
    )
    numbers = np.bincount(trace, weights=moments, minlength=spans.traces).astype(np.int64)
    return np.where(end[root] == 0, 0, numbers)


def _places(spans: SpanPlaces, parent: Any, levels: list[Any]) -> Any:
    """Return numbers that order the spans of a trace: a parent before all below it, then by what siblings are."""
    place: Any = np.zeros(len(parent), np.int64)
    by_time = np.lexsort((spans.start, spans.trace))
    start, trace = spans.start[by_time], spans.trace[by_time]
    if not np.any((start[1:] == start[:-1]) & (trace[1:] == trace[:-1])):
        return place  # the times alone order them
    size: Any = np.ones(len(parent), np.int64)
    for level in reversed(levels):
        np.add.at(size, parent[level], size[level])
    below = np.concatenate(levels) if levels else np.zeros(0, np.int64)
    names = _ranks(spans.name)
    siblings = below[
        np.lexsort((~spans.span_id[below], spans.end[below], names[below], spans.start[below], parent[below]))
    ]
    ends = np.cumsum(size[siblings])
    before = ends - size[siblings]
    first = np.flatnonzero(np.diff(parent[siblings], prepend=-1))
    before -= np.repeat(before[first], np.diff(first, append=len(siblings)))
    offset: Any = np.zeros(len(parent), np.int64)
    offset[siblings] = before
    for level in levels:
        place[level] = place[parent[level]] + 1 + offset[level]
    return place


def _ranks(texts: Any) -> Any:
    """Return a number for each text, in their order."""
    encoded = texts.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    ranks: Any = np.empty(len(known), np.int64)
    ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    return ranks[encoded.indices.to_numpy()]
