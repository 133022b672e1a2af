"""The recorder: an observer of one run that writes what begins, ends and is read to the journal.

Beside each journal record it keeps an OpenTelemetry span for everyone else: small, standard facts and the
same trace and span id. Where the service has no tracing, ids are our own and no span is made. Nothing here
may raise into the host: each entry is guarded, a defect is logged once and counted as a loss.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.capture.span_facts import call_attributes, outcome_attributes, span_kind, span_name
from otel_agent_replay.capture.tracing import LiveSpan, Tracing
from otel_agent_replay.model import (
    CaptureLevel,
    Chunk,
    HttpResponseHead,
    Kind,
    Loss,
    LossReason,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    new_span_id,
)
from otel_agent_replay.payload.level import apply_level
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_MOST_READS_HELD = 256


class JournalWriter(Protocol):
    """Where records go. `append` never raises and never blocks beyond its stated bound."""

    def append(self, *records: wire.Record) -> bool:
        """Write the records in one go; False when they were lost (and counted)."""

    def body(self, payload: Payload, history: BodyHistory | None) -> wire.Record | None:
        """Return the record of a payload's bytes, or None when this segment holds them already."""


class NodeRecord:
    """What the recorder hangs on a place: its span, and the bulk reads not yet written."""

    __slots__ = ("live", "lock", "parent_node", "reads", "span_id")

    def __init__(self, span_id: bytes, live: LiveSpan | None, parent_node: bytes) -> None:
        self.span_id = span_id
        self.live = live
        self.parent_node = parent_node
        self.reads: list[Read] = []
        self.lock = threading.Lock()


