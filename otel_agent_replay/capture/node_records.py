"""The records of one run's nodes, serialised: what never changes among like crossings once, the rest each time.

Owns which of a node's facts are written and in which form. What follows from heads and bodies (the `gen_ai.*` and
`http.*` facts, a model call's span name) is not written: the sealer reads it there, unless no bodies are kept. A
replay's crossing that was answered as recorded is written as a reference to its tape.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.capture.span_facts import span_kind, span_name
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    HttpResponseHead,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
)
from otel_agent_replay.wire import convert, joined
from otel_agent_replay.wire.text import text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2
from otel_agent_replay.wire.v1 import journal_pb2 as wire

SMALL = 1_024
"""Bytes; a request up to this size lies in its node's own record, a larger one is a record of its own."""

SMALL_RESULT = 8_192
"""The same for a result: it seldom repeats most of an earlier one, so that nothing is won by keeping it apart."""

_NODE_BEGUN = wire.Record.NODE_BEGUN_FIELD_NUMBER
_NODE_ENDED = wire.Record.NODE_ENDED_FIELD_NUMBER
_VALUE = MediaType.VALUE.value
_TAPE, _OK = AnswerSource.TAPE, OutcomeStatus.OK
_TAG, _VARINT = joined.tag, joined.varint
_IN_BEGUN, _IN_ENDED = _TAG(_NODE_BEGUN, 0)[:-1], _TAG(_NODE_ENDED, 0)[:-1]  # the length follows, here and below
_BEGUN_SPAN = _TAG(wire.NodeBegun.SPAN_ID_FIELD_NUMBER, 8)
_BEGUN_TIME = joined.tag_fixed64(wire.NodeBegun.TIME_NS_FIELD_NUMBER)
_BEGUN_DIGEST = _TAG(wire.NodeBegun.REQUEST_DIGEST_FIELD_NUMBER, 32)
_BEGUN_PARENT = _TAG(wire.NodeBegun.PARENT_SPAN_ID_FIELD_NUMBER, 8)
_BEGUN_OCCURRENCE = _TAG(wire.NodeBegun.OCCURRENCE_FIELD_NUMBER)
_BEGUN_STEP = _TAG(wire.NodeBegun.STEP_FIELD_NUMBER)
_BEGUN_SEQUENCE = _TAG(wire.NodeBegun.SEQUENCE_FIELD_NUMBER)
_BEGUN_DATA = _TAG(wire.NodeBegun.REQUEST_DATA_FIELD_NUMBER, 0)[:-1]
_BEGUN_EXCHANGE = _TAG(wire.NodeBegun.EXCHANGE_FIELD_NUMBER, 0)[:-1]
_BEGUN_STRAND = wire.NodeBegun.STRAND_FIELD_NUMBER
_BEGUN_PARENT_NODE = wire.NodeBegun.PARENT_NODE_FIELD_NUMBER
_ENDED_SPAN = _TAG(wire.NodeEnded.SPAN_ID_FIELD_NUMBER, 8)
_ENDED_TIME = joined.tag_fixed64(wire.NodeEnded.TIME_NS_FIELD_NUMBER)
_ENDED_DIGEST = _TAG(wire.NodeEnded.RESULT_DIGEST_FIELD_NUMBER, 32)
_ENDED_SEQUENCE = _TAG(wire.NodeEnded.END_SEQUENCE_FIELD_NUMBER)
_ENDED_DATA = _TAG(wire.NodeEnded.RESULT_DATA_FIELD_NUMBER, 0)[:-1]
_ENDED_EXCHANGE = _TAG(wire.NodeEnded.EXCHANGE_FIELD_NUMBER, 0)[:-1]
# A span id, Unix nanoseconds and a digest, each behind its tag.
_begun_fields = struct.Struct(f"<{len(_BEGUN_SPAN)}s8s{len(_BEGUN_TIME)}sQ{len(_BEGUN_DIGEST)}s32s").pack
_ended_fields = struct.Struct(f"<{len(_ENDED_SPAN)}s8s{len(_ENDED_TIME)}sQ{len(_ENDED_DIGEST)}s32s").pack
_REQUEST_HEAD = _TAG(exchange_pb2.Exchange.REQUEST_FIELD_NUMBER, 0)[:-1]
_RESPONSE_HEAD = _TAG(exchange_pb2.Exchange.RESPONSE_FIELD_NUMBER, 0)[:-1]
_CHUNKING = _TAG(exchange_pb2.Exchange.CHUNKING_FIELD_NUMBER, 0)[:-1]
_RESULT_SIZE = _TAG(exchange_pb2.Exchange.RESULT_SIZE_FIELD_NUMBER)
_CLOSED_EARLY = _TAG(exchange_pb2.Exchange.CLOSED_EARLY_FIELD_NUMBER) + joined.varint(1)
_RESULT_ALTERED = _TAG(exchange_pb2.Exchange.RESULT_ALTERED_FIELD_NUMBER) + joined.varint(1)
_RESULT_INCOMPLETE = _TAG(exchange_pb2.Exchange.RESULT_INCOMPLETE_FIELD_NUMBER) + joined.varint(1)
_MOST_SHAPES = 512
_NOTHING: Mapping[str, Any] = {}


