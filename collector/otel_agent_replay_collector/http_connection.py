"""One HTTP/1.1 connection, as bare as it can be: bodies are read from the socket straight into a request's buffer.

Owns the states of a connection. Nothing here waits, and nothing here takes long: what does is done by the `front`'s
threads, and everybody else's requests go on meanwhile.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import time
from typing import TYPE_CHECKING, Any

from otel_agent_replay_collector.http_answers import CONTINUE, answer, refusal
from otel_agent_replay_collector.http_head import MOST_HEAD, Chunks, Head, read_head
from otel_agent_replay_collector.refusal import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    UNIMPLEMENTED,
    Refused,
    too_large,
    unauthenticated,
)
from otel_agent_replay_collector.request_file import LOGS, TRACES

if TYPE_CHECKING:
    from otel_agent_replay_collector.buffers import Buffer
    from otel_agent_replay_collector.http_front import HttpFront

KINDS = {b"/v1/traces": TRACES, b"/v1/logs": LOGS}
PROTOBUF, JSON = b"application/x-protobuf", b"application/json"

_SCRATCH = 64 << 10
_MOST_DRAINED = 8 << 20  # bytes of a refused body that are read and thrown away, so that the connection can go on
_AT_ONCE = 8 << 20  # a larger request is decoded by another thread
_LEAST_WAKING, _MOST_WAKING = 64 << 10, 256 << 10


class State(enum.Enum):
    """What a connection is at."""

    HEAD = "head"  # waits for a request, or reads its head
    BODY = "body"  # reads a body of known length
    CHUNKS = "chunks"  # reads a body in chunks
    ANSWERING = "answering"  # the request is being looked at or written to disk
    DRAIN = "drain"  # answered already: what still comes of the request is thrown away
    CLOSED = "closed"


class HttpConnection(asyncio.BufferedProtocol):
    """A sender's connection."""

    def __init__(self, front: HttpFront) -> None:
        self._front = front
        self._transport: Any = None
        self._socket: socket.socket | None = None
        self._head = memoryview(bytearray(MOST_HEAD))
        self._filled = 0  # bytes of `_head`
        self._scratch: memoryview | None = None
        self._buffer: Buffer | None = None
        self._body = memoryview(b"")
        self._got = 0
        self._waking = 1
        self._chunks: Chunks | None = None
        self._left = 0  # bytes to drain
        self._request: Head | None = None
        self._paused = False
        self._closing = False
        self.state = State.HEAD
        self.since = time.monotonic()  # when the state began, or the request that it belongs to

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:
            self._socket = transport.get_extra_info("socket")
        self._front.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """End: what was not read whole is gone, what was is kept."""
        was, self.state = self.state, State.CLOSED
        if was is not State.ANSWERING:
            self._give_back()
        self._front.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Say where the next bytes go."""
        if self.state is State.BODY:
            return self._body[self._got :]
        if self.state in (State.CHUNKS, State.DRAIN):
            if self._scratch is None:
                self._scratch = memoryview(bytearray(_SCRATCH))
            return self._scratch
        return self._head[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take `nbytes` that came."""
        if self.state is State.BODY:
            self._got += nbytes
            if self._got == len(self._body):
                self._complete()
            else:
                self._wake_at(len(self._body) - self._got)
        elif self.state is State.CHUNKS:
            assert self._scratch is not None  # noqa: S101 - get_buffer made it
            self._feed(self._scratch[:nbytes])
        elif self.state is State.DRAIN:
            self._drained(nbytes)
        else:
            if self._filled == 0 and self.state is State.HEAD:
                self.since = time.monotonic()
            self._filled += nbytes
            if self.state is State.HEAD:
                self._read_head()
            elif self._filled == len(self._head):  # a second request, while the first is being answered
                self._paused = True
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Close when the sender has said all; an answer that is due still goes out."""
        self._closing = True
        return self.state is State.ANSWERING

    # --- reading ---

    def _wake_at(self, left: int) -> None:
        """Have the kernel wake us for a good part of a body, not for each of its packets."""
        waking = min(left, _MOST_WAKING) if left >= _LEAST_WAKING else 1
        if waking != self._waking and self._socket is not None and hasattr(socket, "SO_RCVLOWAT"):
            self._waking = waking
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, waking)
            except OSError:
                self._socket = None  # not here, then

    def _read_head(self) -> None:
        data = bytes(self._head[: self._filled])
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if self._filled == len(self._head):
                self._refuse(Refused(INVALID_ARGUMENT, 431, f"a head may have {MOST_HEAD} bytes", reason="http"))
            return
        rest = data[end + 4 :]
        self._filled = 0
        try:
            self._request = request = read_head(data[:end])
        except Refused as why:
            self._refuse(why)
            return
        self._closing = self._closing or not request.keep_alive
        if request.method != b"POST":
            self._keep_for_later(rest)
            self._answer_plain(request)
            return
        try:
            self._begin_body(request, rest)
        except Refused as why:
            self._refuse(why, came=len(rest))

    def _begin_body(self, request: Head, rest: bytes) -> None:
        kind = KINDS.get(request.path)
        if kind is None:
            raise Refused(NOT_FOUND, 404, "only /v1/traces and /v1/logs are received here", reason="path")
        if not self._front.tokens.allow(request.authorization):
            raise unauthenticated()
        if request.content_type not in (PROTOBUF, JSON):
            raise Refused(UNIMPLEMENTED, 415, "content-type must be application/x-protobuf or /json", reason="type")
        if request.encoding not in (b"", b"identity", b"gzip"):
            raise Refused(UNIMPLEMENTED, 415, "content-encoding must be gzip or none", reason="type")
        refusal = self._front.intake.not_now()
        if refusal is not None:
            raise refusal
        if request.length is None:
            self._chunks = Chunks(self._front.intake.most)
            self.state = State.CHUNKS
        else:
            self._buffer = self._front.intake.room_for(request.length)
            self._body = self._buffer.body(request.length)
            self._got = 0
            self.state = State.BODY
        if request.wants_continue and not rest:
            self._transport.write(CONTINUE)
        if self.state is State.CHUNKS:
            self._feed(rest)
            return
        now, later = rest[: len(self._body)], rest[len(self._body) :]
        self._body[: len(now)] = now
        self._got = len(now)
        self._keep_for_later(later)
        if self._got == len(self._body):
            self._complete()
        else:
            self._wake_at(len(self._body) - self._got)

    def _feed(self, data: bytes | memoryview) -> None:
        chunks = self._chunks
        assert chunks is not None  # noqa: S101 - the state says so
        try:
            if not chunks.feed(data):
                raise too_large("more than the allowed", self._front.intake.most)
            if not chunks.done:
                return
            self._buffer = self._front.intake.room_for(len(chunks.body))
        except Refused as why:
            self._chunks = None
            self._refuse(why)
            return
        self._body = self._buffer.body(len(chunks.body))
        self._body[:] = chunks.body
        self._chunks = None
        self._keep_for_later(chunks.rest)
        self._complete()

    def _keep_for_later(self, rest: bytes) -> None:
        self._head[: len(rest)] = rest
        self._filled = len(rest)

    # --- a whole request ---

    def _complete(self) -> None:
        self._wake_at(0)
        self.state = State.ANSWERING
        request, buffer, length = self._request, self._buffer, len(self._body)
        assert request is not None  # noqa: S101 - the state says so
        assert buffer is not None  # noqa: S101
        self._buffer, self._body = None, memoryview(b"")
        front, kind = self._front, KINDS[request.path]
        front.came(length, kind)
        is_json, gzipped = request.content_type == JSON, request.encoding == b"gzip"
        if not is_json and not gzipped and length <= _AT_ONCE:
            accepted = front.intake.quick(buffer, length, kind, front, self)
            if accepted is not None:
                front.intake.submit(accepted)
                return
        front.think(self, buffer, length, kind, is_json=is_json, gzipped=gzipped)

    def acknowledge(self, body: bytes) -> None:
        """Answer that the request is on disk."""
        request = self._request
        if self.state is State.CLOSED or request is None:
            return
        self._transport.write(answer(200, body, request.content_type, closing=self._closing))
        self._next()

    def refuse(self, why: Refused) -> None:
        """Answer that a whole request is not taken."""
        if self.state is State.CLOSED:
            return
        self._transport.write(refusal(why, as_json=self._as_json(), closing=self._closing))
        self._next()

    def _as_json(self) -> bool:
        return self._request is not None and self._request.content_type == JSON

    def _refuse(self, why: Refused, came: int = 0) -> None:
        """Answer before the request was read whole; `came` bytes of its body did, and are not in the way."""
        self._front.intake.refused(why)
        self._give_back()
        request = self._request
        length = request.length if request is not None and why.reason != "http" else None
        self._left = -1 if length is None else length - came
        if self._left < 0 or self._left > _MOST_DRAINED:
            self._closing = True
        self._transport.write(refusal(why, as_json=self._as_json(), closing=self._closing))
        if self._left == 0:
            self._next()
            return
        # Closing at once would reset the connection under the answer.
        self.state, self.since = State.DRAIN, time.monotonic()
        if self._closing and self._transport.can_write_eof():
            self._transport.write_eof()

    def _drained(self, count: int) -> None:
        if self._left > 0:
            self._left = max(0, self._left - count)
            if self._left == 0:
                self._next()

    def _answer_plain(self, request: Head) -> None:
        """Answer what is no POST: health, readiness, our metrics."""
        status, body, content_type = self._front.page(request)
        self._transport.write(
            answer(status, b"" if request.method == b"HEAD" else body, content_type, closing=self._closing)
        )
        if request.length != 0:  # a body that nobody wants
            self._closing = True
        self._next()

    def _next(self) -> None:
        self._request = None
        if self._closing:
            self._transport.close()
            return
        self.state, self.since = State.HEAD, time.monotonic()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._filled:
            self._front.loop.call_soon(self._again)

    def _again(self) -> None:
        if self.state is State.HEAD and self._filled:
            self._read_head()

    def _give_back(self) -> None:
        if self._buffer is not None:
            self._body = memoryview(b"")
            self._buffer.release()
            self._buffer = None

    # --- time ---

    def overdue(self, now: float, request_s: float, idle_s: float) -> None:
        """Close a connection that takes too long over a request, or has none for too long."""
        age = now - self.since
        if self.state is State.HEAD and not self._filled:
            if age > idle_s:
                self._transport.close()
        elif self.state is State.DRAIN:
            if age > min(request_s, 5.0):
                self._transport.abort()
        elif self.state is not State.ANSWERING and age > request_s:
            message = f"the request did not arrive within {request_s:g} s"
            self._closing = True
            self._front.intake.refused(late := Refused(INVALID_ARGUMENT, 408, message, reason="slow"))
            self._give_back()
            self._transport.write(refusal(late, as_json=self._as_json(), closing=True))
            self._transport.close()

    def finish(self) -> None:
        """Close as soon as nothing is owed to the sender."""
        self._closing = True
        if self.state is State.HEAD and not self._filled:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
