"""What is joined out of ready parts, for speed, says what a message made field by field says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.policy import RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.capture.node_records import SMALL, SMALL_RESULT, NodeRecords
from otel_agent_replay.model import (
    Call,
    Chunk,
    HttpRequestHead,
    HttpResponseHead,
    Kind,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
)
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.wire import convert, joined
from otel_agent_replay.wire.v1 import exchange_pb2, journal_pb2

RUN, TIME_NS = b"r" * 16, 1_700_000_000_123_456_789
any_text = st.one_of(st.text(max_size=12), st.sampled_from(["\ud800", "\0", "\0\\ud800", "a\\b\udc80"]))
versions = st.sampled_from(["", "HTTP/1.1", "HTTP/2"])
headers = st.lists(st.tuples(any_text, any_text), max_size=4).map(tuple)
chunks = st.lists(st.builds(Chunk, st.integers(0, 2**32 - 1), st.integers(-5, 2**40)), max_size=4).map(tuple)
bodies = st.one_of(st.binary(max_size=20), st.sampled_from([b"x" * SMALL, b"x" * (SMALL + 1), b"y" * SMALL_RESULT * 2]))
payloads = st.builds(Payload.of, bodies, st.sampled_from(["", "application/json", "text/event-stream"]))
request_heads = st.builds(HttpRequestHead, st.sampled_from(["GET", "POST"]), any_text, headers, versions)
response_heads = st.builds(HttpResponseHead, st.integers(0, 999), any_text, headers, versions)
calls = st.builds(
    Call,
    st.sampled_from([Kind.HTTP, Kind.MODEL]),
    any_text,
    st.sampled_from(SideEffect),
    payloads,
    st.none() | request_heads,
)
outcomes = st.builds(
    Outcome,
    st.sampled_from([OutcomeStatus.OK, OutcomeStatus.CANCELLED]),
    payloads,
    response_heads,
    chunks,
    closed_early=st.booleans(),
    exact=st.booleans(),
    round_trips=st.booleans(),
)
ids = st.tuples(
    st.binary(min_size=8, max_size=8), st.sampled_from([b"p" * 8, b"q" * 8, b""]), st.sampled_from([b"p" * 8, b"q" * 8])
)


def crossing_of(call: Call) -> Crossing:
    nobody: Any = SimpleNamespace(began=lambda crossing: None)
    session = Session(run_id=RUN, root=Place.root("a"), mode=RECORD, observer=nobody, redaction=Redaction())
    return session.begin(call, session.root)


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_written_as_protobuf_writes_them(number: int) -> None:
    """A number joined into a message is read back as itself, the second time too."""
    for _ in range(2):
        data = joined.tag(exchange_pb2.Exchange.RESULT_SIZE_FIELD_NUMBER) + joined.varint(number)
        assert exchange_pb2.Exchange.FromString(data).result_size == number


@given(request_heads, response_heads, chunks)
def test_parts_say_what_their_messages_say(
    request: HttpRequestHead, response: HttpResponseHead, pieces: tuple[Chunk, ...]
) -> None:
    """Heads and chunk boundaries are the same messages, when they are seen again too."""
    for _ in range(2):
        read = exchange_pb2.HttpRequestHead.FromString(joined.request_head(request))
        assert read == convert.request_head_to_wire(request)
        answered = exchange_pb2.HttpResponseHead.FromString(joined.response_head(response))
        assert answered == convert.response_head_to_wire(response)
    assert exchange_pb2.Chunking.FromString(joined.chunking(pieces)) == convert.chunking_to_wire(pieces)


@given(calls, ids, st.sampled_from(["", "1.2"]))
def test_a_begin_says_all_of_its_call(call: Call, node_ids: tuple[bytes, bytes, bytes], strand: str) -> None:
    """The begin of a call that is kept whole gives back the call, its place, its ids and its time."""
    crossing = crossing_of(call)
    records = NodeRecords(RUN, marks={})
    shape = records.shape(crossing.place, call, crossing.source)
    data, apart = records.begun(crossing, shape, node_ids, TIME_NS, strand, True)
    begun = journal_pb2.Record.FromString(data).node_begun
    assert convert.call_beside_from_wire(begun.exchange) == (call.head, True, (), b"")
    assert begun.exchange.request_media_type == call.request.media_type
    assert apart == (len(call.request.data or b"") > SMALL)
    assert begun.request_data == (b"" if apart else call.request.data)
    assert (begun.request_digest, begun.run_id, begun.time_ns) == (call.request.digest, RUN, TIME_NS)
    around = begun.parent_node or begun.parent_span_id
    assert (begun.span_id, begun.parent_span_id, around) == node_ids
    place = crossing.place
    assert (begun.strand, begun.step, begun.sequence, begun.occurrence) == (strand, place.step, place.sequence, 0)
    assert (begun.kind, begun.side_effect) == (call.kind.value, call.side_effect.value)


@given(calls, outcomes)
def test_an_end_says_all_of_its_outcome(call: Call, outcome: Outcome) -> None:
    """The end of an HTTP call gives back the outcome: head, chunks, flags, digest, and small bytes."""
    data, apart = NodeRecords(RUN, marks={}).ended(crossing_of(call), outcome, b"s" * 8, TIME_NS, 300, True)
    ended = journal_pb2.Record.FromString(data).node_ended
    wanted = convert.outcome_to_wire(outcome)
    assert ended.exchange == wanted
    result = outcome.result
    assert result is not None and result.data is not None
    assert apart == (len(result.data) > SMALL_RESULT)
    assert ended.result_data == (b"" if apart else result.data)
    assert (ended.run_id, ended.span_id, ended.result_digest) == (RUN, b"s" * 8, result.digest)
    assert (ended.time_ns, ended.end_sequence, ended.status) == (TIME_NS, 300, outcome.status.value)
