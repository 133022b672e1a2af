"""aiohttp's client, 3.12 and later.

Hook: a client middleware, the library's own hook around each attempt, but added inside `ClientSession._request`,
which is patched at the class: sessions are made by SDKs and before us, and a middleware of a session would not
stand innermost. Older versions have no middlewares and are reported as not captured. WebSockets pass untouched.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.hooks import Hooks
from otel_agent_replay.boundary.http_exchange import (
    Here,
    ResponseTap,
    SentRequest,
    Served,
    answers_first,
    begin_exchange,
    here_for_http,
)
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.transport_faults import Fault, TransportFault
from otel_agent_replay.boundary.transports.aiohttp_streams import CODINGS, NoProtocol, Played, Tee
from otel_agent_replay.model import CoverageEntry

LIBRARIES = ("aiohttp",)
_NO_PROTOCOL = NoProtocol()


class _NoWriter:
    """Stands where a live response has the writer of its request."""

    output_size = 0


class _Collector:
    """A writer that keeps what a request body writes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, piece: Any, *_more: Any) -> None:
        """Keep `piece`."""
        self.pieces.append(bytes(piece))

    async def drain(self) -> None:
        """There is nothing to wait for."""


class _Library:
    """aiohttp, and what was replaced in it."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.enabled = True
        self._hooks = Hooks()
        self.tee: Any = type("StreamReader", (Tee, module.StreamReader), {})
        self.played: Any = type("StreamReader", (Played, module.StreamReader), {})
        self.unpacker: Any = module.http_parser.DeflateBuffer
        self.empty: Any = module.streams.EMPTY_PAYLOAD

    def patch(self) -> None:
        """Put our function in front of the session's own."""
        session = self.module.ClientSession
        self._hooks.replace(session, "_request", _front(self, session._request))

    def unpatch(self) -> None:
        """Put the original back; where somebody wrapped us since, stay in place and do nothing."""
        self.enabled = False
        self._hooks.undo()

    def error(self, request: Any, fault: TransportFault) -> BaseException:
        """Return the library's own error."""
        module, way = self.module, Fault(fault.fault)
        made: BaseException
        if way is Fault.CONNECT_TIMEOUT:
            made = module.ConnectionTimeoutError(f"Connection timeout to host {request.url}")
        elif way is Fault.READ_TIMEOUT:
            made = module.SocketTimeoutError("Timeout on reading data from socket")
        elif way is Fault.REFUSED:
            refused = ConnectionRefusedError(111, f"Connect call failed ({request.url.host!r}, {request.url.port})")
            made = module.ClientConnectorError(request.connection_key, refused)
        elif way is Fault.RESET:
            made = module.ClientOSError(104, "Connection reset by peer")
        else:
            made = module.ClientPayloadError("Response payload is not completed: <TransferEncodingError: 400>")
        return made

    def reader(self, cls: Any, loop: Any, headers: Any, *, unpack: bool) -> Any:
        """Return a body reader of ours for a response with `headers`; `unpack` its content coding."""
        reader = cls(_NO_PROTOCOL, 2**16, loop=loop)
        reader.agent_replay_payload_error = self.module.ClientPayloadError
        coding = headers.get("Content-Encoding", "").lower()
        if unpack and coding in CODINGS:
            reader.agent_replay_decoder = self.unpacker(reader, coding)
        if "chunked" in headers.get("Transfer-Encoding", "").lower():
            reader.agent_replay_chunked = True
            reader.begin_http_chunk_receiving()
        return reader


def _front(library: _Library, original: Any) -> Any:
    @functools.wraps(original)
    async def request(self: Any, method: str, str_or_url: Any, **more: Any) -> Any:
        here = here_for_http() if library.enabled else None
        if here is None or _is_upgrade(more.get("headers")):
            return await original(self, method, str_or_url, **more)
        unpack = more.get("auto_decompress")
        if unpack is None:
            unpack = self._auto_decompress
        outer = more.get("middlewares")
        stand = functools.partial(_stand, library, here, unpack)
        more["auto_decompress"] = False
        more["middlewares"] = (*(self._middlewares if outer is None else outer), stand)
        return await original(self, method, str_or_url, **more)

    return request


def _is_upgrade(headers: Any) -> bool:
    if not headers:
        return False
    pairs = headers.items() if hasattr(headers, "items") else headers
    return any(str(name).lower() == "upgrade" for name, _ in pairs)


async def _stand(library: _Library, here: Here, unpack: bool, request: Any, handler: Any) -> Any:
    body = _known_body(library, request)
    streamed = body is None
    if streamed and answers_first(here[0]):
        collector = _Collector()
        await request._body.write(collector)
        body = b"".join(collector.pieces)
        request._body = library.module.payload.BytesPayload(body)
    exchange = begin_exchange(here, _sent, request, body, streamed)
    if isinstance(exchange, Served):
        return await _serve(library, request, exchange, unpack=unpack)
    if exchange is None:
        response = await handler(request)
        if unpack and response.content is not library.empty:
            _set_content(library, response, None, unpack=True)
        return response
    if exchange.edited is not None:
        _put_in(library, request, exchange.edited)
    if body is None:
        request.write_bytes = functools.partial(_write_and_tell, exchange, request.write_bytes)
    return await _call_through(library, request, handler, exchange, unpack=unpack)


