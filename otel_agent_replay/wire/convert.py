"""Wire messages <-> model, both directions beside each other. Pure; the journal and the lake both go through here.

Bodies are not in these messages, only what it takes to give them back exactly. Text that UTF-8 cannot hold is escaped
(`wire.text`), so that nothing a host says can make a record unwritable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, NamedTuple

from otel_agent_replay.model import (
    AttributeValue,
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
    make_call,
    make_outcome,
    make_request_head,
    make_response_head,
)
from otel_agent_replay.payload import codec
from otel_agent_replay.wire.text import ESCAPED, text_from_wire, text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2, journal_pb2

_INT64 = 1 << 63
_PACKAGE = "package:"

# --- attributes ---


def attributes_to_wire(attributes: Mapping[str, AttributeValue]) -> list[journal_pb2.Attribute]:
    """Return the attributes in their order."""
    return [_attribute(name, value) for name, value in attributes.items()]


def _attribute(name: str, value: AttributeValue) -> journal_pb2.Attribute:
    attribute = journal_pb2.Attribute(name=text_to_wire(name))
    kind = type(value)
    if kind is str:
        attribute.text = text_to_wire(value)
    elif kind is bool:
        attribute.boolean = value
    elif kind is int and -_INT64 <= value < _INT64:
        attribute.integer = value
    elif kind is float:
        attribute.number = value
    elif value is not None:
        attribute.nested = codec.encode(value).data
    return attribute


def attributes_from_wire(attributes: Iterable[journal_pb2.Attribute]) -> dict[str, AttributeValue]:
    """Return the mapping of attributes. Raises CodecError for a nested value that is damaged."""
    return {text_from_wire(attribute.name): _value(attribute) for attribute in attributes}


def _value(message: journal_pb2.Attribute | journal_pb2.Read) -> Any:
    which = message.WhichOneof("value")
    if which is None:
        return None
    value = getattr(message, which)
    if which == "text":
        return text_from_wire(value)
    return codec.decode(value) if which == "nested" else value


# --- bulk reads ---


def read_to_wire(read: Read) -> journal_pb2.Read:
    """Return the message of one bulk read."""
    message = journal_pb2.Read(
        kind=read.kind.value,
        name=text_to_wire(read.name),
        strand=read.strand,
        sequence=read.sequence,
        masked=read.masked,
    )
    value = read.value
    kind = type(value)
    if isinstance(value, float) and kind is float:
        message.number = value
    elif isinstance(value, int) and kind is int and -_INT64 <= value < _INT64:
        message.integer = value
    elif isinstance(value, str) and kind is str:
        message.text = text_to_wire(value)
    elif isinstance(value, bytes) and kind is bytes:
        message.data = value
    elif value is not None:
        message.nested = codec.encode(value).data
    return message


def read_from_wire(message: journal_pb2.Read) -> Read:
    """Return one bulk read. Raises CodecError for a nested value that is damaged."""
    return Read(
        kind=Kind(message.kind),
        name=text_from_wire(message.name),
        value=_value(message),
        strand=message.strand,
        sequence=message.sequence,
        masked=message.masked,
    )


# --- HTTP heads ---


def _headers_to_wire(headers: Iterable[tuple[str, str]]) -> list[exchange_pb2.Header]:
    return [exchange_pb2.Header(name=text_to_wire(name), value=text_to_wire(value)) for name, value in headers]


def _headers_from_wire(headers: Sequence[exchange_pb2.Header]) -> tuple[tuple[str, str], ...]:
    # Of a repeated field a slice is taken: protobuf's own iteration ends by raising, and costs three times as much.
    # Hardly one is escaped, and asking costs less than a call.
    pairs = [(header.name, header.value) for header in headers[:]]
    if any([name[:1] == ESCAPED or value[:1] == ESCAPED for name, value in pairs]):  # noqa: C419 - a generator costs more
        pairs = [(text_from_wire(name), text_from_wire(value)) for name, value in pairs]
    return tuple(pairs)


def request_head_to_wire(head: HttpRequestHead) -> exchange_pb2.HttpRequestHead:
    """Return the message of a request's line and headers."""
    return exchange_pb2.HttpRequestHead(
        method=text_to_wire(head.method),
        url=text_to_wire(head.url),
        headers=_headers_to_wire(head.headers),
        http_version=head.http_version,
    )


def request_head_from_wire(message: exchange_pb2.HttpRequestHead) -> HttpRequestHead:
    """Return a request's line and headers."""
    return make_request_head(
        text_from_wire(message.method),
        text_from_wire(message.url),
        _headers_from_wire(message.headers),
        message.http_version,
    )


