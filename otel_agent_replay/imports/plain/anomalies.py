"""What is wrong with sound traces -> losses of their runs: the same that `trace_structure` tells of them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from otel_agent_replay.imports.plain.plain_spans import PlainSpans
from otel_agent_replay.imports.plain.root_columns import PlainRun
from otel_agent_replay.imports.plain.trace_order import TraceOrder
from otel_agent_replay.imports.trace_structure import SECOND_ROOT, orphan_told, outside_told
from otel_agent_replay.model import AnomalyCode, Loss, LossReason


def losses_of(spans: PlainSpans, order: TraceOrder, runs: Sequence[PlainRun], run: Any) -> dict[int, list[Loss]]:
    """Return the losses of those of the runs that have any, by the number of the run.

    `run` says of each span which of them it belongs to, -1: to none.
    """
    found: dict[int, list[Loss]] = defaultdict(list)
    kept = run >= 0
    for place, code, detail in _told(spans, order, kept):
        number = int(run[place])
        of = runs[number]
        span_id = spans.columns.fields["span_id"][place].as_py()
        found[number].append(Loss(LossReason.DAMAGED, code.value, 1, detail, of.run_id, span_id, of.started_ns))
    for losses in found.values():
        losses.sort(key=lambda loss: (loss.span_id, loss.what, loss.detail))
    return found


def _told(spans: PlainSpans, order: TraceOrder, kept: Any) -> Iterator[tuple[int, AnomalyCode, str]]:
    """Yield the place of each span that something is wrong with, and what."""
    places, parent = spans.places, order.parent
    parent_ids = spans.columns.fields["parent_span_id"]
    for place in np.flatnonzero(kept & places.has_parent & (parent < 0)).tolist():
        yield place, AnomalyCode.ORPHAN_PARENT, orphan_told(parent_ids[place].as_py())
    is_root = order.root[places.trace] == np.arange(len(parent))
    for place in np.flatnonzero(kept & ~places.has_parent & ~is_root).tolist():
        yield place, AnomalyCode.SEVERAL_ROOTS, SECOND_ROOT
    start, end = places.start, places.end
    early = start[parent] - start
    late = np.where(end[parent] != 0, np.where(end == 0, start, end) - end[parent], 0)
    for place in np.flatnonzero(kept & (parent >= 0) & ((early > 0) | (late > 0))).tolist():
        yield place, AnomalyCode.CHILD_OUTSIDE_PARENT, outside_told(int(early[place]), int(late[place]))
