"""Spans of one trace -> the same spans in the order of causes, copies counted once, what is wrong named. Pure.

No span is lost, whatever points where: orphans and cycles become beginnings of their own. Work grows linearly, and no
step is a recursion, so that neither a hundred thousand spans nor a chain of them does any harm.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from otel_agent_replay.model import Anomaly, AnomalyCode, Span

DEEPEST = 200
"""Spans under one another up to which each has a logical place of its own; what is deeper has its ancestor's."""

_JSON_BEGINS = frozenset("[{ \n")
_CUT_JSON = re.compile(r"\s*\[?\s*\{\s*\"")
_JSON_ENDS = ("}", "]")


class Placed(NamedTuple):
    """A span with its place: `parent` is the index of its parent among the placed, None for a beginning.

    `begin` and `end` number all begins and ends of the trace from 1; `end` is 0 for a span that never ended.
    """

    span: Span
    parent: int | None
    depth: int
    begin: int
    end: int


class Structure(NamedTuple):
    """The spans of a trace, parents before children; `root` is the index of the span that stands for the whole."""

    spans: Sequence[Placed]
    root: int
    anomalies: Sequence[Anomaly]


def structure_of(spans: Sequence[Span]) -> Structure:
    """Return the structure of the spans of one trace: one at least, from wherever they came, in any order."""
    kept, anomalies = _without_copies(spans)
    first_with: dict[bytes, int] = {}
    for index, span in enumerate(kept):
        first_with.setdefault(span.span_id, index)
    parents: list[int | None] = []
    for index, span in enumerate(kept):
        parent = first_with.get(span.parent_span_id) if span.parent_span_id else None
        if span.parent_span_id and parent is None:
            anomalies.append(_anomaly(AnomalyCode.ORPHAN_PARENT, span, orphan_told(span.parent_span_id)))
        if parent is not None and parent == index:
            anomalies.append(_anomaly(AnomalyCode.CYCLE, span, "it names itself as its parent"))
            parent = None
        parents.append(parent)
    _cut_cycles(kept, parents, anomalies)
    _look_at_times(kept, parents, anomalies)
    _look_at_texts(kept, anomalies)
    placed = _in_order(kept, parents)
    deep = [item.span for item in placed if item.depth > DEEPEST]
    if deep:
        detail = f"{len(deep)} spans lie deeper than {DEEPEST}: their logical place is that of an ancestor"
        anomalies.append(_anomaly(AnomalyCode.DEEP_NESTING, deep[0], detail))
    root = _root(placed, anomalies)
    anomalies.sort(key=lambda anomaly: (anomaly.span_id, anomaly.code, anomaly.detail))
    return Structure(placed, root, anomalies)


def _anomaly(code: AnomalyCode, span: Span, detail: str) -> Anomaly:
    return Anomaly(code, detail, span.trace_id, span.span_id)


SECOND_ROOT = "it has no parent, and is not the only one: it lies under the earliest"
"""What is said of a second root."""


def orphan_told(parent_id: bytes) -> str:
    """Return what is said of a span whose parent is not there."""
    return f"its parent {parent_id.hex()} is not among the spans of its trace"


def outside_told(early: int, late: int) -> str:
    """Return what is said of a span that begins so many ns before its parent, or else ends so many after it."""
    which = f"begins {early:,} ns before" if early > 0 else f"ends {late:,} ns after"
    return f"it {which} its parent"


# --- copies ---


def _without_copies(spans: Sequence[Span]) -> tuple[list[Span], list[Anomaly]]:
    """Return the spans to keep, in an order that does not depend on the one they came in, and what came twice."""
    by_id: dict[bytes, list[Span]] = {}
    for span in spans:
        by_id.setdefault(span.span_id, []).append(span)
    kept: list[Span] = []
    anomalies: list[Anomaly] = []
    for same in by_id.values():
        kept += same if len(same) == 1 else _distinct(same, anomalies)
    kept.sort(key=lambda span: (span.start_ns, span.name, span.end_ns, span.span_id))
    return kept, anomalies