def response_head_to_wire(head: HttpResponseHead) -> exchange_pb2.HttpResponseHead:
    """Return the message of a response's status line and headers."""
    return exchange_pb2.HttpResponseHead(
        status=head.status,
        reason=text_to_wire(head.reason),
        headers=_headers_to_wire(head.headers),
        http_version=head.http_version,
    )


def response_head_from_wire(message: exchange_pb2.HttpResponseHead) -> HttpResponseHead:
    """Return a response's status line and headers."""
    return make_response_head(
        message.status, text_from_wire(message.reason), _headers_from_wire(message.headers), message.http_version
    )


# --- chunk boundaries ---


def chunking_to_wire(chunks: Sequence[Chunk]) -> exchange_pb2.Chunking:
    """Return the message of chunk sizes and times; a time before its predecessor's counts as the same time."""
    after_ns = [0, *[after for _, after in chunks]]
    deltas = list(map(sub, after_ns[1:], after_ns))
    if chunks and min(deltas) < 0:
        after_ns = list(accumulate(after_ns, max))
        deltas = list(map(sub, after_ns[1:], after_ns))
    return exchange_pb2.Chunking(sizes=[size for size, _ in chunks], after_ns_delta=deltas)


def chunking_from_wire(message: exchange_pb2.Chunking) -> tuple[Chunk, ...]:
    """Return chunk sizes and times."""
    return tuple(map(Chunk._make, zip(message.sizes[:], accumulate(message.after_ns_delta[:]), strict=True)))


# --- failures ---


def failure_to_wire(failure: Failure) -> exchange_pb2.Failure:
    """Return the message of an exception and its causes."""
    message = exchange_pb2.Failure(
        type=text_to_wire(failure.type),
        message=text_to_wire(failure.message),
        phase=failure.phase.value,
        state=failure.state or b"",
        has_state=failure.state is not None,
        round_trips=failure.round_trips,
    )
    if failure.cause is not None:
        message.cause.CopyFrom(failure_to_wire(failure.cause))
    return message


def failure_from_wire(message: exchange_pb2.Failure) -> Failure:
    """Return an exception and its causes as data."""
    return Failure(
        type=text_from_wire(message.type),
        message=text_from_wire(message.message),
        phase=FailurePhase(message.phase),
        state=message.state if message.has_state else None,
        round_trips=message.round_trips,
        cause=failure_from_wire(message.cause) if message.HasField("cause") else None,
    )


# --- exchanges: the call's side and the outcome's side of one message ---


def call_to_wire(call: Call, into: exchange_pb2.Exchange | None = None) -> exchange_pb2.Exchange:
    """Return the request side of an exchange, in `into` when given. Kind, name, digest, attributes lie beside it."""
    message = exchange_pb2.Exchange() if into is None else into
    if call.head is not None:
        message.request.CopyFrom(request_head_to_wire(call.head))
    return call_beside_head_to_wire(call, message)


def call_beside_head_to_wire(call: Call, message: exchange_pb2.Exchange) -> exchange_pb2.Exchange:
    """Return `message` with the request side but for its head."""
    message.idempotency_key = text_to_wire(call.idempotency_key)
    message.request_media_type = call.request.media_type
    message.request_size = call.request.size
    if not call.round_trips:
        message.request_incomplete = True
    if call.notes:
        message.request_notes.extend(map(text_to_wire, call.notes))
    message.asked_digest = call.asked
    return message


class CallBeside(NamedTuple):
    """What the request side of an exchange says beside what lies elsewhere; see `model.Call`."""

    head: HttpRequestHead | None = None
    round_trips: bool = True
    notes: tuple[str, ...] = ()
    asked: bytes = b""


def call_beside_from_wire(message: exchange_pb2.Exchange) -> CallBeside:
    """Return what the request side of `message` says."""
    return CallBeside(
        request_head_from_wire(message.request) if message.HasField("request") else None,
        not message.request_incomplete,
        tuple(map(text_from_wire, notes[:])) if (notes := message.request_notes) else (),
        message.asked_digest,
    )


def call_from_wire(
    message: exchange_pb2.Exchange,
    *,
    kind: Kind,
    name: str,
    side_effect: SideEffect,
    request: Payload,
    attributes: Mapping[str, AttributeValue],
) -> Call:
    """Return the call whose request side `message` is."""
    beside = call_beside_from_wire(message)
    key = text_from_wire(message.idempotency_key)
    return make_call(kind, name, side_effect, request, beside.head, attributes, key, *beside[1:])


def outcome_to_wire(outcome: Outcome, into: exchange_pb2.Exchange | None = None) -> exchange_pb2.Exchange:
    """Return the response side of an exchange, in `into` when given. Status, digest, attributes lie beside it."""
    message = exchange_pb2.Exchange() if into is None else into
    if outcome.head is not None:
        message.response.CopyFrom(response_head_to_wire(outcome.head))
    return outcome_beside_head_to_wire(outcome, message)