_Key: TypeAlias = "tuple[Kind, str, SideEffect | None, AnswerSource | None, object]"


class Shape:
    """What like crossings share: a part of their begin's record, and what is on each one's span.

    `kind`, `side_effect`, `source`, `attributes` and `media_type` are those it was made for.
    """

    __slots__ = (
        "attributes",
        "begun",
        "facts",
        "kind",
        "media_type",
        "side_effect",
        "source",
        "span_kind",
        "span_name",
    )

    def __init__(
        self,
        key: _Key,
        attributes: Mapping[str, Any],
        media_type: str,
        begun: bytes,
        name: str,
        facts: Mapping[str, Any],
    ) -> None:
        self.kind, _, self.side_effect, self.source, _ = key
        self.attributes = attributes
        self.media_type = media_type
        self.begun = begun
        self.span_name = name
        self.span_kind = span_kind(self.kind)
        self.facts = facts


class NodeRecords:
    """Writes the nodes of the run `run_id`; `marks` go on every span. `bodies`: whether those of a node are kept.

    With `refers` what was answered as recorded is written as a reference to its tape, which lies in the same lake.
    """

    def __init__(self, run_id: bytes, *, marks: Mapping[str, Any], refers: bool = True) -> None:
        self._run_id = run_id
        self._refers = refers
        self._marks = marks
        self._shapes: dict[_Key, Shape] = {}
        self._latest: dict[str, Shape] = {}  # by the name of what is called
        self._ends: dict[tuple[OutcomeStatus, str], bytes] = {}
        self._ended_value = self._end(OutcomeStatus.OK, _VALUE)

    # --- begins ---

    def shape(self, place: Place, call: Call, source: AnswerSource) -> Shape:
        """Return what this crossing shares with its like."""
        attributes = call.attributes
        key: _Key
        if call.head is None:
            shape = self._latest.get(call.name)
            if (
                shape is not None
                and shape.attributes is attributes
                and shape.kind is call.kind
                and shape.side_effect is call.side_effect
                and shape.source is source
                and shape.media_type == call.request.media_type
            ):  # as nearly always: the same declared function again
                return shape
            key = (call.kind, call.name, call.side_effect, source, None)
        else:
            protocol = attributes.get(semconv.PROTOCOL)
            key = (call.kind, call.name, call.side_effect, source, protocol)
            shape = self._shapes.get(key)
            if shape is not None and shape.media_type == call.request.media_type:
                return shape
            attributes = _NOTHING if protocol is None else {semconv.PROTOCOL: protocol}
        shape = self._shapes.get(key)
        if shape is None or shape.attributes != attributes or shape.media_type != call.request.media_type:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
                self._latest.clear()
            shape = self._shapes[key] = self._made(place, key, attributes, call)
        if call.head is None:
            self._latest[call.name] = shape
        return shape

    def scope(self, place: Place, attributes: Mapping[str, Any]) -> Shape:
        """Return the same for a scope."""
        return self._made(place, (place.kind, place.name, None, None, None), attributes, None)

    def _made(self, place: Place, key: _Key, attributes: Mapping[str, Any], call: Call | None) -> Shape:
        record = wire.Record()
        begun = record.node_begun
        begun.run_id = self._run_id
        begun.kind = place.kind._value_
        begun.name = text_to_wire(place.name)
        begun.attributes.extend(convert.attributes_to_wire(attributes))
        facts = {**attributes, semconv.KIND: place.kind._value_}
        name = span_name(place, attributes)
        if place.kind is not Kind.MODEL:
            begun.span_name = text_to_wire(name)
        media_type = ""
        source = key[3]
        if call is not None and source is not None:
            media_type = call.request.media_type
            begun.side_effect = call.side_effect._value_
            begun.source = source._value_
            begun.exchange.request_media_type = media_type
            facts[semconv.SIDE_EFFECT] = call.side_effect._value_
            if source is not AnswerSource.LIVE:
                facts[semconv.SOURCE] = source._value_
        facts.update(self._marks)
        return Shape(key, attributes, media_type, record.SerializeToString(), name, facts)

    def begun(
        self, crossing: Crossing, shape: Shape, ids: tuple[bytes, bytes, bytes], time_ns: int, strand: str, bodies: bool
    ) -> tuple[bytes, bool]:
        """Return the record of a crossing's begin, and whether the request's bytes, where kept, are wanted beside it.

        `ids` are the node's span id, that of its span's parent, and that of the node of ours around it.
        """
        call, answer = crossing.call, crossing.answer
        request = call.request
        if (
            answer is None
            and bodies
            and call.round_trips
            and not (call.notes or call.idempotency_key or call.asked)
            and request.data is not None
        ):
            return _plainly_begun(crossing.place, shape, ids, time_ns, strand, call), request.size > SMALL
        record = self._begin(crossing.place, ids, time_ns)
        begun = record.node_begun
        begun.request_digest = request.digest
        if strand:
            begun.strand = strand
        if answer is not None:
            if answer.origin_step is not None:
                begun.origin_step = answer.origin_step
            # Any other answer's step is another run's, or edited.
            if self._refers and answer.same_request and crossing.source is _TAPE:
                begun.as_recorded = True
                return shape.begun + record.SerializeToString(), False
        data = request.data
        wanted = bodies and data is not None
        if wanted and data is not None and len(data) <= SMALL:
            begun.request_data = data
            wanted = False
        elif not wanted:
            begun.exchange.request_size = request.size
        head = call.head
        if head is not None and not bodies:
            begun.attributes.extend(convert.attributes_to_wire(call.attributes))
            begun.span_name = text_to_wire(span_name(crossing.place, call.attributes))
        if call.notes or call.idempotency_key or call.asked or not call.round_trips:
            convert.call_beside_head_to_wire(call, begun.exchange)
        if head is None:
            return shape.begun + record.SerializeToString(), wanted
        exchange = _head_alone(_BEGUN_EXCHANGE, _REQUEST_HEAD, joined.request_head(head))
        return b"".join((shape.begun, record.SerializeToString(), _IN_BEGUN, _VARINT(len(exchange)), exchange)), wanted

    def entered(self, place: Place, shape: Shape, ids: tuple[bytes, bytes, bytes], time_ns: int, strand: str) -> bytes:
        """Return the record of a scope's begin."""
        record = self._begin(place, ids, time_ns)
        if strand:
            record.node_begun.strand = strand
        return shape.begun + record.SerializeToString()

    @staticmethod
    def _begin(place: Place, ids: tuple[bytes, bytes, bytes], time_ns: int) -> wire.Record:
        record = wire.Record()
        begun = record.node_begun
        span_id, parent_span_id, parent_node = ids
        begun.span_id = span_id
        begun.parent_span_id = parent_span_id
        if parent_node != parent_span_id:
            begun.parent_node = parent_node
        begun.occurrence = place.occurrence
        if place.step is not None:
            begun.step = place.step
        begun.sequence = place.sequence
        begun.time_ns = time_ns
        return record

    # --- ends ---

    def ended(
        self,
        crossing: Crossing,
        outcome: Outcome,
        span_id: bytes,
        time_ns: int,
        end_sequence: int,
        bodies: bool,
        as_recorded: bool = False,
    ) -> tuple[bytes, bool]:
        """Return the record of a crossing's end, and whether the result's bytes, where kept, are wanted beside it.

        `as_recorded` tells that `outcome` is that of the crossing's answer, unchanged.
        """
        result = outcome.result
        if crossing.answer is None and bodies and result is not None and result.data is not None:
            if outcome.head is not None:
                if outcome.failure is None and not outcome.trailers and not outcome.notes:
                    exchange = _ended_exchange(outcome, outcome.head, result)
                    part = _plainly_ended(result, span_id, time_ns, end_sequence, exchange)
                    end = self._end(outcome.status, result.media_type)
                    return end + part, len(result.data) > SMALL_RESULT
            elif (
                outcome.status is _OK
                and outcome.failure is None
                and outcome.round_trips
                and outcome.exact
                and not outcome.notes
                and not outcome.closed_early
                and not outcome.attributes
                and result.media_type == _VALUE
                and len(result.data) <= SMALL_RESULT
            ):  # a small typed value, kept whole, and nothing else
                return self._ended_value + _plainly_ended(result, span_id, time_ns, end_sequence, b""), False
        record = wire.Record()
        ended = record.node_ended
        ended.span_id = span_id
        ended.time_ns = time_ns
        ended.end_sequence = end_sequence
        if result is not None:
            ended.result_digest = result.digest
        answer = crossing.answer
        if as_recorded and answer is not None and answer.origin_step and self._refers and crossing.source is _TAPE:
            ended.run_id = self._run_id
            ended.status = outcome.status._value_
            ended.as_recorded = True
            self._add_error(ended, outcome)
            return record.SerializeToString(), False
        data = None if result is None else result.data
        wanted = bodies and data is not None
        if wanted and data is not None and len(data) <= SMALL_RESULT:
            ended.result_data = data
            wanted = False
        return self._ended_in_full(record, outcome, bodies), wanted

    def _end(self, status: OutcomeStatus, media_type: str) -> bytes:
        """Return what the ends share whose results are of this type."""
        end = self._ends.get((status, media_type))
        if end is None:
            record = wire.Record()
            record.node_ended.run_id = self._run_id
            record.node_ended.status = status._value_
            record.node_ended.exchange.result_media_type = media_type
            if len(self._ends) >= _MOST_SHAPES:
                self._ends.clear()
            end = self._ends[status, media_type] = record.SerializeToString()
        return end

    def left(
        self,
        span_id: bytes,
        time_ns: int,
        end_sequence: int,
        error: BaseException | None,
        attributes: Mapping[str, Any],
    ) -> bytes:
        """Return the record of a scope's end."""
        record = wire.Record()
        ended = record.node_ended
        ended.run_id = self._run_id
        ended.span_id = span_id
        ended.time_ns = time_ns
        ended.end_sequence = end_sequence
        ended.status = (OutcomeStatus.OK if error is None else OutcomeStatus.ERROR)._value_
        if error is not None:
            ended.error_type = text_to_wire(type(error).__qualname__)
        ended.attributes.extend(convert.attributes_to_wire(attributes))
        return record.SerializeToString()

    def _ended_in_full(self, record: wire.Record, outcome: Outcome, bodies: bool) -> bytes:
        ended = record.node_ended
        ended.run_id = self._run_id
        ended.status = outcome.status._value_
        convert.outcome_beside_head_to_wire(outcome, ended.exchange)
        if outcome.head is None or not bodies:
            ended.attributes.extend(convert.attributes_to_wire(outcome.attributes))
        self._add_error(ended, outcome)
        head = outcome.head
        if head is None:
            return record.SerializeToString()
        exchange = _head_alone(_ENDED_EXCHANGE, _RESPONSE_HEAD, joined.response_head(head))
        return b"".join((record.SerializeToString(), _IN_ENDED, _VARINT(len(exchange)), exchange))

    @staticmethod
    def _add_error(ended: wire.NodeEnded, outcome: Outcome) -> None:
        failure = outcome.failure
        if failure is not None:
            ended.error_type = text_to_wire(failure.type.rpartition(":")[2])
            ended.error_message = text_to_wire(failure.message)


