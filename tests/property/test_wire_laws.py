"""decode(encode(x)) = x for everything that goes through wire messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.model import (
    Call,
    Chunk,
    CoverageEntry,
    Failure,
    FailurePhase,
    HttpRequestHead,
    HttpResponseHead,
    Kind,
    Loss,
    LossReason,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    SideEffect,
    Versions,
)
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.text import text_from_wire, text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2, journal_pb2

any_text = st.one_of(
    st.text(st.characters(), max_size=20), st.sampled_from(["\ud800", "\0", "\0\\ud800", "\\udfff", "a\\b\udc80"])
)
headers = st.lists(st.tuples(any_text, any_text), max_size=3).map(tuple)
scalars = st.one_of(any_text, st.booleans(), st.integers(), st.floats(allow_nan=False), st.none())
attributes = st.dictionaries(any_text, st.one_of(scalars, st.lists(st.integers(-9, 9), max_size=3)), max_size=4)
notes = st.lists(any_text, max_size=2).map(tuple)
payloads = st.builds(Payload.of, st.binary(max_size=30), st.sampled_from(["", "application/json"])).map(
    lambda payload: payload.without_data()
)
failures = st.recursive(
    st.builds(Failure, any_text, any_text, st.sampled_from(FailurePhase), st.none() | st.binary(), st.booleans()),
    lambda causes: st.builds(
        Failure, any_text, any_text, st.sampled_from(FailurePhase), st.none() | st.binary(), st.booleans(), causes
    ),
    max_leaves=3,
)
chunks = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**40)), max_size=5).map(
    lambda pairs: tuple(Chunk(size, after) for (size, _), after in zip(pairs, sorted(after for _, after in pairs)))
)


@given(any_text)
def test_any_text_survives(text: str) -> None:
    """Any Python text, lone surrogates included, can be put into a message and comes back."""
    message = journal_pb2.Attribute(text=text_to_wire(text))
    assert text_from_wire(journal_pb2.Attribute.FromString(message.SerializeToString()).text) == text


@given(attributes)
def test_attributes_survive(given_attributes) -> None:
    """Attributes come back with values, types and order."""
    message = journal_pb2.NodeBegun(attributes=convert.attributes_to_wire(given_attributes))
    back = convert.attributes_from_wire(journal_pb2.NodeBegun.FromString(message.SerializeToString()).attributes)
    assert list(back.items()) == list(given_attributes.items())
    assert [type(value) for value in back.values()] == [type(value) for value in given_attributes.values()]


@given(
    st.builds(
        Read,
        kind=st.sampled_from([Kind.CLOCK, Kind.RANDOM, Kind.UUID, Kind.ENV]),
        name=any_text,
        value=st.one_of(
            st.integers(), st.integers(2**63, 2**130), st.floats(allow_nan=False), any_text, st.binary(), st.none()
        ),
        strand=st.sampled_from(["", "1", "1.2"]),
        sequence=st.integers(0, 2**32 - 1),
        masked=st.booleans(),
    )
)
def test_bulk_reads_survive(read: Read) -> None:
    """A bulk read comes back as the same value of the same type, integers of any size too."""
    back = convert.read_from_wire(journal_pb2.Read.FromString(convert.read_to_wire(read).SerializeToString()))
    assert back == read
    assert type(back.value) is type(read.value)


@given(
    st.builds(
        Call,
        kind=st.just(Kind.MODEL),
        name=st.just("chat"),
        side_effect=st.just(SideEffect.READ),
        request=payloads,
        head=st.none() | st.builds(HttpRequestHead, any_text, any_text, headers, st.just("HTTP/1.1")),
        attributes=attributes,
        idempotency_key=any_text,
        round_trips=st.booleans(),
        notes=notes,
    ),
    st.builds(
        Outcome,
        status=st.sampled_from(OutcomeStatus),
        result=payloads,
        head=st.none() | st.builds(HttpResponseHead, st.integers(0, 999), any_text, headers, st.just("")),
        chunks=chunks,
        trailers=headers,
        failure=st.none() | failures,
        closed_early=st.booleans(),
        exact=st.booleans(),
        round_trips=st.booleans(),
        notes=notes,
        attributes=attributes,
    ),
)
def test_both_sides_of_an_exchange_survive_in_one_message(call: Call, outcome: Outcome) -> None:
    """A call and its outcome, written into one Exchange, both come back."""
    data = convert.outcome_to_wire(outcome, convert.call_to_wire(call)).SerializeToString()
    message = exchange_pb2.Exchange.FromString(data)
    assert message.request_size == call.request.size
    assert (
        convert.call_from_wire(
            message,
            kind=call.kind,
            name=call.name,
            side_effect=call.side_effect,
            request=call.request,
            attributes=call.attributes,
        )
        == call
    )
    assert (
        convert.outcome_from_wire(message, status=outcome.status, result=outcome.result, attributes=outcome.attributes)
        == outcome
    )


@given(
    st.builds(
        Loss,
        reason=st.sampled_from(LossReason),
        what=any_text,
        count=st.integers(0, 2**63),
        detail=any_text,
        run_id=st.sampled_from([b"", bytes(16)]),
        span_id=st.sampled_from([b"", bytes(8)]),
        time_ns=st.integers(0, 2**63),
    )
)
def test_losses_survive(loss: Loss) -> None:
    """A loss comes back whole."""
    assert convert.loss_from_wire(convert.loss_to_wire(loss)) == loss


names = st.text("abcdefgh", min_size=1, max_size=5)


@given(
    st.builds(
        Versions,
        agent=names,
        prompt=names,
        code=st.just("") | names,
        packages=st.dictionaries(names.map(lambda name: "p-" + name), names, max_size=3),
    )
)
def test_versions_survive(versions: Versions) -> None:
    """Versions come back, packages too."""
    assert convert.versions_from_wire(convert.versions_to_wire(versions)) == versions


@given(st.builds(CoverageEntry, any_text, any_text, any_text))
def test_coverage_survives(entry: CoverageEntry) -> None:
    """A line of a coverage report comes back."""
    assert convert.coverage_from_wire(convert.coverage_to_wire(entry)) == entry
