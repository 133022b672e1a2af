"""The records of one attempt at a run, read once and sorted by node: what assembling works on."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from otel_agent_replay.export.answered_nodes import answered_nodes
from otel_agent_replay.export.record_index import RecordIndex, RunKey
from otel_agent_replay.model import Loss, LossReason, Read, Span
from otel_agent_replay.otlp.spans import spans_of
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire


@dataclass(slots=True)
class Parts:
    """The records of one node."""

    begun: wire.NodeBegun | None = None
    ended: wire.NodeEnded | None = None
    partials: list[wire.PartialResult] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


@dataclass(slots=True)
class RunRecords:
    """The records of one attempt."""

    begun: wire.RunBegun
    header: wire.SegmentHeader
    ended: wire.RunEnded | None = None
    nodes: dict[bytes, Parts] = field(default_factory=dict)
    foreign: dict[tuple[bytes, bytes], Span] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)

    def of(self, span_id: bytes) -> Parts:
        """Return the parts of a node."""
        parts = self.nodes.get(span_id)
        if parts is None:
            parts = self.nodes[span_id] = Parts()
        return parts


def foreign_spans(message: wire.ForeignSpan) -> list[Span]:
    """Return the spans of a record. Raises DecodeError."""
    return list(spans_of(ResourceSpans.FromString(message.resource_spans)))


def gather(index: RecordIndex, key: RunKey) -> RunRecords:
    """Read the records of an attempt. Raises ValueError when its begin is not in `index`."""
    run = index.runs[key]
    read = [(place[0], index.record_at(place)) for place in run.places]
    begun = next(((number, record.run_begun) for number, record in read if record.HasField("run_begun")), None)
    if begun is None:
        raise ValueError(f"run {key.run_id.hex()} has no begin in these segments")
    records = RunRecords(begun[1], index.segments[begun[0]].header or wire.SegmentHeader())
    for _, record in read:
        which = record.WhichOneof("record")
        if which == "node_begun":  # a later begin replaces the earlier: a streamed request is known only later
            records.of(record.node_begun.span_id).begun = record.node_begun
        elif which == "node_ended":
            parts = records.of(record.node_ended.span_id)
            parts.ended = parts.ended or record.node_ended
        elif which == "answered":
            _add_answered(records, record.answered)
        elif which == "partial":
            records.of(record.partial.span_id).partials.append(record.partial)
        elif which == "reads":
            records.of(record.reads.span_id).reads.extend(map(convert.read_from_wire, record.reads.reads))
        elif which == "run_ended":
            records.ended = records.ended or record.run_ended
        elif which == "loss":
            records.losses.append(convert.loss_from_wire(record.loss))
        elif which == "foreign":
            _add_foreign(records, record.foreign)
    return records


def _add_answered(records: RunRecords, message: wire.AnsweredNodes) -> None:
    try:
        nodes = list(answered_nodes(message))
    except ValueError as error:
        count = len(message.sequences)
        records.losses.append(Loss(LossReason.UNPARSABLE, "node", count, str(error), records.begun.run_id))
        return
    for begun, ended in nodes:
        parts = records.of(begun.span_id)
        parts.begun, parts.ended = begun, ended


def _add_foreign(records: RunRecords, message: wire.ForeignSpan) -> None:
    try:
        for span in foreign_spans(message):
            records.foreign.setdefault((span.trace_id, span.span_id), span)
    except DecodeError as error:
        records.losses.append(Loss(LossReason.UNPARSABLE, "foreign span", 1, str(error), records.begun.run_id))
