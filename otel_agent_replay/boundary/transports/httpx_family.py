"""httpx and httpx2 (one API, two packages), sync and async, at the transport.

Hook: `handle_request` and `handle_async_request` of the built-in transport classes are patched at the class,
because a supported transport argument reaches only clients that the application builds with it: the SDKs build
their own, and clients made before us must be covered too. A custom transport that wraps a built-in one is seen
through the one it wraps, attempt by attempt.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.hooks import Hooks
from otel_agent_replay.boundary.http_exchange import (
    ResponseTap,
    SentRequest,
    Served,
    answers_first,
    begin_exchange,
    here_for_http,
    make_sent,
)
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.transport_faults import Fault, TransportFault
from otel_agent_replay.model import CoverageEntry

LIBRARIES = ("httpx", "httpx2")
_ERRORS = {
    Fault.CONNECT_TIMEOUT: ("ConnectTimeout", "timed out"),
    Fault.READ_TIMEOUT: ("ReadTimeout", "The read operation timed out"),
    Fault.REFUSED: ("ConnectError", "[Errno 111] Connection refused"),
    Fault.RESET: ("ReadError", "[Errno 104] Connection reset by peer"),
    Fault.CUT: (
        "RemoteProtocolError",
        "peer closed connection without sending complete message body (incomplete chunked read)",
    ),
}
_SYNC = ("HTTPTransport", "MockTransport", "WSGITransport")
_ASYNC = ("AsyncHTTPTransport", "MockTransport", "ASGITransport")


class _TeeStream:
    """A response stream that tells a tap what passes; mixed into the library's stream type."""

    def __init__(self, stream: Any, tap: ResponseTap) -> None:
        self._stream = stream
        self._tap = tap

    def __iter__(self) -> Iterator[bytes]:
        tap = self._tap
        try:
            for piece in self._stream:
                tap.chunk(piece)
                yield piece
        except GeneratorExit:
            raise  # whether the response is done with is told by `close`
        except BaseException as error:
            tap.fail(error)
            raise
        tap.end()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._tap.close()


class _AsyncTeeStream:
    """The same for asynchronous readers."""

    def __init__(self, stream: Any, tap: ResponseTap) -> None:
        self._stream = stream
        self._tap = tap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tap = self._tap
        try:
            async for piece in self._stream:
                tap.chunk(piece)
                yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            tap.fail(error)
            raise
        tap.end()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._tap.close()


class _UploadStream:
    """A request body that is streamed, seen on its way."""

    def __init__(self, stream: Any, tap: ResponseTap) -> None:
        self._stream = stream
        self._tap = tap

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._tap.uploaded(piece)
            yield piece

    def close(self) -> None:
        self._stream.close()


class _AsyncUploadStream:
    """The same for asynchronous bodies."""

    def __init__(self, stream: Any, tap: ResponseTap) -> None:
        self._stream = stream
        self._tap = tap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._tap.uploaded(piece)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _ServedStream:
    """A recorded body."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._served.take()) is not None:
            yield piece
        self._served.end()

    def close(self) -> None:
        self._served.leave()


class _AsyncServedStream:
    """The same for asynchronous readers."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := self._served.take()) is not None:
            yield piece
        await self._served.end_async()

    async def aclose(self) -> None:
        await self._served.leave_async()


class _NoNetworkStream:
    """Stands where a live response has its socket; it knows nothing of a connection."""

    def get_extra_info(self, info: str) -> None:
        """Return None: there is no connection."""


