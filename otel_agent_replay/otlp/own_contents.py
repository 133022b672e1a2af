"""What our own recorder sent beside a span, looked at again where it arrives: anybody may use the name.

Our recorder masks before it sends, by the same built-in rules, and masking twice changes nothing: what it sent stays,
and its digests hold. What anybody else wrote there, or an older recorder, is masked, and gets the digest that it has
now. Rules that a receiver was given are not applied: a replay masks by those of its recording. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError, Message

from otel_agent_replay import semconv
from otel_agent_replay.model import CaptureLevel, MediaType, digest_of
from otel_agent_replay.payload.masks import is_mask
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.wire.text import text_from_wire, text_to_wire
from otel_agent_replay.wire.v1 import exchange_pb2, journal_pb2, run_span_pb2

NAMES = (semconv.RECORD, semconv.PART)
"""Attributes of a span, bytes, that hold what a recorder of ours sent."""

_BYTES = MediaType.BYTES.value


def masked_contents(name: str, data: bytes, redaction: Redaction) -> bytes:
    """Return what may be kept of the attribute `name`, one of `NAMES`: the same where nothing is to be masked."""
    built_in = redaction.at(CaptureLevel.FULL)
    message: Message = run_span_pb2.RunSpan() if name == semconv.RECORD else run_span_pb2.SpanPart()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return built_in.body(data, _BYTES)
    message.DiscardUnknownFields()
    if isinstance(message, run_span_pb2.SpanPart):
        _mask_piece(message, built_in)
    else:
        _mask(message, built_in)
        if built_in.has_learnt:  # what one text gave away may stand in another
            _mask(message, built_in)
    # Written anew also where nothing was masked: a field that is given twice hides what was given first.
    return message.SerializeToString()


def _mask_piece(piece: run_span_pb2.SpanPart, redaction: Redaction) -> None:
    """Mask in some bytes of a span, whose fields cannot be told before they are joined: what is known by its shape."""
    masked = bytearray(redaction.body(piece.data, _BYTES))  # a mask is as long as what it stands for
    for start, end in _words_of_fields(bytes(masked)):
        masked[start:end] = redaction.body(bytes(masked[start:end]), _BYTES)
    if masked != piece.data:
        piece.data, piece.masked = bytes(masked), True
    piece.digest = redaction.body(piece.digest, _BYTES)


def _words_of_fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield words that may fill a field: the length before one may be a letter, and then seems to be of the word."""
    for word in _WORD.finditer(data):
        start, end = word.span()
        for at in range(max(start, 1, end - _LONGEST), end - _SHORTEST):
            # So may the tag and the length of the next field.
            if end - 3 <= at + data[at] < end and _is_tag(data, at):
                yield at + 1, at + 1 + data[at]


def _is_tag(data: bytes, end: int) -> bool:
    """Whether a tag of one or two bytes, of a field with a length, may end there."""
    if data[end - 1] & 7 == _LENGTH_DELIMITED:
        return True
    return end > 1 and data[end - 2] >= 0x80 and data[end - 2] & 7 == _LENGTH_DELIMITED


_LENGTH_DELIMITED = 2
_SHORTEST, _LONGEST = 16, 130  # bytes of what is known by its shape; of a field whose length is one byte
_WORD = re.compile(rb"[\w-]{17,}")


def _mask(message: Any, redaction: Redaction) -> None:
    """Mask in every field of a message, and in what lies in it."""
    if isinstance(message, run_span_pb2.NodeFacts):
        _mask_bodies(message, redaction)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in (value,) if isinstance(value, Message) else value:
                _mask(inner, redaction)
        elif isinstance(value, str):
            setattr(message, field.name, _named(message, field.name, value, redaction))
        elif isinstance(value, bytes) and field.name not in _BODIES:
            setattr(message, field.name, _bytes(field.name, value, redaction))
        elif field.type == field.TYPE_STRING:
            value[:] = [_text(text, redaction) for text in value]


def _named(message: Any, field: str, value: str, redaction: Redaction) -> str:
    """Return a text by what it is called: a header's value, an attribute's, that of a variable; a URL; any other."""
    text = text_from_wire(value)
    if isinstance(message, exchange_pb2.HttpRequestHead) and field == "url":
        masked = redaction.url(text)
    elif isinstance(message, journal_pb2.Read) and field == "text" and message.kind == "env":
        masked = text if is_mask(text) else redaction.env(text_from_wire(message.name), text)[0]
    elif isinstance(message, _NAMED) and field in _VALUES:
        masked = redaction.named(text_from_wire(message.name), text)
    else:
        masked = redaction.text(text)
    return value if masked == text else text_to_wire(masked)


def _text(value: str, redaction: Redaction) -> str:
    text = text_from_wire(value)
    masked = redaction.text(text)
    return value if masked == text else text_to_wire(masked)


def _bytes(field: str, value: bytes, redaction: Redaction) -> bytes:
    return redaction.value_bytes(value) if field in _TYPED else redaction.body(value, _BYTES)


_NAMED = (exchange_pb2.Header, journal_pb2.Attribute)
_VALUES = frozenset({"value", "text"})
_BODIES = frozenset({"request_body", "result_body"})
_TYPED = frozenset({"nested", "state"})  # typed JSON of the payload codec


def _mask_bodies(node: run_span_pb2.NodeFacts, redaction: Redaction) -> None:
    """Mask in the bodies, and see that each has its own digest."""
    exchange = node.exchange
    if node.HasField("request_body"):
        node.request_body = _body(node.request_body, exchange.request_media_type, redaction)
        node.request_digest = digest_of(node.request_body)
        exchange.request_size = len(node.request_body)
    if node.HasField("result_body"):
        masked = _body(node.result_body, exchange.result_media_type, redaction)
        if masked != node.result_body:
            node.result_body, exchange.result_altered = masked, True
        node.result_digest = digest_of(masked)
        exchange.result_size = len(masked)


def _body(data: bytes, media_type: str, redaction: Redaction) -> bytes:
    return redaction.value_bytes(data) if media_type == MediaType.VALUE.value else redaction.body(data, media_type)
