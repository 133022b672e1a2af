"""Files of OTLP protobuf: one ExportTraceServiceRequest or TracesData, or several with their lengths before them.

The two messages are the same on the wire. Lengths are varints, as protobuf's own writers of delimited messages have
them, or four bytes, most significant first, as the Collector's file exporter writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1 import trace_pb2

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import Anomaly, AnomalyCode, Span
from otel_agent_replay.otlp.spans import spans_of as spans_of_resource

Framing = Callable[[bytes], Iterator[bytes]]
_FIRST = b"\x0a"
"""How every message begins: the tag of `resource_spans`, its only field."""
_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f]")
"""Bytes that no JSON has, and every message with a span: the tags of its fields are among them."""


def fits(file: OpenedFile) -> bool:
    """Whether it begins as a message of spans, with or without a length before it."""
    head = file.head
    # A length of 123 or 91 before the first message, or behind the tag of its first field, reads as the start of JSON.
    if not head or (head[:1] in (b"{", b"[") and _NO_TEXT.search(head) is None):
        return False
    return _framing_of(file.data()) is not None


def read(file: OpenedFile) -> Found:
    """Return the spans of the file, message by message."""
    anomalies: list[Anomaly] = []
    return Found("otlp", spans_of(_read(file), anomalies), anomalies=anomalies)


def _read(file: OpenedFile) -> Iterator[Span | Anomaly]:
    data = file.data()
    framing = _framing_of(data)
    if framing is None:
        raise DamagedRecording(
            f"{file.path} is no OTLP protobuf: neither one message of spans nor several with lengths before them"
        )
    number = 0
    try:
        for number, message in enumerate(_messages(data, framing), start=1):  # noqa: B007 - told when it ends early
            for group in message.resource_spans:
                yield from spans_of_resource(group)
    except DecodeError as error:
        yield Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: what follows message {number} cannot be read ({error})")
    if file.is_cut:
        yield Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: its gzip ends in the middle: what came before was read")


def _framing_of(data: bytes) -> Framing | None:
    """Return how the messages lie in `data`, told by the first of them; None when there is none."""
    for framing in (_whole, _by_varint, _by_four_bytes):
        with suppress(DecodeError):
            if next(_messages(data, framing), None) is not None:
                return framing
    return None


def _messages(data: bytes, framing: Framing) -> Iterator[trace_pb2.TracesData]:
    """Yield messages. Raises DecodeError at the first that is none."""
    for frame in framing(data):
        # A length may read as the tag of a field that nobody knows, which swallows what follows.
        if frame[:1] != _FIRST:
            raise DecodeError("it does not begin with a field of spans")
        message = trace_pb2.TracesData.FromString(frame)
        if not message.resource_spans:
            raise DecodeError("no spans are in it")
        spans = [span for group in message.resource_spans for scope in group.scope_spans for span in scope.spans]
        if spans and not any(span.trace_id for span in spans):
            raise DecodeError("its records have no trace ids: logs or metrics")
        yield message


def _whole(data: bytes) -> Iterator[bytes]:
    yield data


def _by_varint(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        size = shift = 0
        while True:
            if place >= len(data) or shift > 63:
                raise DecodeError("it ends in a length")
            byte = data[place]
            place += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield _frame(data, place, size)
        place += size


def _by_four_bytes(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        yield _frame(data, place + 4, size)
        place += 4 + size


def _frame(data: bytes, place: int, size: int) -> bytes:
    frame = data[place : place + size]
    if len(frame) < size or not size:
        raise DecodeError(f"a message of {size} bytes is announced, and {len(frame)} are there")
    return frame
