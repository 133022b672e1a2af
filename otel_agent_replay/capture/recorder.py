"""The recorder: an observer of one run that writes what begins, ends and is read to the journal.

Beside each journal record it keeps an OpenTelemetry span for everyone else: small, standard facts and the
same trace and span id. Where the service has no tracing, ids are our own and no span is made. Nothing here
may raise into the host: each entry is guarded, a defect is logged once and counted as a loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place, strand_label
from otel_agent_replay.capture.answered import AnsweredNodes, Begun
from otel_agent_replay.capture.inline import Inline
from otel_agent_replay.capture.node_records import NodeRecords, Shape
from otel_agent_replay.capture.span_facts import call_facts, outcome_facts, span_name
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
from otel_agent_replay.payload.parts import StateHistory
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_MOST_READS_HELD = 256
_MOST_RECORDS_HELD = 512  # of a replay
_NOTHING_CURRENT = nullcontext()
_CAPTURE = semconv.CAPTURE
_PENDING = OutcomeStatus.PENDING  # naming a member costs 70 ns before Python 3.12


class JournalWriter(Protocol):
    """Where records go. `append` never raises and never blocks beyond its stated bound."""

    def append(self, *records: wire.Record | bytes) -> bool:
        """Write the records (or their serialised forms) in one go; False when they were lost (and counted)."""

    def body(self, payload: Payload, history: BodyHistory | None) -> wire.Record | None:
        """Return the record of a payload's bytes, or None when this segment holds them already."""


class NodeRecord:
    """What the recorder hangs on a place: its span, and the bulk reads not yet written.

    `bodies` tells whether the bodies of it and of what lies below are kept; None: as those of the run are.
    """

    __slots__ = ("bodies", "live", "reads", "span_id")

    def __init__(self, span_id: bytes, live: LiveSpan | None, bodies: bool | None = None) -> None:
        self.span_id = span_id
        self.live = live
        self.bodies = bodies
        self.reads: list[Read] = []