def _distinct(same: list[Span], anomalies: list[Anomaly]) -> list[Span]:
    by_content = {content_of(span): span for span in same}
    contents = sorted(by_content)
    distinct = [by_content[content] for content in contents]
    if len(same) > len(distinct):
        detail = f"it came {len(same)} times, {len(same) - len(distinct)} of them as an exact copy"
        anomalies.append(_anomaly(AnomalyCode.DUPLICATE_SPAN, same[0], detail))
    finished = [span for span in distinct if span.end_ns]
    overtaken = [span for span in distinct if not span.end_ns and any(_is_later(end, span) for end in finished)]
    if overtaken:
        detail = "it came unfinished and finished: the finished one is kept"
        anomalies.append(_anomaly(AnomalyCode.DUPLICATE_SPAN, same[0], detail))
    left = [span for span in distinct if not any(span is one for one in overtaken)]
    if len(left) > 1:
        names = ", ".join(repr(span.name[:60]) for span in left[:5])
        detail = f"{len(left)} different spans have its id ({names}): all are kept"
        anomalies.append(_anomaly(AnomalyCode.CONFLICTING_SPAN, same[0], detail))
    return left


def _is_later(finished: Span, unfinished: Span) -> bool:
    """Whether the first can be the second after its end: begun at the same moment, under the same parent."""
    return (finished.start_ns, finished.parent_span_id) == (unfinished.start_ns, unfinished.parent_span_id)


def content_of(span: Span) -> bytes:
    """Return all that a span says as bytes, the same for the same content.

    The order of attributes, the type of sequences, and which of the bit patterns of NaN it is, have no part in it.
    """
    resource, scope = span.resource, span.scope
    plain = (
        span.trace_id, span.span_id, span.name, span.start_ns, span.end_ns, span.parent_span_id, span.kind,
        span.status_code, span.status_message, _plain(span.attributes), span.trace_state, span.flags,
        span.dropped_attributes, span.dropped_events, span.dropped_links,
        tuple((one.time_ns, one.name, _plain(one.attributes), one.dropped_attributes) for one in span.events),
        tuple((one.trace_id, one.span_id, one.trace_state, _plain(one.attributes), one.dropped_attributes, one.flags)
              for one in span.links),
        (_plain(resource.attributes), resource.dropped_attributes, resource.schema_url),
        (scope.name, scope.version, _plain(scope.attributes), scope.dropped_attributes, scope.schema_url),
    )  # fmt: skip
    return marshal.dumps(plain, 2)  # version 2 has no references between equal objects: equal content, equal bytes


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ("{", tuple(sorted((str(key), _plain(item)) for key, item in value.items())))
    if isinstance(value, (list, tuple)):
        return ("[", tuple(map(_plain, value)))
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - no other value is unlike itself
        return ("nan",)
    return str.__str__(value) if isinstance(value, str) else value


# --- parents ---


def _cut_cycles(spans: list[Span], parents: list[int | None], anomalies: list[Anomaly]) -> None:
    """Make the earliest span of each circle a beginning of its own."""
    seen = [0] * len(spans)  # number of the walk that came by; 0: none yet
    for start in range(len(spans)):
        index: int | None = start
        while index is not None and not seen[index]:
            seen[index] = start + 1
            index = parents[index]
        if index is not None and seen[index] == start + 1:
            circle = [index]
            following = parents[index]
            while following is not None and following != index:
                circle.append(following)
                following = parents[following]
            first = min(circle)  # the spans are in order of time
            parents[first] = None
            detail = f"{len(circle)} spans are each other's ancestors: it is taken as the first of them"
            anomalies.append(_anomaly(AnomalyCode.CYCLE, spans[first], detail))


