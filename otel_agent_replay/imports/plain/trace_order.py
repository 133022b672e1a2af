"""Spans of many traces -> which traces are sound, and the order of their spans, many at a time. Pure.

Says of a sound trace what `trace_structure` says of it. Sound is a trace of distinct spans with times, in no circle:
some may have lost their parent, lie outside its time, or have none where another one has none.
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
    """Of each trace whether it is `sound`, and if so its `root` with the numbers of the root's begin and end.

    Of each span its `parent`, -1 where it has none here, and what orders the spans of a trace: when it has `begun`, and
    its `place` among those that began at that time.
    """

    sound: Any
    parent: Any
    begun: Any
    place: Any
    root: Any
    root_begin: Any
    root_end: Any


def order_of(spans: SpanPlaces) -> TraceOrder:
    """Return the order of spans."""
    parent, odd = _parents(spans)
    odd |= (spans.start == 0) | ((spans.end != 0) & (spans.end < spans.start))
    sound = np.bincount(spans.trace[odd], minlength=spans.traces) == 0
    levels = _levels(spans, parent, sound)
    begun = spans.start.copy()
    for level in levels[1:]:
        begun[level] = np.maximum(begun[level], begun[parent[level]])
    place = _places(spans, parent, levels)
    beginnings = levels[0]
    first = beginnings[np.lexsort((place[beginnings], spans.has_parent[beginnings], spans.trace[beginnings]))]
    root: Any = np.zeros(spans.traces, np.int64)
    root[spans.trace[first[::-1]]] = first[::-1]  # the first of each trace is the last to be written
    root_begin, root_end = _root_moments(spans, begun, place, root)
    return TraceOrder(sound, parent, begun, place, root, root_begin, root_end)


def _parents(spans: SpanPlaces) -> tuple[Any, Any]:
    """Return the place of each span's parent, -1 where it has none here, and which spans share their id."""
    by_id = np.argsort(spans.span_id, kind="stable")
    ids = spans.span_id[by_id]
    odd: Any = np.zeros(len(ids), bool)
    same = np.flatnonzero(ids[1:] == ids[:-1])
    odd[by_id[same]] = odd[by_id[same + 1]] = True
    at = by_id[np.minimum(np.searchsorted(ids, spans.parent_id), len(ids) - 1)]
    found = spans.has_parent & (spans.span_id[at] == spans.parent_id) & (spans.trace[at] == spans.trace)
    return np.where(found, at, -1), odd


def _levels(spans: SpanPlaces, parent: Any, sound: Any) -> list[Any]:
    """Return the spans of sound traces by depth. A trace that is too deep, or goes in circles, is sound no more."""
    reached = parent < 0
    of_sound = sound[spans.trace]
    levels = [np.flatnonzero(reached & of_sound)]
    waiting = np.flatnonzero(~reached & of_sound)
    while len(waiting) and len(levels) <= DEEPEST:
        ready = reached[parent[waiting]]
        level = waiting[ready]
        if not len(level):
            break
        reached[level] = True
        levels.append(level)
        waiting = waiting[~ready]
    sound[spans.trace[waiting]] = False
    return levels


def _places(spans: SpanPlaces, parent: Any, levels: list[Any]) -> Any:
    """Return numbers that order the spans of a trace: a parent before all below it, then by what siblings are."""
    size: Any = np.ones(len(parent), np.int64)
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    members = np.concatenate(levels)
    above = np.where(parent < 0, len(parent) + spans.trace, parent)  # beginnings are siblings too
    names = _ranks(spans.name)
    siblings = members[
        np.lexsort((~spans.span_id[members], spans.end[members], names[members], spans.start[members], above[members]))
    ]
    before = np.cumsum(size[siblings]) - size[siblings]
    first = np.flatnonzero(np.diff(above[siblings], prepend=-1))
    before -= np.repeat(before[first], np.diff(first, append=len(siblings)))
    place: Any = np.zeros(len(parent), np.int64)
    place[siblings] = before
    for level in levels[1:]:
        place[level] += place[parent[level]] + 1
    return place


def _root_moments(spans: SpanPlaces, begun: Any, place: Any, root: Any) -> tuple[Any, Any]:
    """Return the numbers of the root's begin and end among all begins and ends of its trace; no end: 0.

    At one moment ends come before begins, and the ends of what does not last behind them.
    """
    trace = spans.trace
    ended = spans.end != 0
    ends = np.maximum(spans.end, begun)
    brief = ends == begun
    root_begun, root_ends, root_brief, root_place = (of[root][trace] for of in (begun, ends, brief, place))
    earlier = place < root_place
    before_begin = (begun < root_begun) | ((begun == root_begun) & earlier)
    ended_before_begin = ended & ((ends < root_begun) | ((ends == root_begun) & ~brief))
    before_end = (begun < root_ends) | ((begun == root_ends) & root_brief)
    same_end = (ends == root_ends) & np.where(brief == root_brief, earlier, root_brief)
    ended_before_end = ended & ((ends < root_ends) | same_end)
    begin = 1 + _summed(before_begin, ended_before_begin, spans)
    end = 1 + _summed(before_end, ended_before_end, spans)
    return begin, np.where(ended[root], end, 0)


def _summed(one: Any, other: Any, spans: SpanPlaces) -> Any:
    """Return how many spans of each trace two masks tell, both together."""
    return np.bincount(spans.trace, weights=one.astype(np.int64) + other, minlength=spans.traces).astype(np.int64)


def _ranks(texts: Any) -> Any:
    """Return a number for each text, in their order."""
    encoded = texts.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    ranks: Any = np.empty(len(known), np.int64)
    ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    return ranks[encoded.indices.to_numpy()]
