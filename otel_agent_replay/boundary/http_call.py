"""An HTTP request as a `Call`: recognised, redacted, with its facts.

The same code runs while recording and while replaying, so both sides of a match pass the same rules. It does
no I/O and never changes the request that is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, codings_in, decoded_chunks
from otel_agent_replay.model import (
    AttributeValue,
    Call,
    Kind,
    MediaType,
    Payload,
    SideEffect,
    make_call,
    make_request_head,
)
from otel_agent_replay.model.header_names import HeaderNames
from otel_agent_replay.model.making import maker_of
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols.protocol import Protocol
from otel_agent_replay.protocols.recognise import recognise

_READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|([^\s;,]+))""", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
_NO_FACTS: Mapping[str, AttributeValue] = {}
# Before Python 3.12 a member of an enumeration costs 70 ns each time it is named.
_HTTP, _MODEL, _READ, _WRITE = Kind.HTTP, Kind.MODEL, SideEffect.READ, SideEffect.WRITE


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as the client hands it over. `body` is None when it is known only after it was sent.

    `streamed` tells that the client does not hold the body in memory: its kind then depends on the head alone, so
    that recording (which sees the body afterwards) and replaying (which reads it first) agree. `packed` is False
    when the bytes at hand are not yet in the coding that the headers name. `notes` are facts about how it travels
    (a proxy). `movable` tells that the transport can still send it to another host.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    streamed: bool = False
    packed: bool = True
    notes: tuple[str, ...] = ()
    movable: bool = False


make_sent = maker_of(SentRequest)
"""`SentRequest(...)`, quicker: for where each call passes."""

_TELLING = HeaderNames(["content-type", "content-encoding", "idempotency-key"])


def telling(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the type and the coding of a body and the idempotency key, by lower-case name; of several the first."""
    told: dict[str, str] = {}
    for name, value in _TELLING.of(headers):
        told.setdefault(name.lower(), value)
    return told


def header(headers: Iterable[tuple[str, str]], wanted: str) -> str:
    """Return the first value of the header `wanted` (lower case), or ""."""
    length = len(wanted)
    for name, value in headers:
        if len(name) == length and name.lower() == wanted:
            return value
    return ""


@lru_cache(256)
def media_type_of(content_type: str) -> str:
    """Return the type without its parameters, lower case; octets when none is given."""
    return content_type.partition(";")[0].strip().lower() or MediaType.BYTES.value


def head_facts(method: str, url: str) -> dict[str, AttributeValue]:
    """Return the attributes that the first line of a redacted request tells."""
    _, _, _, host, port = _split(url)
    return {
        semconv.HTTP_METHOD: method,
        semconv.URL_FULL: url,
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: port,
    }


@lru_cache(256)
def _split(url: str) -> tuple[str, str, str, str, int]:
    """Return scheme, host and port as written, path, host, port. Clients ask the same few URLs over and over."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path, parts.hostname or "", _port(parts.netloc, parts.scheme)


def call_of(redaction: Redaction, request: SentRequest, *, facts: bool = True) -> tuple[Call, Protocol | None]:
    """Return the redacted call, and the provider protocol it speaks (None: any other HTTP).

    Without `facts` its attributes name the protocol alone: the rest can be read from head and body later.
    """
    headers = request.headers
    told = telling(headers)
    body, notes = _plain_body(request, told)
    protocol = _protocol(request, body)
    content_type = told.get("content-type", "")
    if content_type[:10].lower() == "multipart/":
        body, headers = _with_fixed_boundary(body, headers, content_type)
    media_type = media_type_of(content_type)
    kept_headers = redaction.headers(headers)  # first: a key that they carry is then masked in the body too
    body = redaction.body(body, media_type)
    url = redaction.url(request.url)
    method = request.method.upper()
    attributes: Mapping[str, AttributeValue] = _NO_FACTS
    if protocol is None:
        _, netloc, path, _, _ = _split(url)
        kind, name = _HTTP, f"{method} {netloc.rpartition('@')[2]}{path or '/'}"
        if facts:
            attributes = head_facts(method, url)
    else:
        # Not the model's name: a run on another model must still line up with this one.
        kind, name = _MODEL, protocol.operation
        attributes = (
            {
                **head_facts(method, url),
                **protocol.request_facts(body, url),
                semconv.PROTOCOL: protocol.name,
                semconv.OPERATION_NAME: protocol.operation,
                semconv.PROVIDER_NAME: protocol.provider(request.url),
            }
            if facts
            else {semconv.PROTOCOL: protocol.name}
        )
    is_read = protocol is not None or method in _READS
    call = make_call(
        kind,
        name,
        _READ if is_read else _WRITE,
        Payload.of(body, media_type),
        make_request_head(method, url, kept_headers),
        attributes,
        told.get("idempotency-key", ""),
        True,
        (*request.notes, *notes) if notes or request.notes else (),
    )
    return call, protocol


def protocol_of(request: SentRequest) -> Protocol | None:
    """Return the provider protocol that a request speaks, or None."""
    return _protocol(request, _plain_body(request, telling(request.headers))[0])


def _protocol(request: SentRequest, body: bytes) -> Protocol | None:
    return None if request.streamed else recognise(request.method, request.url, request.headers, body)


def _plain_body(request: SentRequest, told: Mapping[str, str]) -> tuple[bytes, tuple[str, ...]]:
    """Return the body without its content coding: packers put times into it, so packed bytes never match twice."""
    body = request.body or b""
    coding = told.get("content-encoding")
    codings = codings_in(coding) if coding and body and request.packed else ()
    if not codings:
        return body, ()
    try:
        return decoded_chunks([body], codings)[0], (f"the body was sent as {', '.join(codings)}; it is kept unpacked",)
    except CodingError as error:
        note = f"the request body could not be unpacked, so redaction rules could not look inside: {error}"
        return body, (note,)


def _with_fixed_boundary(
    body: bytes, headers: tuple[tuple[str, str], ...], content_type: str
) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    """Replace a form's random boundary by a fixed one of the same length, so that equal forms have equal digests."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        return body, headers
    boundary = found.group(1) or found.group(2)
    fixed = ("agent-replay-boundary-" * (len(boundary) // 22 + 1))[: len(boundary)]
    body = body.replace(b"--" + boundary.encode("latin-1"), b"--" + fixed.encode())
    fixed_headers = tuple(
        (name, value.replace(boundary, fixed)) if name.lower() == "content-type" else (name, value)
        for name, value in headers
    )
    return body, fixed_headers


def _port(netloc: str, scheme: str) -> int:
    digits = netloc.rpartition(":")[2]
    return int(digits) if digits.isdigit() else _PORTS.get(scheme, 0)
