"""HTTP answers as bytes. Pure."""

from __future__ import annotations

import math
from functools import lru_cache
from http import HTTPStatus

from otel_agent_replay_collector.refusal import Refused

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@lru_cache(64)
def _beginning(status: int, content_type: bytes, more: bytes, closing: bool) -> bytes:
    phrase = HTTPStatus(status).phrase.encode()
    connection = b"connection: close\r\n" if closing else b""
    return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\n%s%scontent-length: " % (
        status,
        phrase,
        content_type,
        connection,
        more,
    )


def answer(status: int, body: bytes, content_type: bytes, *, closing: bool, more: bytes = b"") -> bytes:
    """Return a whole answer; `more` are further header lines."""
    return b"%s%d\r\n\r\n%s" % (_beginning(status, content_type, more, closing), len(body), body)


def refusal(why: Refused, *, as_json: bool, closing: bool) -> bytes:
    """Return the answer of a refusal: a `google.rpc.Status`, and when to try again."""
    more = b""
    if why.retry_s is not None:
        more = b"retry-after: %d\r\n" % max(1, math.ceil(why.retry_s))
    elif why.http == 401:
        more = b"www-authenticate: Bearer\r\n"
    content_type = b"application/json" if as_json else b"application/x-protobuf"
    return answer(why.http, why.body(as_json=as_json), content_type, closing=closing, more=more)