class _Library:
    """One of the two packages: its classes, and ours made for it."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.enabled = True
        self._hooks = Hooks()
        sync, both = self.module.SyncByteStream, self.module.AsyncByteStream
        self.tee: Any = type("TeeStream", (_TeeStream, sync), {})
        self.async_tee: Any = type("AsyncTeeStream", (_AsyncTeeStream, both), {})
        self.upload: Any = type("UploadStream", (_UploadStream, sync), {})
        self.async_upload: Any = type("AsyncUploadStream", (_AsyncUploadStream, both), {})
        self.served: Any = type("ServedStream", (_ServedStream, sync), {})
        self.async_served: Any = type("AsyncServedStream", (_AsyncServedStream, both), {})

    def patch(self) -> None:
        """Put our functions in front of the transports' own."""
        for name in _SYNC:
            self._replace(name, "handle_request", _sync_front)
        for name in _ASYNC:
            self._replace(name, "handle_async_request", _async_front)

    def _replace(self, class_name: str, method: str, front: Any) -> None:
        owner = getattr(self.module, class_name, None)
        original = None if owner is None else owner.__dict__.get(method)
        if original is None:
            return
        self._hooks.replace(owner, method, front(self, original))

    def unpatch(self) -> None:
        """Put the originals back; where somebody wrapped us since, stay in place and do nothing."""
        self.enabled = False
        self._hooks.undo()

    def error(self, fault: TransportFault) -> BaseException:
        """Return the library's own error."""
        name, text = _ERRORS[Fault(fault.fault)]
        error: BaseException = getattr(self.module, name)(text)
        return error

    def response(self, served: Served, stream: Any) -> Any:
        """Build the library's response from a recording."""
        head = served.head
        extensions: dict[str, Any] = {"network_stream": _NoNetworkStream()}
        if head.http_version:
            extensions["http_version"] = head.http_version.encode("ascii", "replace")
        if head.reason or head.http_version.startswith("HTTP/1"):
            extensions["reason_phrase"] = head.reason.encode("latin-1", "replace")
        headers = [*map(_raw_of, head.headers)]
        return self.module.Response(head.status, headers=headers, stream=stream, extensions=extensions)


def _sync_front(library: _Library, original: Any) -> Any:
    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        here = here_for_http() if library.enabled else None
        if here is None:
            return original(self, request)
        body = _known_body(library, request)
        streamed = body is None
        drained = streamed and answers_first(here[0])
        if drained:
            body = b"".join(request.stream)
        exchange = begin_exchange(here, _sent, self, request, body, streamed)
        if drained:
            request.stream = library.module.ByteStream(body)
        if exchange is None:
            return original(self, request)
        if isinstance(exchange, Served):
            _tell_client(library, request, exchange)
            exchange.open()
            return library.response(exchange, library.served(exchange))
        request = _to_send(library, request, exchange)
        return _call_through(library, original, self, request, exchange, streamed=body is None)

    return handle_request


def _async_front(library: _Library, original: Any) -> Any:
    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        here = here_for_http() if library.enabled else None
        if here is None:
            return await original(self, request)
        body = _known_body(library, request)
        streamed = body is None
        drained = streamed and answers_first(here[0])
        if drained:
            body = b"".join([piece async for piece in request.stream])
        exchange = begin_exchange(here, _sent, self, request, body, streamed)
        if drained:
            request.stream = library.module.ByteStream(body)
        if exchange is None:
            return await original(self, request)
        if isinstance(exchange, Served):
            _tell_client(library, request, exchange)
            await exchange.open_async()
            return library.response(exchange, library.async_served(exchange))
        request = _to_send(library, request, exchange)
        return await _call_through_async(library, original, self, request, exchange, streamed=body is None)

    return handle_async_request


def _tell_client(library: _Library, request: Any, served: Served) -> None:
    """Say how this client fails, and how long it waits."""
    served.translate = library.error
    patience = request.extensions.get("timeout") or {}
    served.connect_s, served.read_s = patience.get("connect"), patience.get("read")


def _call_through(
    library: _Library, original: Any, transport: Any, request: Any, tap: ResponseTap, *, streamed: bool
) -> Any:
    stream = request.stream
    if streamed:
        request.stream = library.upload(stream, tap)
    try:
        with tap.crossing.inside():
            response = original(transport, request)
    except BaseException as error:
        tap.fail(error)
        raise
    finally:
        if streamed and isinstance(request.stream, _UploadStream):
            request.stream = stream
    try:
        _tell_head(tap, response)
        if hasattr(response, "_content"):  # made whole in process, nobody will iterate its stream
            tap.chunk(b"".join(response.stream))
            tap.end()
        else:
            response.stream = library.tee(response.stream, tap)
    except Exception as error:
        report(tap.crossing.session, "recording a response", error)
    return response