def _plainly_begun(
    place: Place, shape: Shape, ids: tuple[bytes, bytes, bytes], time_ns: int, strand: str, call: Call
) -> bytes:
    """Return the begin of a call that is kept whole, as nearly all are: joined, at half a message's cost."""
    span_id, parent_span_id, parent_node = ids
    head, (digest, data, _, size) = call.head, call.request
    rest = b"" if head is None else _head_alone(_BEGUN_EXCHANGE, _REQUEST_HEAD, joined.request_head(head))
    if parent_node != parent_span_id:
        rest += joined.field(_BEGUN_PARENT_NODE, parent_node)
    if strand:
        rest += joined.field(_BEGUN_STRAND, strand.encode())
    if data is not None and size <= SMALL:
        rest += _BEGUN_DATA + _VARINT(size) + data
    part = b"".join(
        (
            _begun_fields(_BEGUN_SPAN, span_id, _BEGUN_TIME, time_ns, _BEGUN_DIGEST, digest),
            _BEGUN_PARENT if parent_span_id else b"",
            parent_span_id,
            _BEGUN_OCCURRENCE,
            _VARINT(place.occurrence),
            _BEGUN_STEP,
            _VARINT(place.step or 0),
            _BEGUN_SEQUENCE,
            _VARINT(place.sequence),
            rest,
        )
    )
    return b"".join((shape.begun, _IN_BEGUN, _VARINT(len(part)), part))