def outcome_beside_head_to_wire(outcome: Outcome, message: exchange_pb2.Exchange) -> exchange_pb2.Exchange:
    """Return `message` with the response side but for its head."""
    if outcome.chunks:
        message.chunking.CopyFrom(chunking_to_wire(outcome.chunks))
    if outcome.trailers:
        message.trailers.extend(_headers_to_wire(outcome.trailers))
    if outcome.failure is not None:
        message.failure.CopyFrom(failure_to_wire(outcome.failure))
    if outcome.result is not None:
        message.result_media_type = outcome.result.media_type
        message.result_size = outcome.result.size
    message.closed_early = outcome.closed_early
    message.result_altered = not outcome.exact
    message.result_incomplete = not outcome.round_trips
    if outcome.notes:
        message.result_notes.extend(map(text_to_wire, outcome.notes))
    return message


class OutcomeBeside(NamedTuple):
    """What the response side of an exchange says beside what lies elsewhere; see `model.Outcome`."""

    head: HttpResponseHead | None = None
    chunks: tuple[Chunk, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()
    failure: Failure | None = None
    closed_early: bool = False
    exact: bool = True
    round_trips: bool = True
    notes: tuple[str, ...] = ()


def outcome_beside_from_wire(message: exchange_pb2.Exchange) -> OutcomeBeside:
    """Return what the response side of `message` says."""
    return OutcomeBeside(
        response_head_from_wire(message.response) if message.HasField("response") else None,
        chunking_from_wire(message.chunking) if message.HasField("chunking") else (),
        _headers_from_wire(trailers) if (trailers := message.trailers) else (),
        failure_from_wire(message.failure) if message.HasField("failure") else None,
        message.closed_early,
        not message.result_altered,
        not message.result_incomplete,
        tuple(map(text_from_wire, notes[:])) if (notes := message.result_notes) else (),
    )


def outcome_from_wire(
    message: exchange_pb2.Exchange,
    *,
    status: OutcomeStatus,
    result: Payload | None,
    attributes: Mapping[str, AttributeValue],
) -> Outcome:
    """Return the outcome whose response side `message` is."""
    return make_outcome(status, result, *outcome_beside_from_wire(message), attributes)


# --- facts of a run ---


def loss_to_wire(loss: Loss) -> journal_pb2.Loss:
    """Return the message of a loss."""
    return journal_pb2.Loss(
        reason=loss.reason.value,
        what=text_to_wire(loss.what),
        count=loss.count,
        detail=text_to_wire(loss.detail),
        run_id=loss.run_id,
        span_id=loss.span_id,
        time_ns=loss.time_ns,
    )


def loss_from_wire(message: journal_pb2.Loss) -> Loss:
    """Return a loss."""
    return Loss(
        reason=LossReason(message.reason),
        what=text_from_wire(message.what),
        count=message.count,
        detail=text_from_wire(message.detail),
        run_id=message.run_id,
        span_id=message.span_id,
        time_ns=message.time_ns,
    )


def coverage_to_wire(entry: CoverageEntry) -> journal_pb2.CoverageEntry:
    """Return the message of one line of a coverage report."""
    what, state, detail = map(text_to_wire, (entry.what, entry.state, entry.detail))
    return journal_pb2.CoverageEntry(what=what, state=state, detail=detail)


def coverage_from_wire(message: journal_pb2.CoverageEntry) -> CoverageEntry:
    """Return one line of a coverage report."""
    return CoverageEntry(*map(text_from_wire, (message.what, message.state, message.detail)))


_VERSION_FIELDS = ("agent", "prompt", "tool_schema", "model_route", "policy", "index", "code", "source")


def versions_to_wire(versions: Versions) -> list[journal_pb2.Version]:
    """Return the known versions."""
    known = [(name, getattr(versions, name)) for name in _VERSION_FIELDS]
    known += [(_PACKAGE + name, version) for name, version in versions.packages.items()]
    return [journal_pb2.Version(name=text_to_wire(name), value=text_to_wire(value)) for name, value in known if value]


def versions_from_wire(messages: Iterable[journal_pb2.Version]) -> Versions:
    """Return the versions; of two with one name the later counts, and a name that is not ours is kept as a package."""
    fields: dict[str, str] = {}
    packages: dict[str, str] = {}
    for message in messages:
        name, value = text_from_wire(message.name), text_from_wire(message.value)
        if name in _VERSION_FIELDS:
            fields[name] = value
        else:
            packages[name.removeprefix(_PACKAGE)] = value
    return Versions(**fields, packages=packages)
