"""Recordings of HTTP traffic made for tests -> exchanges: VCR (Python and Ruby), nock, the test agent's single files.

Bodies are there as text, as base64, as hex, or parsed already (then their exact bytes are gone, and the exchange says
so); packed or unpacked, whatever the head says.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.boundary.http_coding import CodingError, codings_of, decoded_body
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.packed import GZIP, is_hex, unzipped
from otel_agent_replay.model import HttpRequestHead, WireExchange

Headers = tuple[tuple[str, str], ...]

_MOST_WRITTEN = 64 << 20  # characters; aliases may make a small YAML document endless when it is written out
_REPARSED = "the body was kept parsed, so its exact bytes are gone; it was written anew"


def is_cassette(document: Any) -> bool:
    """Whether a parsed file holds recorded exchanges, in any of the forms."""
    if isinstance(document, Mapping):
        return isinstance(document.get("interactions"), list) or _is_interaction(document)
    return isinstance(document, list) and bool(document) and all(_is_nock(entry) for entry in document)


def read_cassette(document: Any, source: str) -> Iterator[WireExchange]:
    """Every exchange of a parsed cassette, in order. Raises DamagedRecording for one that is not whole."""
    if isinstance(document, list):
        entries, read = document, _nock
    elif "interactions" in document:
        entries, read = document["interactions"], _interaction
    else:
        yield _interaction(document, source)
        return
    for number, entry in enumerate(entries):
        place = f"{source}#{number}"
        if not isinstance(entry, Mapping):
            raise DamagedRecording(f"{place} is no exchange: {str(entry)[:60]!r}")
        if read is _nock or _is_interaction(entry):
            yield read(entry, place)


def _is_interaction(entry: Mapping[Any, Any]) -> bool:
    return isinstance(entry.get("request"), Mapping) and isinstance(entry.get("response"), Mapping)


def _is_nock(entry: Any) -> bool:
    return isinstance(entry, Mapping) and {"scope", "path", "response"} <= entry.keys()


def _interaction(entry: Mapping[str, Any], place: str) -> WireExchange:
    request, response = entry["request"], entry["response"]
    status = response.get("status", response.get("status_code", 200))
    status = status.get("code", 200) if isinstance(status, Mapping) else status
    asked, notes = _body(request, place)
    stored, more = _body(response, place)
    request_head = HttpRequestHead(
        str(request.get("method") or "POST"),
        str(request.get("uri") or request.get("url") or ""),
        _pairs(request.get("headers")),
    )
    del notes
    return _exchange(place, request_head, asked, _number(status, place), _pairs(response.get("headers")), stored, more)


def _nock(entry: Mapping[str, Any], place: str) -> WireExchange:
    request_head = HttpRequestHead(
        str(entry.get("method") or "POST"),
        str(entry["scope"]) + str(entry["path"]),
        _pairs(entry.get("reqheaders")),
    )
    response = entry["response"]
    notes: tuple[str, ...] = ()
    if isinstance(response, list) and response and all(isinstance(item, str) and is_hex(item) for item in response):
        stored = b"".join(map(bytes.fromhex, response))
    elif isinstance(response, str):
        stored = bytes.fromhex(response) if is_hex(response) else _encoded(response)
    else:
        stored, notes = _written(response, place), (_REPARSED,)
    headers = _pairs(entry.get("rawHeaders") or entry.get("responseHeaders"))
    asked = entry.get("body")
    body = b"" if asked is None else _encoded(asked) if isinstance(asked, str) else _written(asked, place)
    return _exchange(place, request_head, body, _number(entry.get("status", 200), place), headers, stored, notes)


def _exchange(
    place: str,
    head: HttpRequestHead,
    asked: bytes,
    status: int,
    headers: Headers,
    stored: bytes,
    notes: tuple[str, ...],
) -> WireExchange:
    media_type = next((value for name, value in headers if name.lower() == "content-type"), "")
    body, whole = _unpacked(stored, headers, place)
    if not whole:
        notes += ("the packed body ends in the middle; what came of it is taken",)
    return WireExchange(
        source=place,
        body=body,
        media_type=media_type.partition(";")[0].strip().lower(),
        status=status,
        request=head,
        request_body=_unpacked(asked, head.headers, place)[0],
        headers=headers,
        notes=notes,
    )


def _unpacked(body: bytes, headers: Headers, place: str) -> tuple[bytes, bool]:
    """`body` without its content coding, and whether it is whole.

    The bytes decide about gzip: recorders keep the head also where they unpacked the body, and leave it out where not.
    """
    if body.startswith(GZIP):
        return unzipped(body, place)
    if not codings_of(headers) or "gzip" in codings_of(headers) or _is_text(body):
        return body, True
    try:
        return decoded_body(body, headers), True
    except CodingError as error:
        raise DamagedRecording(f"{place}: the body cannot be unpacked: {error}") from error


def _is_text(body: bytes) -> bool:
    return body[:1] in b'{[:deir"<' and body[:64].isascii()


def _body(message: Mapping[str, Any], place: str) -> tuple[bytes, tuple[str, ...]]:
    """The body of a request or response, and what is to be said of it."""
    if "parsed_body" in message:
        return _text_or_written(message["parsed_body"], place)
    body = message.get("body", message.get("content"))
    if isinstance(body, Mapping):
        if isinstance(body.get("base64_string"), str):
            try:
                return base64.b64decode(body["base64_string"], validate=True), ()
            except binascii.Error as error:
                raise DamagedRecording(f"{place}: the body is no base64: {error}") from error
        body = body.get("string")
    return _text_or_written(body, place)


def _text_or_written(value: Any, place: str) -> tuple[bytes, tuple[str, ...]]:
    if value is None:
        return b"", ()
    if isinstance(value, bytes):
        return value, ()
    if isinstance(value, str):
        return _encoded(value), ()
    return _written(value, place), (_REPARSED,)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _written(value: Any, place: str) -> bytes:
    if _written_size(value, {}) > _MOST_WRITTEN:
        raise DamagedRecording(f"{place}: the parsed body is more than {_MOST_WRITTEN >> 20} MiB when written out")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "surrogatepass")


def _written_size(value: Any, known: dict[int, int]) -> int:
    """About how long a value is when written, each shared part being walked once."""
    if isinstance(value, str):
        return len(value) + 3
    if not isinstance(value, (Mapping, list)):
        return 8
    if id(value) not in known:
        known[id(value)] = _MOST_WRITTEN + 1  # a value that holds itself has no end
        items = [*value, *value.values()] if isinstance(value, Mapping) else value
        known[id(value)] = 2 + sum(_written_size(item, known) for item in items)
    return known[id(value)]


def _number(status: Any, place: str) -> int:
    try:
        return int(status)
    except (TypeError, ValueError) as error:
        raise DamagedRecording(f"{place}: the status is {status!r}, which is no number") from error


def _pairs(headers: Any) -> Headers:
    if isinstance(headers, list):
        return tuple((str(headers[at]), str(headers[at + 1])) for at in range(0, len(headers) - 1, 2))
    if not isinstance(headers, Mapping):
        return ()
    return tuple(
        (str(name), str(value))
        for name, values in headers.items()
        for value in (values if isinstance(values, list) else [values])
    )