class Recorder:
    """The observer of one run. `level` is how much of each payload is kept."""

    def __init__(
        self,
        *,
        run_id: bytes,
        trace_id: bytes,
        journal: JournalWriter,
        tracing: Tracing,
        level: CaptureLevel,
        replay: bool,
        inline: bool,
    ) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self.journal = journal
        self.tracing = tracing
        self.level = level
        self.inline = inline
        self.history = BodyHistory()
        self.marks: dict[str, Any] = {semconv.RUN_ID: run_id.hex()}
        if replay:
            self.marks[semconv.REPLAY] = True
        self.tools_offered: set[str] = set()
        self.models: set[str] = set()
        self.versions: dict[str, str] = {}
        self._complained = False
        self._open: dict[bytes, tuple[Place, Crossing | None]] = {}

    # --- the Observer protocol ---

    def began(self, crossing: Crossing) -> None:
        """Write the begin of a crossing and start its span."""
        with self._guard("begin of a crossing", crossing.place):
            self._began(crossing)

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Write the end of a crossing and end its span."""
        with self._guard("end of a crossing", crossing.place):
            self._ended(crossing, outcome)

    def sent(self, crossing: Crossing) -> None:
        """Write a streamed request anew, now that it is known: the later begin of a span replaces the earlier."""
        with self._guard("streamed request", crossing.place):
            node = self._node(crossing.place)
            request = apply_level(crossing.call.request, self.level)
            self.journal.append(*self.bodies(request), self._crossing_record(crossing, node, request))

    def lost(self, loss: Loss) -> None:
        """Write that something was not, or not wholly, kept."""
        stamped = replace(loss, run_id=loss.run_id or self.run_id, time_ns=loss.time_ns or _time_ns())
        self.journal.append(wire.Record(loss=convert.loss_to_wire(stamped)))

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """Write a part of a body that is still arriving."""
        with self._guard("part of a body", crossing.place):
            node = self._node(crossing.place)
            record = wire.Record()
            partial = record.partial
            partial.run_id = self.run_id
            partial.span_id = node.span_id
            partial.data = data
            partial.chunking.CopyFrom(convert.chunking_to_wire(chunks))
            partial.response.CopyFrom(convert.response_head_to_wire(head))
            self.journal.append(record)

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """Write the begin of a scope."""
        with self._guard("begin of a scope", place):
            node = self._start(place, attributes)
            self.journal.append(*self._pending_reads(place.parent), self._begin_record(place, node, attributes))
            self._open[node.span_id] = (place, None)

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """Write the end of a scope."""
        with self._guard("end of a scope", place):
            node = self._node(place)
            self._open.pop(node.span_id, None)
            record = wire.Record()
            ended = record.node_ended
            self._fill_end(ended, node, place, OutcomeStatus.OK if error is None else OutcomeStatus.ERROR)
            if error is not None:
                ended.error_type = type(error).__qualname__
            ended.attributes.extend(convert.attributes_to_wire(attributes))
            self.journal.append(*self._pending_reads(place), record)
            if node.live is not None:
                node.live.end(ended.time_ns, error_type=ended.error_type, attributes=attributes)

    def read(self, place: Place, read: Read) -> None:
        """Hold a bulk read; it is written with the next record of its place."""
        with self._guard("bulk read", place):
            node = self._node(place)
            with node.lock:
                node.reads.append(read)
                full = len(node.reads) >= _MOST_READS_HELD
            if full:
                self.journal.append(*self._pending_reads(place))

    def inside(self, place: Place) -> AbstractContextManager[object]:
        """Make the place's span the current one while its code runs."""
        node = place.span
        if not isinstance(node, NodeRecord) or node.live is None:
            return nullcontext()
        return self.tracing.current(node.live)

    # --- what the run's opener calls ---

    def attach_root(self, place: Place, span_id: bytes, live: LiveSpan | None) -> None:
        """Hang the run's own span on the root place."""
        place.span = NodeRecord(span_id, live, b"")

    def flush(self, place: Place) -> list[wire.Record]:
        """Return the records of the reads still held at `place`."""
        return self._pending_reads(place)

    def close_open(self) -> list[tuple[Place, Crossing | None]]:
        """Return what has begun and not ended, and forget it: the run is over."""
        still_open = list(self._open.values())
        self._open.clear()
        return still_open

    def bodies(self, *payloads: Payload | None) -> list[wire.Record]:
        """Return the records of the payloads' bytes that this segment does not hold yet."""
        records = []
        for payload in payloads:
            if payload is not None and payload.data is not None:
                record = self.journal.body(payload, self.history)
                if record is not None:
                    records.append(record)
        return records

    # --- inside ---

    def _began(self, crossing: Crossing) -> None:
        place, call = crossing.place, crossing.call
        attributes = {**call.attributes, **call_attributes(call, place, crossing.source)}
        if call.kind is Kind.MODEL:
            self._learn(call.attributes)
        node = self._start(place, attributes)
        request = apply_level(call.request, self.level)
        record = self._crossing_record(crossing, node, request)
        self.journal.append(*self._pending_reads(place.parent), *self.bodies(request), record)
        self._open[node.span_id] = (place, crossing)

    def _crossing_record(self, crossing: Crossing, node: NodeRecord, request: Payload) -> wire.Record:
        call = crossing.call
        record = self._begin_record(crossing.place, node, call.attributes)
        begun = record.node_begun
        begun.side_effect = call.side_effect.value
        begun.source = crossing.source.value
        begun.request_digest = request.digest
        convert.call_to_wire(call, begun.exchange)
        if crossing.answer is not None and crossing.answer.origin_step is not None:
            begun.origin_step = crossing.answer.origin_step
        return record

    def _ended(self, crossing: Crossing, outcome: Outcome) -> None:
        place = crossing.place
        node = self._node(place)
        self._open.pop(node.span_id, None)
        record = wire.Record()
        ended = record.node_ended
        self._fill_end(ended, node, place, outcome.status)
        result = None if outcome.result is None else apply_level(outcome.result, self.level)
        if result is not None:
            ended.result_digest = result.digest
        convert.outcome_to_wire(outcome, ended.exchange)
        ended.attributes.extend(convert.attributes_to_wire(outcome.attributes))
        if outcome.failure is not None:
            ended.error_type = outcome.failure.type.rpartition(":")[2]
            ended.error_message = outcome.failure.message
        self.journal.append(*self._pending_reads(place), *self.bodies(result), record)
        if node.live is not None:
            attributes = {**outcome.attributes, **outcome_attributes(outcome)}
            if self.inline:
                attributes.update(self._inline(crossing, outcome))
            node.live.end(ended.time_ns, error_type=ended.error_type, attributes=attributes)

    def _inline(self, crossing: Crossing, outcome: Outcome) -> dict[str, Any]:
        heavy: dict[str, Any] = {}
        if crossing.call.request.data is not None and self.level is not CaptureLevel.DIGEST:
            heavy[semconv.REQUEST_BODY] = crossing.call.request.data
        if outcome.result is not None and outcome.result.data is not None and self.level is not CaptureLevel.DIGEST:
            heavy[semconv.RESULT_BODY] = outcome.result.data
        return heavy

    def _learn(self, attributes: Mapping[str, Any]) -> None:
        model = attributes.get(semconv.REQUEST_MODEL)
        if isinstance(model, str):
            self.models.add(model)
        tools = attributes.get(semconv.VERSION_TOOL_SCHEMA)
        if isinstance(tools, str):
            self.tools_offered.add(tools)

    def _start(self, place: Place, attributes: Mapping[str, Any]) -> NodeRecord:
        parent = self._node(place.parent) if place.parent is not None else None
        live = None
        if parent is not None and parent.live is not None:
            live = self.tracing.start(
                span_name(place, attributes),
                kind=span_kind(place.kind),
                parent=parent.live,
                attributes={**attributes, **self.marks},
            )
        span_id = new_span_id() if live is None else live.span_id
        node = NodeRecord(span_id, live, b"" if parent is None else parent.span_id)
        place.span = node
        return node

    def _node(self, place: Place | None) -> NodeRecord:
        while place is not None:
            node = place.span
            if isinstance(node, NodeRecord):
                return node
            place = place.parent
        raise LookupError("a place without a root: the run was not attached")

    def _begin_record(self, place: Place, node: NodeRecord, attributes: Mapping[str, Any]) -> wire.Record:
        record = wire.Record()
        begun = record.node_begun
        begun.run_id = self.run_id
        begun.span_id = node.span_id
        begun.parent_node = node.parent_node
        begun.parent_span_id = node.parent_node if node.live is None else node.live.parent_span_id
        begun.kind = place.kind.value
        begun.name = place.name
        begun.occurrence = place.occurrence
        begun.step = place.step or 0
        begun.sequence = place.sequence
        begun.time_ns = _time_ns() if node.live is None else node.live.start_ns
        begun.span_name = span_name(place, attributes)
        begun.attributes.extend(convert.attributes_to_wire(attributes))
        return record

    def _fill_end(self, ended: wire.NodeEnded, node: NodeRecord, place: Place, status: OutcomeStatus) -> None:
        ended.run_id = self.run_id
        ended.span_id = node.span_id
        ended.time_ns = _time_ns()
        ended.status = status.value
        if status is not OutcomeStatus.PENDING:
            ended.end_sequence = place.next_sequence()

    def _pending_reads(self, place: Place | None) -> list[wire.Record]:
        if place is None:
            return []
        node = self._node(place)
        if not node.reads:
            return []
        with node.lock:
            reads, node.reads = node.reads, []
        record = wire.Record()
        record.reads.run_id = self.run_id
        record.reads.span_id = node.span_id
        record.reads.reads.extend(convert.read_to_wire(read) for read in reads)
        return [record]

    @contextmanager
    def _guard(self, what: str, place: Place) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._complained:
                self._complained = True
                _log.exception("recording the %s failed; the agent goes on, the loss is counted", what)
            detail = f"{type(error).__name__} at {'/'.join(place.path)}"
            self.lost(Loss(LossReason.INTERNAL, what, 1, detail))
