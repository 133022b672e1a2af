"""A crossing of the boundary as data: the call that was made, the outcome that came back.

A `Call` is what matching sees; an `Outcome` is what playback serves. HTTP exchanges carry heads and
chunk boundaries beside the body; tool-like calls carry one typed value each way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from otel_agent_replay.model.header_names import HeaderNames
from otel_agent_replay.model.kinds import Kind, SideEffect
from otel_agent_replay.model.making import maker_of
from otel_agent_replay.model.payload import Payload
from otel_agent_replay.model.span import AttributeValue
from otel_agent_replay.model.word import Word

MEANINGFUL_HEADERS = frozenset(
    ("anthropic-version", "anthropic-beta", "openai-beta", "content-encoding", "accept",
     "x-amzn-bedrock-guardrailidentifier", "x-amzn-bedrock-guardrailversion")
)  # fmt: skip
"""Request headers that change what a server answers and hold no credential: part of a call's digest."""
_MEANINGFUL = HeaderNames(MEANINGFUL_HEADERS)

_NO_ATTRIBUTES: Mapping[str, AttributeValue] = {}


@dataclass(frozen=True, slots=True)
class HttpRequestHead:
    """The request line and headers, credentials already dropped. Header names keep their case."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    http_version: str = ""


@dataclass(frozen=True, slots=True)
class HttpResponseHead:
    """The status line and headers as they came, credentials already dropped."""

    status: int
    reason: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    http_version: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call across the boundary, redacted, before it is answered.

    `request` holds the body (HTTP) or the typed arguments. `round_trips` is False when the arguments
    could not be kept whole; `notes` then says what was lost, one sentence each. `asked` is the digest of the call as
    the agent made it, where a fork edited it on its way out; empty: it is this one.
    """

    kind: Kind
    name: str
    side_effect: SideEffect
    request: Payload
    head: HttpRequestHead | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: _NO_ATTRIBUTES)
    idempotency_key: str = ""
    round_trips: bool = True
    notes: tuple[str, ...] = ()
    asked: bytes = b""

    @property
    def digest(self) -> bytes:
        """The asserted digest (32 bytes): the payload's, and for HTTP the method, URL and meaningful headers too."""
        head = self.head
        if head is None:
            return self.request.digest
        meaning = sorted([f"{name.lower()}:{value}" for name, value in _MEANINGFUL.of(head.headers)])
        line = "\n".join((head.method.upper(), head.url, *meaning))
        return hashlib.sha256(line.encode("utf-8", "surrogatepass") + b"\0" + self.request.digest).digest()

    @property
    def asked_digest(self) -> bytes:
        """The digest of the call as the agent made it."""
        return self.asked or self.digest


class Chunk(NamedTuple):
    """One piece of a body as the reader received it: `size` bytes, `after_ns` nanoseconds after the call began.

    A tuple, because a stream has many.
    """

    size: int
    after_ns: int


class FailurePhase(Word):
    """Where in an exchange a failure struck."""

    CALL = "call"  # before any answer: connect, send, wait for the head; or a tool that raised
    BODY = "body"  # while the body was being read, after the recorded chunks


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as data: enough to raise the same class with the same attributes.

    `type` is `module:qualified.name`. `state` is the typed-codec bytes of {"args": [...], "dict": {...}};
    None when nothing of it could be kept. `cause` is the exception it was raised from or during.
    """

    type: str
    message: str
    phase: FailurePhase = FailurePhase.CALL
    state: bytes | None = None
    round_trips: bool = True
    cause: Failure | None = None


class OutcomeStatus(Word):
    """How a crossing ended."""

    OK = "ok"
    ERROR = "error"  # it raised; `failure` says what
    CANCELLED = "cancelled"  # the caller gave up waiting
    PENDING = "pending"  # it never ended: the process died or the run was closed around it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: a typed value, or an HTTP head with a body in chunks, or a failure, or both.

    `closed_early` tells that the reader closed the body before its end, so the body is a prefix.
    `exact` is False when what is kept is not byte for byte what came (a secret was masked inside).
    """

    status: OutcomeStatus
    result: Payload | None = None
    head: HttpResponseHead | None = None
    chunks: Sequence[Chunk] = ()
    trailers: tuple[tuple[str, str], ...] = ()
    failure: Failure | None = None
    closed_early: bool = False
    exact: bool = True
    round_trips: bool = True
    notes: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: _NO_ATTRIBUTES)


make_call = maker_of(Call)
"""`Call(...)`, for where each call passes: quicker, and quicker still with its arguments by position."""

make_outcome = maker_of(Outcome)
"""The same for `Outcome(...)`."""

make_request_head = maker_of(HttpRequestHead)
"""The same for `HttpRequestHead(...)`."""

make_response_head = maker_of(HttpResponseHead)
"""The same for `HttpResponseHead(...)`."""
