"""Spans -> messages no larger than a receiver takes, and back. Pure.

A span that is too large alone is sent in pieces: each is a span with the same ids, name and times, and one attribute,
`agent_replay.part`, a `SpanPart` message with some bytes of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1 import trace_pb2

from otel_agent_replay import semconv
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Span, digest_of
from otel_agent_replay.otlp.spans import resource_spans_of, spans_of
from otel_agent_replay.wire.v1 import run_span_pb2

MESSAGE_BYTES = 3 << 20
"""A message of this size passes the 4 MiB that most receivers take."""

_AROUND_A_PIECE = 4096


def messages_of(spans: Iterable[Span], limit: int = MESSAGE_BYTES) -> Iterator[trace_pb2.TracesData]:
    """Yield the spans in messages of at most `limit` bytes, in order. `limit` is 8 KiB or more."""
    if limit < 2 * _AROUND_A_PIECE:
        raise ValueError(f"a message of {limit} bytes is too small: {2 * _AROUND_A_PIECE} at least")
    message, size = trace_pb2.TracesData(), 0
    for span in spans:
        for found in _pieces(span, limit):
            added = found.ByteSize() + 8
            if size and size + added > limit:
                yield message
                message, size = trace_pb2.TracesData(), 0
            _join(message, found)
            size += added
    if size:
        yield message


def _join(message: trace_pb2.TracesData, one: trace_pb2.ResourceSpans) -> None:
    """Add the only span of `one`; what was emitted by the same as the span before lies beside it."""
    last = message.resource_spans[-1] if message.resource_spans else None
    if last is None or last.resource != one.resource or last.schema_url != one.schema_url:
        message.resource_spans.append(one)
        return
    theirs, scope = one.scope_spans[0], last.scope_spans[-1]
    if scope.scope != theirs.scope or scope.schema_url != theirs.schema_url:
        last.scope_spans.append(theirs)
    else:
        scope.spans.append(theirs.spans[0])


def _pieces(span: Span, limit: int) -> Iterator[trace_pb2.ResourceSpans]:
    whole = resource_spans_of(span)
    if whole.ByteSize() + 8 <= limit:
        yield whole
        return
    data = whole.SerializeToString()
    bare = replace(
        span, name=span.name[:256], status_message="", attributes={}, events=(), links=(), trace_state="",
        resource=replace(span.resource, attributes={}), scope=replace(span.scope, attributes={}),
    )  # fmt: skip
    step = limit - _AROUND_A_PIECE
    count = -(-len(data) // step)
    for number in range(count):
        part = run_span_pb2.SpanPart(
            digest=digest_of(data), number=number, count=count, data=data[number * step : (number + 1) * step]
        )
        yield resource_spans_of(replace(bare, attributes={semconv.PART: part.SerializeToString()}))


class PartJoiner:
    """Puts pieces together as they come, in any order."""

    def __init__(self) -> None:
        self._open: dict[bytes, dict[int, tuple[run_span_pb2.SpanPart, Span]]] = {}

    def whole(self, span: Span) -> Span | None:
        """Return a span that is no piece as it is, and a whole one with its last piece; None: more is to come.

        Raises DamagedRecording for a piece that cannot be read.
        """
        held = span.attributes.get(semconv.PART)
        if not isinstance(held, bytes):
            return span
        try:
            part = run_span_pb2.SpanPart.FromString(held)
        except DecodeError as error:
            raise DamagedRecording(f"a piece of span {span.span_id.hex()} cannot be read: {error}") from error
        pieces = self._open.setdefault(part.digest, {})
        pieces[part.number] = part, span
        if len(pieces) < part.count:
            return None
        del self._open[part.digest]
        data = b"".join(pieces[number][0].data for number in sorted(pieces))
        if digest_of(data) != part.digest and not any(piece.masked for piece, _ in pieces.values()):
            raise DamagedRecording(
                f"the pieces of span {span.span_id.hex()} do not give the whole: its digest is another"
            )
        try:
            return next(spans_of(trace_pb2.ResourceSpans.FromString(data)))
        except (DecodeError, StopIteration) as error:
            raise DamagedRecording(f"the pieces of span {span.span_id.hex()} give no span: {error}") from error

    def incomplete(self) -> list[Span]:
        """Return one piece of each span of which not all pieces came."""
        return [next(iter(pieces.values()))[1] for pieces in self._open.values()]