async def _call_through_async(
    library: _Library, original: Any, transport: Any, request: Any, tap: ResponseTap, *, streamed: bool
) -> Any:
    stream = request.stream
    if streamed:
        request.stream = library.async_upload(stream, tap)
    try:
        with tap.crossing.inside():
            response = await original(transport, request)
    except BaseException as error:
        tap.fail(error)
        raise
    finally:
        if streamed and isinstance(request.stream, _AsyncUploadStream):
            request.stream = stream
    try:
        _tell_head(tap, response)
        if hasattr(response, "_content"):
            tap.chunk(b"".join(response.stream))
            tap.end()
        else:
            response.stream = library.async_tee(response.stream, tap)
    except Exception as error:
        report(tap.crossing.session, "recording a response", error)
    return response


def _tell_head(tap: ResponseTap, response: Any) -> None:
    extensions = response.extensions
    tap.head(
        response.status_code,
        extensions.get("reason_phrase", b"").decode("latin-1"),
        _text(response.headers.raw),
        extensions.get("http_version", b"").decode("ascii", "replace"),
    )


class _Texts(dict[tuple[bytes, bytes], tuple[str, str]]):
    """Headers as text. Most come again with every call: the same objects then, quick to be looked up."""

    def __missing__(self, item: tuple[bytes, bytes]) -> tuple[str, str]:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        text = self[item] = (item[0].decode("latin-1"), item[1].decode("latin-1"))
        return text


class _Raws(dict[tuple[str, str], tuple[bytes, bytes]]):
    """The other way: recorded headers as a live response would have them."""

    def __missing__(self, item: tuple[str, str]) -> tuple[bytes, bytes]:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        raw = self[item] = (item[0].encode("latin-1"), item[1].encode("latin-1", "replace"))
        return raw


_MOST_TEXTS = 2_048
_text_of, _raw_of = _Texts().__getitem__, _Raws().__getitem__  # look-ups in C


def _text(raw: Any) -> tuple[tuple[str, str], ...]:
    return tuple(map(_text_of, raw))


def _to_send(library: _Library, request: Any, tap: ResponseTap) -> Any:
    """Return the client's request, or the edited one; the client keeps its own as it was."""
    edited = tap.edited
    if edited is None:
        return request
    return library.module.Request(
        request.method,
        request.url if str(request.url) == edited.url else edited.url,
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in edited.headers],
        stream=library.module.ByteStream(edited.body),
        extensions=request.extensions,
    )


def _known_body(library: _Library, request: Any) -> bytes | None:
    """Return the body that the request holds in memory, or None when it is streamed."""
    content: bytes | None = getattr(request, "_content", None)
    if content is None and isinstance(request.stream, library.module.ByteStream):
        content = b"".join(request.stream)
    return content


def _sent(transport: Any, request: Any, body: bytes | None, streamed: bool) -> SentRequest:
    proxied = "Proxy" in type(getattr(transport, "_pool", None)).__name__
    notes = ("it was sent through a proxy",) if proxied else ()
    return make_sent(
        request.method, str(request.url), _text(request.headers.raw), body, streamed, True, notes, not proxied
    )


_patched: dict[str, _Library] = {}


def patch(module: ModuleType) -> CoverageEntry:
    """Stand in front of the transports of `module` (httpx or httpx2); the same again changes nothing."""
    name = module.__name__
    if name not in _patched:
        library = _patched[name] = _Library(module)
        library.patch()
    version = getattr(module, "__version__", "")
    return CoverageEntry(name, "captured", f"{name} {version}, at the transport".replace("  ", " "))


def unpatch(module: ModuleType) -> None:
    """Undo `patch`."""
    library = _patched.pop(module.__name__, None)
    if library is not None:
        library.unpatch()
