"""Tags of the requests and responses of HTTP clients, as errors carry them: `error.response.status_code`.

What an error handler asks of a response comes back: status, reason, headers, body, and the method and URL of its
request. Headers that hold a credential, a request's headers and body, and a body that is no text are not kept. A body
that is JSON is kept as its value, so that redaction rules find its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_agent_replay.payload.classes import class_name, find_class
from otel_agent_replay.payload.kept import KeptAsText
from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]
Headers = list[tuple[str, str]]

MAX_BODY = 16 * 1024
"""Bytes of a body that are kept with its response; a longer one's bytes lie in the exchange alone."""

_COMPACT, _SPACED = (",", ":"), (", ", ": ")


class _Read(NamedTuple):
    """What is kept of a response; `body` is None where nobody has read it."""

    status: int
    reason: str
    headers: Headers
    body: bytes | None
    encoding: str | None
    method: str
    url: str


def is_http(cls: type) -> bool:
    """Whether `cls` is a request or a response of a client that is known here."""
    return class_name(cls) in _KNOWN


def write_http(value: Any, encoder: Encoder, where: Where) -> Any:
    """Keep a request or a response; one that cannot be looked into is kept as text."""
    name = class_name(type(value))
    try:
        if name in _REQUESTS:
            method, url = str(value.method), str(value.url)
            tag = {"$type": "http_request", "class": name, "method": method, "url": _shown_url(url)}
            encoder.note(where, "of a request only method and URL are kept")
            return tag
        return _response_tag(name, _RESPONSES[name].read(value), encoder, where)
    except Exception as error:
        return encoder.kept_as_text(value, where, f"kept as text only, for looking at it raised {type(error).__name__}")


def _response_tag(name: str, read: _Read, encoder: Encoder, where: Where) -> Tag:
    from otel_agent_replay.payload.redaction import Redaction

    kept = Redaction.default().headers(read.headers)
    encoder.note(where, "of a response's request only method and URL are kept")
    tag: Tag = {
        "$type": "http_response",
        "class": name,
        "status": read.status,
        "reason": encoder.text(read.reason),
        "headers": [[encoder.text(key), encoder.text(text)] for key, text in kept],
        "encoding": read.encoding,
        "method": read.method,
        "url": _shown_url(read.url),
    }
    if read.body is not None and len(read.body) > MAX_BODY:
        encoder.note(where, f"a body of {len(read.body)} bytes is not kept with its response")
    elif read.body is not None:
        tag.update(_body(read.body, encoder, where))
    return tag


def _body(body: bytes, encoder: Encoder, where: Where) -> Tag:
    try:
        value = json.loads(body)
        for separators in (_COMPACT, _SPACED):
            for ascii_only in (False, True):
                if _dumped(value, separators, ascii_only) == body:
                    spaced = separators is _SPACED
                    return {"json": encoder.value(value, (where, "json")), "spaced": spaced, "ascii": ascii_only}
        encoder.note(where, "a body of JSON is kept as its value, not byte for byte")
        return {"json": encoder.value(value, (where, "json"))}
    except ValueError:
        pass
    try:
        return {"text": body.decode("utf-8")}
    except UnicodeDecodeError:
        encoder.note(where, "a body that is no text is not kept with its response")
        return {}


def without_bodies(tree: Any) -> Any:
    """Return a tree of the typed codec with the bodies of its responses left out."""
    if isinstance(tree, list):
        return [without_bodies(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    left_out = ("json", "text") if tree.get("$type") == "http_response" else ()
    return {key: without_bodies(item) for key, item in tree.items() if key not in left_out}


def _dumped(value: Any, separators: tuple[str, str], ascii_only: bool) -> bytes:
    return json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def _shown_url(url: str) -> str:
    from otel_agent_replay.payload.redaction import Redaction

    return Redaction.default().url(url)


def _read_request(tag: Tag, _decoder: Decoder, _where: Where) -> Any:
    cls = find_class(tag["class"]) if tag["class"] in _REQUESTS else None
    if cls is None:
        return KeptAsText(tag["class"], f"{tag['method']} {tag['url']}")
    return _made_request(cls, tag["method"], tag["url"])


def _read_response(tag: Tag, decoder: Decoder, where: Where) -> Any:
    cls = find_class(tag["class"]) if tag["class"] in _RESPONSES else None
    if cls is None:
        return KeptAsText(tag["class"], f"{tag['status']} from {tag['method']} {tag['url']}")
    body: bytes | None = None
    if "json" in tag:
        value = decoder.value(tag["json"], (where, "json"))
        body = _dumped(value, _SPACED if tag.get("spaced") else _COMPACT, bool(tag.get("ascii")))
    elif "text" in tag:
        body = tag["text"].encode("utf-8")
    headers = [(decoder.value(key, where), decoder.value(text, where)) for key, text in tag["headers"]]
    reason = decoder.value(tag["reason"], where)
    read = _Read(tag["status"], reason, headers, body, tag["encoding"], tag["method"], tag["url"])
    return _RESPONSES[tag["class"]].make(cls, read)


# --- httpx, httpx2 --------------------------------------------------------------------------------------------


def _httpx_read(response: Any) -> _Read:
    request = getattr(response, "_request", None)
    return _Read(
        response.status_code,
        response.reason_phrase,
        response.headers.multi_items(),
        vars(response).get("_content"),
        None,
        "" if request is None else request.method,
        "" if request is None else str(request.url),
    )


def _httpx_made(cls: type, read: _Read) -> Any:
    request_class = find_class(f"{cls.__module__}:Request")
    request = _made_request(request_class, read.method, read.url) if request_class and read.url else None
    extensions = {"reason_phrase": read.reason.encode("ascii", "replace")}
    response: Any = cls(read.status, content=read.body or b"", request=request, extensions=extensions)
    response.headers = type(response.headers)(read.headers)  # afterwards: the body is unpacked already
    if read.body is None:
        del response._content
    return response


# --- requests -------------------------------------------------------------------------------------------------


def _requests_read(response: Any) -> _Read:
    request = response.request
    return _Read(
        response.status_code,
        response.reason or "",
        list(response.headers.items()),
        response._content if response._content_consumed and isinstance(response._content, bytes) else None,
        response.encoding,
        "" if request is None else request.method or "",
        response.url or "",
    )


def _requests_made(cls: type, read: _Read) -> Any:
    response: Any = cls()
    response.status_code, response.reason, response.url, response.encoding = (
        read.status, read.reason, read.url, read.encoding
    )  # fmt: skip
    response.headers.update(read.headers)
    response._content, response._content_consumed = (read.body, True) if read.body is not None else (False, True)
    request_class = find_class("requests.models:PreparedRequest")
    if request_class is not None:
        response.request = _made_request(request_class, read.method, read.url)
    return response


def _made_request(cls: type, method: str, url: str) -> Any:
    if cls.__module__ == "requests.models":
        request: Any = cls()
        request.method, request.url = method, url
        return request
    return cls(method, url)


class _Client(NamedTuple):
    read: Callable[[Any], _Read]
    make: Callable[[type, _Read], Any]


_RESPONSES = {
    "httpx:Response": _Client(_httpx_read, _httpx_made),
    "httpx2:Response": _Client(_httpx_read, _httpx_made),
    "requests.models:Response": _Client(_requests_read, _requests_made),
}
_REQUESTS = ("httpx:Request", "httpx2:Request", "requests.models:PreparedRequest")
_KNOWN: Iterable[str] = frozenset((*_RESPONSES, *_REQUESTS))

READERS = {"http_request": _read_request, "http_response": _read_response}