class Recorder:
    """The observer of one run. `level` is how much of each payload is kept.

    Records of a recording are on disk when a method returns. Those of a `replay` are held and written together: a
    replay can be had again, and must not be slowed by its own record. One that stands `alone`, in another lake than the
    run that it came from, is written like a recording.
    """

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
        mode: str = "record",
        alone: bool = False,
    ) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self.journal = journal
        self.tracing = tracing
        self.level = level
        self.inline = Inline() if inline and level is not CaptureLevel.DIGEST else None
        self.history = BodyHistory()
        self.states = StateHistory()
        self.wants_facts = level is CaptureLevel.DIGEST
        self.versions: dict[str, str] = {}
        self.flags: list[str] = []
        self.caller_strand = ""
        marks: dict[str, Any] = {semconv.RUN_ID: run_id.hex()}
        if replay:
            marks.update({semconv.REPLAY: True, semconv.RUN_MODE: mode})
        self._records = NodeRecords(run_id, marks=marks, refers=not alone)
        self._bodies = level is not CaptureLevel.DIGEST
        self._replay = replay and not alone
        self._held: list[wire.Record | bytes] = []
        self._complained = False
        self._open: dict[bytes, tuple[Place, Crossing | None]] = {}
        self._answered: AnsweredNodes | None = None
        self._root_span_id = b""

    # --- the Observer protocol ---

    def began(self, crossing: Crossing) -> None:
        """Write the begin of a crossing and start its span."""
        try:
            if self._answered is None or not self._answered.begun(crossing):
                self._began(crossing)
        except Exception as error:
            self._failed("begin of a crossing", crossing.place, error)

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Write the end of a crossing and end its span."""
        try:
            answered = self._answered
            begun = None if answered is None else answered.taken(crossing.place)
            if answered is not None and begun is not None:
                held = answered.ended(begun, outcome)
                if held >= _MOST_RECORDS_HELD:
                    self._write(())
                if held:
                    return
                self._began(crossing, begun)
            self._ended(crossing, outcome)
        except Exception as error:
            self._failed("end of a crossing", crossing.place, error)
            _end_span(crossing.place)

    def sent(self, crossing: Crossing) -> None:
        """Write a streamed request anew, now that it is known: the later begin of a span replaces the earlier."""
        try:
            place = crossing.place
            node = self._node(place)
            shape = self._records.shape(place, crossing.call, crossing.source)
            started_ns = _time_ns() if node.live is None else node.live.start_ns
            self._write_begin(crossing, shape, node, self._node(place.parent), started_ns)
        except Exception as error:
            self._failed("streamed request", crossing.place, error)

    def lost(self, loss: Loss) -> None:
        """Write that something was not, or not wholly, kept."""
        try:
            stamped = replace(loss, run_id=loss.run_id or self.run_id, time_ns=loss.time_ns or _time_ns())
            self.journal.append(wire.Record(loss=convert.loss_to_wire(stamped)))
        except Exception as error:
            self._say(f"a loss ({loss.what})", error)

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """Write a part of a body that is still arriving."""
        try:
            node = self._node(crossing.place)
            if node.bodies is False:
                return
            record = wire.Record()
            partial = record.partial
            partial.run_id = self.run_id
            partial.span_id = node.span_id
            partial.data = data
            partial.chunking.CopyFrom(convert.chunking_to_wire(chunks))
            partial.response.CopyFrom(convert.response_head_to_wire(head))
            self._write([record])
            if self.inline is not None:
                self.inline.part(partial.span_id, data)
        except Exception as error:
            self._failed("part of a body", crossing.place, error)

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """Write the begin of a scope."""
        try:
            shape = self._records.scope(place, attributes)
            above = self._node(place.parent)
            live = above.live
            if live is not None:
                live = self.tracing.start(shape.span_name, shape.span_kind, live, shape.facts)
            node = place.span = NodeRecord(new_span_id() if live is None else live.span_id, live, above.bodies)
            started_ns = _time_ns() if live is None else live.start_ns
            record = self._records.entered(place, shape, _ids(node, above), started_ns, strand_label())
            self._write([*self._pending_reads(above), record])
            self._open[node.span_id] = (place, None)
        except Exception as error:
            self._failed("begin of a scope", place, error)

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """Write the end of a scope."""
        try:
            node: NodeRecord | None = place.span
            if node is None:
                return  # its begin was lost, and is counted
            self._open.pop(node.span_id, None)
            ended_ns = _time_ns()
            record = self._records.left(node.span_id, ended_ns, place.next_sequence(), error, attributes)
            self._write([*self._pending_reads(node), record])
            if node.live is not None:
                error_type = "" if error is None else type(error).__qualname__
                node.live.end(ended_ns, error_type, attributes)
        except Exception as defect:
            self._failed("end of a scope", place, defect)
            _end_span(place)

    def read(self, place: Place, read: Read) -> None:
        """Hold a bulk read; it is written with the next record of its place."""
        try:
            node = self._node(place)
            node.reads.append(read)
            if len(node.reads) >= _MOST_READS_HELD:
                self._write(self._pending_reads(node))
        except Exception as error:
            self._failed("bulk read", place, error)

    def inside(self, place: Place) -> AbstractContextManager[object]:
        """Make the place's span the current one while its code runs."""
        try:
            node: NodeRecord | None = place.span
            if node is None or node.live is None:
                return _NOTHING_CURRENT
            return node.live.current()
        except Exception as error:
            self._failed("place of a span", place, error)
            return _NOTHING_CURRENT

    # --- what the run's opener calls ---

    def attach_root(self, place: Place, span_id: bytes, live: LiveSpan | None) -> None:
        """Hang the run's own span on the root place."""
        place.span = NodeRecord(span_id, live)
        self._root_span_id = span_id
        if self._replay and live is None:
            self._answered = AnsweredNodes(self.run_id, self._records.shape, lambda above: self._node(above).span_id)
        self.wants_facts = self.wants_facts or (live is not None and live.span.is_recording())

    def flush(self, place: Place) -> list[wire.Record | bytes]:
        """Return what is still held, the reads at `place` last: it is to be written before the run's end."""
        return [*self._behind(), *self._pending_reads(self._node(place))]

    def close_open(self) -> list[tuple[Place, Crossing | None]]:
        """Return what has begun and not ended, and forget it: the run is over."""
        still_open = list(self._open.values())
        self._open.clear()
        if self._answered is not None:
            still_open += [(crossing.place, crossing) for crossing in self._answered.still_open()]
        return still_open

    def has_open(self, span_id: bytes) -> bool:
        """Whether the run's own span, or that of something in it that has not ended, has this id."""
        return span_id in self._open or span_id == self._root_span_id

    def in_flight(self) -> list[Crossing]:
        """Return the crossings that have begun and not ended, in the order in which they began."""
        return [crossing for _, crossing in list(self._open.values()) if crossing is not None]

    def bodies(self, *payloads: Payload | None, history: BodyHistory | None = None) -> list[wire.Record]:
        """Return the records of the payloads' bytes that this segment does not hold yet.

        Each is written as its difference to one of `history`, of the run's requests and results when none is given.
        """
        records = []
        for payload in payloads:
            if payload is not None and payload.data is not None:
                record = self.journal.body(payload, history or self.history)
                if record is not None:
                    records.append(record)
        return records

    # --- inside ---

    def _began(self, crossing: Crossing, begun: Begun | None = None) -> None:
        """Write a begin: of now, or of when `begun` says."""
        place, call = crossing.place, crossing.call
        shape = self._records.shape(place, call, crossing.source)
        above = self._node(place.parent)
        live = above.live
        if live is not None:
            name = shape.span_name if call.head is None else span_name(place, call.attributes)
            live = self.tracing.start(name, shape.span_kind, live, call_facts(call, place, shape.facts))
        node = place.span = NodeRecord(new_span_id() if live is None else live.span_id, live, above.bodies)
        declared = call.attributes.get(_CAPTURE)
        if declared is not None:
            node.bodies = declared != CaptureLevel.DIGEST.value
            self.wants_facts = self.wants_facts or not node.bodies  # they cannot be read from bodies later
        if above.reads:
            self._write(self._pending_reads(above))
        started_ns = begun[2] if begun is not None else _time_ns() if live is None else live.start_ns
        self._write_begin(crossing, shape, node, above, started_ns)
        self._open[node.span_id] = (place, crossing)

    def _write_begin(
        self, crossing: Crossing, shape: Shape, node: NodeRecord, above: NodeRecord, started_ns: int
    ) -> None:
        bodies = self._bodies if node.bodies is None else node.bodies
        record, body = self._records.begun(crossing, shape, _ids(node, above), started_ns, strand_label(), bodies)
        if body:
            history = self.states if crossing.place.kind is Kind.CHECKPOINT else self.history
            self._write([*self.bodies(crossing.call.request, history=history), record])
        elif self._replay:
            self._hold(record)
        else:
            self.journal.append(record)

    def _ended(self, crossing: Crossing, outcome: Outcome) -> None:
        place = crossing.place
        node: NodeRecord | None = place.span
        if node is None:
            return  # its begin was lost, and is counted
        answer = crossing.answer
        as_recorded = answer is not None and outcome is answer.bare
        if as_recorded and answer is not None:
            outcome = answer.outcome
        self._open.pop(node.span_id, None)
        ended_ns = _time_ns()
        sequence = 0 if outcome.status is _PENDING else place.next_sequence()
        keeps = self._bodies if node.bodies is None else node.bodies
        record, body = self._records.ended(crossing, outcome, node.span_id, ended_ns, sequence, keeps, as_recorded)
        if body or node.reads:
            bodies = self.bodies(outcome.result) if body else ()
            self._write([*self._pending_reads(node), *bodies, record])
        elif self._replay:
            self._hold(record)
        else:
            self.journal.append(record)
        live = node.live
        if live is not None:
            facts = outcome_facts(outcome)
            if self.inline is not None and keeps and live.span.is_recording():
                facts.update(self.inline.ended(node.span_id, crossing.call, outcome))
            failure = outcome.failure
            error_type = "" if failure is None else failure.type.rpartition(":")[2]
            live.end(ended_ns, error_type, facts)

    def _node(self, place: Place | None) -> NodeRecord:
        while place is not None:
            node: NodeRecord | None = place.span
            if node is not None:
                return node
            place = place.parent
        raise LookupError("a place without a root: the run was not attached")

    # --- writing ---

    def _write(self, records: Sequence[wire.Record | bytes]) -> None:
        """Write what may hold bodies: at once, and behind what is held."""
        if self._replay:
            self.journal.append(*self._behind(), *records)
        elif records:
            self.journal.append(*records)

    def _hold(self, record: bytes) -> None:
        self._held.append(record)
        if len(self._held) >= _MOST_RECORDS_HELD:
            self._write(())

    def _behind(self) -> list[wire.Record | bytes]:
        """Return the records that are held, and forget them."""
        held = _drained(self._held)
        return held if self._answered is None else [*held, *self._answered.records()]

    def _pending_reads(self, node: NodeRecord) -> list[wire.Record | bytes]:
        reads = _drained(node.reads)
        if not reads:
            return []
        record = wire.Record()
        record.reads.run_id = self.run_id
        record.reads.span_id = node.span_id
        record.reads.reads.extend(convert.read_to_wire(read) for read in reads)
        return [record]

    def _failed(self, what: str, place: Place, error: Exception) -> None:
        """Log a defect of ours once, and count what it lost."""
        self._say(f"the {what}", error)
        detail = f"{type(error).__name__} at {'/'.join(place.path)}"
        self.lost(Loss(LossReason.INTERNAL, what, 1, detail))

    def _say(self, what: str, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            _log.error("recording %s failed; the agent goes on, the loss is counted", what, exc_info=error)


_Item = TypeVar("_Item")


def _drained(items: list[_Item]) -> list[_Item]:
    """Take everything out. Other threads may append meanwhile: one at a time, nothing falls between."""
    taken: list[_Item] = []
    with suppress(IndexError):
        while items:
            taken.append(items.pop(0))
    return taken


def _ids(node: NodeRecord, above: NodeRecord) -> tuple[bytes, bytes, bytes]:
    """Return the ids of a node, of its span's parent, and of the node of ours around it."""
    return node.span_id, above.span_id if node.live is None else node.live.parent_span_id, above.span_id


def _end_span(place: Place) -> None:
    """End the span of a place whose end could not be recorded: the service's backend is not to lose it."""
    node: NodeRecord | None = place.span
    if node is not None and node.live is not None and node.live.span.is_recording():
        node.live.span.end()