def _head_alone(exchange: bytes, tag: bytes, head: bytes) -> bytes:
    """Return the field of an exchange that holds a serialised head and nothing else. Both tags lack their lengths."""
    size = _VARINT(len(head))
    return b"".join((exchange, _VARINT(len(tag) + len(size) + len(head)), tag, size, head))


def _plainly_ended(result: Payload, span_id: bytes, time_ns: int, end_sequence: int, exchange: bytes) -> bytes:
    """Return the end of a call that came to its end, beside what its like share; `exchange` is that field of it."""
    digest, data, _, size = result
    kept = () if data is None or size > SMALL_RESULT else (_ENDED_DATA, _VARINT(size), data)
    part = b"".join(
        (
            _ended_fields(_ENDED_SPAN, span_id, _ENDED_TIME, time_ns, _ENDED_DIGEST, digest),
            _ENDED_SEQUENCE,
            _VARINT(end_sequence),
            exchange,
            *kept,
        )
    )
    return b"".join((_IN_ENDED, _VARINT(len(part)), part))


def _ended_exchange(outcome: Outcome, head: HttpResponseHead, result: Payload) -> bytes:
    """Return the field of an end that holds the head of its response, its chunks, and how much of it there is."""
    data = joined.response_head(head)
    parts = [_RESPONSE_HEAD, _VARINT(len(data)), data, _RESULT_SIZE, _VARINT(result.size)]
    if outcome.chunks:
        chunking = joined.chunking(outcome.chunks)
        parts += (_CHUNKING, _VARINT(len(chunking)), chunking)
    if outcome.closed_early:
        parts.append(_CLOSED_EARLY)
    if not outcome.exact:
        parts.append(_RESULT_ALTERED)
    if not outcome.round_trips:
        parts.append(_RESULT_INCOMPLETE)
    exchange = b"".join(parts)
    return b"".join((_ENDED_EXCHANGE, _VARINT(len(exchange)), exchange))