def _look_at_times(spans: list[Span], parents: list[int | None], anomalies: list[Anomaly]) -> None:
    for span, parent in zip(spans, parents, strict=True):
        if not span.start_ns:
            anomalies.append(_anomaly(AnomalyCode.MISSING_TIME, span, "it has no time of its begin"))
        elif span.end_ns and span.end_ns < span.start_ns:
            detail = f"it ends {span.start_ns - span.end_ns:,} ns before it begins"
            anomalies.append(_anomaly(AnomalyCode.NEGATIVE_DURATION, span, detail))
        elif parent is not None:
            above = spans[parent]
            if not above.start_ns or (above.end_ns and above.end_ns < above.start_ns):
                continue
            early = above.start_ns - span.start_ns
            late = (span.end_ns or span.start_ns) - above.end_ns if above.end_ns else 0
            if early > 0 or late > 0:
                anomalies.append(_anomaly(AnomalyCode.CHILD_OUTSIDE_PARENT, span, outside_told(early, late)))


def _look_at_texts(spans: list[Span], anomalies: list[Anomaly]) -> None:
    for span in spans:
        cut = [
            name
            for name, value in span.attributes.items()
            if type(value) is str and value[:1] in _JSON_BEGINS and _is_cut_json(value)
        ]
        if cut:
            anomalies.append(
                _anomaly(AnomalyCode.CUT_JSON, span, f"JSON that ends in the middle: {', '.join(cut[:5])}")
            )


def _is_cut_json(text: str) -> bool:
    """Whether it begins as an object, or a list of them, and an end of either is missing."""
    if len(text) < 3 or text.rstrip().endswith(_JSON_ENDS):
        return False
    if _CUT_JSON.match(text) is None:
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return True
    except RecursionError:
        return False
    return False


# --- order ---


def _in_order(spans: list[Span], parents: list[int | None]) -> list[Placed]:
    below: dict[int | None, list[int]] = {}
    for index, parent in enumerate(parents):
        below.setdefault(parent, []).append(index)
    events: list[tuple[int, int, int, int]] = []  # time, end before begin before the end of an empty one, place
    found: list[tuple[int, int | None, int]] = []
    stack: list[tuple[int, int | None, int, int]] = []
    stack += [(index, None, 0, 0) for index in _latest_first(spans, below.get(None, ()))]
    while stack:
        index, parent, depth, not_before = stack.pop()
        span, place = spans[index], len(found)
        begun = max(span.start_ns, not_before)
        found.append((index, parent, depth))
        events.append((begun, 1, place, 0))
        if span.end_ns:
            events.append((max(span.end_ns, begun), 0 if span.end_ns > begun else 2, place, 1))
        stack += [(child, place, depth + 1, begun) for child in _latest_first(spans, below.get(index, ()))]
    moments: dict[tuple[int, int], int] = {}
    for number, (_, _, place, is_end) in enumerate(sorted(events), start=1):
        moments[place, is_end] = number
    return [
        Placed(spans[index], parent, depth, moments[place, 0], moments.get((place, 1), 0))
        for place, (index, parent, depth) in enumerate(found)
    ]


def _latest_first(spans: Sequence[Span], indexes: Sequence[int]) -> Sequence[int]:
    """As a stack wants them; ties by what they are, never by id."""
    if len(indexes) < 2:
        return indexes
    return sorted(
        indexes, key=lambda index: (spans[index].start_ns, spans[index].name, spans[index].end_ns), reverse=True
    )


def _root(placed: Sequence[Placed], anomalies: list[Anomaly]) -> int:
    """Return the index of the earliest span without a parent; where each names one, of the earliest beginning."""
    beginnings = [index for index, item in enumerate(placed) if item.parent is None]
    roots = [index for index in beginnings if not placed[index].span.parent_span_id]
    if len(roots) > 1:
        anomalies += [_anomaly(AnomalyCode.SEVERAL_ROOTS, placed[index].span, SECOND_ROOT) for index in roots[1:]]
    return (roots or beginnings)[0]