async def _call_through(library: _Library, request: Any, handler: Any, tap: ResponseTap, *, unpack: bool) -> Any:
    try:
        with tap.crossing.inside():
            response = await handler(request)
    except asyncio.CancelledError as error:
        # The library's own total timeout cancels the task and is turned into a TimeoutError further out.
        tap.fail(asyncio.TimeoutError() if getattr(request._timer, "_cancelled", False) else error)
        raise
    except BaseException as error:
        tap.fail(error)
        raise
    try:
        version = "" if response.version is None else f"HTTP/{response.version.major}.{response.version.minor}"
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
        tap.head(response.status, response.reason or "", headers, version)
        if response.content is library.empty:
            tap.end()
            return response
    except Exception as error:
        report(tap.crossing.session, "recording a response", error)
    _set_content(library, response, tap, unpack=unpack)
    return response


def _put_in(library: _Library, request: Any, edited: SentRequest) -> None:
    """Put an edited body into the request, with the headers and the address that fit it."""
    if str(request.url) != edited.url:
        request.url = type(request.url)(edited.url)
    request._body = library.module.payload.BytesPayload(edited.body)
    fitting = {name.lower(): value for name, value in edited.headers}
    for name in set(request.headers):
        if name.lower() not in fitting:
            del request.headers[name]
    if "Content-Length" in request.headers:
        request.headers["Content-Length"] = fitting["content-length"]
    for name, value in edited.headers:
        if name not in request.headers or [value] != request.headers.getall(name) == [request.headers[name]]:
            request.headers[name] = value


def _set_content(library: _Library, response: Any, tap: ResponseTap | None, *, unpack: bool) -> None:
    reader = library.reader(library.tee, response._loop, response.headers, unpack=unpack)
    reader.agent_replay_source = response.content
    reader.agent_replay_tap = tap
    response.content = reader


async def _serve(library: _Library, request: Any, served: Served, *, unpack: bool) -> Any:
    served.translate = functools.partial(library.error, request)
    try:
        await served.open_async()
    except Exception as error:
        _at_home(error, request)
        raise
    head = served.head
    response = _bare_response(request)
    module = library.module
    digits = head.http_version.rpartition("/")[2].split(".")
    if digits[0].isdigit():
        response.version = module.HttpVersion(int(digits[0]), int(digits[-1]) if len(digits) > 1 else 0)
    response.status = head.status
    response.reason = head.reason
    raw = tuple((name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in head.headers)
    headers = [(name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    multidict = type(request.headers)(headers)
    response._raw_headers = raw
    response._headers = type(request.request_info.headers)(multidict)
    response._raw_cookie_headers = tuple(multidict.getall("Set-Cookie", ()))
    response._closed = False
    if served.ends_here:
        await served.end_async()
        response.content = library.empty
    else:
        reader = library.reader(library.played, request.loop, multidict, unpack=unpack)
        reader.agent_replay_served = served
        response.content = reader
    response.content.on_eof(response._response_eof)
    return response


def _bare_response(request: Any) -> Any:
    """Make the request's response object; what its constructor takes differs between versions."""
    cls = request.response_class
    given = {
        "writer": None,
        "continue100": None,
        "timer": request._timer,
        "request_info": request.request_info,
        "traces": request._traces,
        "loop": request.loop,
        "session": request._session,
        "stream_writer": _NoWriter(),
    }
    taken = inspect.signature(cls.__init__).parameters
    return cls(request.method, request.original_url, **{name: value for name, value in given.items() if name in taken})


def _at_home(error: Exception, request: Any) -> None:
    """Give a recorded error the live objects that it had kept as text only."""
    if "_conn_key" in error.__dict__:
        error.__dict__["_conn_key"] = request.connection_key
    if "request_info" in error.__dict__:
        error.__dict__["request_info"] = request.request_info


async def _write_and_tell(
    tap: ResponseTap, original: Any, writer: Any, conn: Any, content_length: int | None = None
) -> None:
    inner = writer.write

    async def write(piece: Any, *args: Any, **more: Any) -> None:
        tap.uploaded(bytes(piece))
        await inner(piece, *args, **more)

    writer.write = write
    await original(writer, conn, content_length)


def _known_body(library: _Library, request: Any) -> bytes | None:
    """Return the body that the request holds in memory, or None when it is streamed."""
    body = request._body
    if not body:
        return b""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    return bytes(body._value) if isinstance(body, library.module.payload.BytesPayload) else None


def _sent(request: Any, body: bytes | None, streamed: bool) -> SentRequest:
    notes = ("it was sent through a proxy",) if request.proxy is not None else ()
    headers = tuple((str(name), str(value)) for name, value in request.headers.items())
    packed = not request.compress
    movable = request.proxy is None
    return SentRequest(
        request.method, str(request.url), headers, body, streamed, packed=packed, notes=notes, movable=movable
    )


_patched: dict[str, _Library] = {}


def patch(module: ModuleType) -> CoverageEntry:
    """Stand in front of `module` (aiohttp); the same again changes nothing."""
    version = str(getattr(module, "__version__", "?"))
    if "middlewares" not in inspect.signature(module.ClientSession._request).parameters:
        if "aiohttp" not in _patched:
            return CoverageEntry("aiohttp", "not_captured", f"aiohttp {version} has no client middlewares (3.12 has)")
    elif "aiohttp" not in _patched:
        library = _patched["aiohttp"] = _Library(module)
        library.patch()
    return CoverageEntry("aiohttp", "captured", f"aiohttp {version}, each attempt; not its WebSockets")


def unpatch(module: ModuleType) -> None:
    """Undo `patch`."""
    library = _patched.pop(module.__name__, None)
    if library is not None:
        library.unpatch()
