"""urllib3 2.x, and so everything that rides on it: requests, botocore, most cloud SDKs.

Hook: `HTTPConnectionPool._make_request` is patched at the class. urllib3 has no hook of its own, and this is the
one place that every attempt passes (`urlopen` above it hides retries and redirects inside one call). A live
response keeps its object and gets a subclass that sees the raw bytes before they are unpacked; a served one is a
subclass of the same class with no connection behind it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
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
)
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.transport_faults import Fault, TransportFault
from otel_agent_replay.boundary.transports.urllib3_responses import OfflineOriginal, ServedFile, served_class, tee_class
from otel_agent_replay.model import CoverageEntry

LIBRARIES = ("urllib3",)
_DEFERRED = "_agent_replay_deferred_proxy"
_PORTS = {"http": 80, "https": 443}


class _UploadFile:
    """A request body that is a file, seen while it is read."""

    def __init__(self, file: Any, tap: ResponseTap) -> None:
        self._file = file
        self._tap = tap

    def read(self, *size: int) -> Any:
        piece = self._file.read(*size)
        self._tap.uploaded(_as_bytes(piece))
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _UploadPieces:
    """A request body that is an iterable, seen on its way."""

    def __init__(self, pieces: Any, tap: ResponseTap) -> None:
        self._pieces = pieces
        self._tap = tap

    def __iter__(self) -> Iterator[Any]:
        for piece in self._pieces:
            self._tap.uploaded(_as_bytes(piece))
            yield piece


class _Library:
    """urllib3, and what was replaced in it."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.enabled = True
        self._hooks = Hooks()
        self.pool: Any = module.connectionpool.HTTPConnectionPool
        self.response: Any = module.response.HTTPResponse
        self.prepare_proxy: dict[Any, Any] = {}

    def patch(self) -> None:
        """Put our functions in front of the pool's own."""
        self._replace(self.pool, "_make_request", _front)
        for owner in (self.pool, self.module.connectionpool.HTTPSConnectionPool):
            if "_prepare_proxy" in owner.__dict__:
                self.prepare_proxy[owner] = owner.__dict__["_prepare_proxy"]
                self._replace(owner, "_prepare_proxy", _proxy_front)

    def _replace(self, owner: Any, name: str, front: Any) -> None:
        self._hooks.replace(owner, name, front(self, owner.__dict__[name]))

    def error(self, pool: Any, conn: Any, url: str, fault: TransportFault) -> BaseException:
        """Return the library's own error, as `urlopen` and a reader of the body meet it."""
        errors = self.module.exceptions
        made: BaseException
        way = Fault(fault.fault)
        if way is Fault.CONNECT_TIMEOUT:
            made = errors.ConnectTimeoutError(conn, f"Connection to {pool.host} timed out.")
        elif way is Fault.READ_TIMEOUT:
            made = errors.ReadTimeoutError(pool, url, "Read timed out.")
        elif way is Fault.REFUSED:
            made = errors.NewConnectionError(
                conn, "Failed to establish a new connection: [Errno 111] Connection refused"
            )
        elif way is Fault.RESET:
            made = ConnectionResetError(104, "Connection reset by peer")
        else:
            cut = self.module.exceptions.HTTPError("Response ended prematurely")
            made = errors.ProtocolError(f"Connection broken: {cut!r}", cut)
        return made

    def unpatch(self) -> None:
        """Put the originals back; where somebody wrapped us since, stay in place and do nothing."""
        self.enabled = False
        self._hooks.undo()


def _proxy_front(library: _Library, original: Any) -> Any:
    @functools.wraps(original)
    def prepare_proxy(self: Any, conn: Any) -> None:
        """Connect to a proxy only when it is known that the call goes live: connecting leaves the process."""
        here = here_for_http() if library.enabled else None
        if here is None or not answers_first(here[0]):
            original(self, conn)
        else:
            setattr(conn, _DEFERRED, original)

    return prepare_proxy


def _front(library: _Library, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make_request(self: Any, conn: Any, method: str, url: str, *args: Any, **more: Any) -> Any:
        here = here_for_http() if library.enabled else None
        if here is None:
            return original(self, conn, method, url, *args, **more)
        if args:
            bound = signature.bind(self, conn, method, url, *args, **more).arguments
            more = {name: value for name, value in bound.items() if name not in {"self", "conn", "method", "url"}}
        body = _known_body(more.get("body"))
        streamed = body is None
        if streamed and answers_first(here[0]):
            more["body"] = body = _drained(more["body"])
        exchange = begin_exchange(here, _sent, self, method, url, more, body, streamed)
        if isinstance(exchange, Served):
            return _serve(library, self, conn, method, url, more, exchange)
        deferred = conn.__dict__.pop(_DEFERRED, None)
        if deferred is not None:
            deferred(self, conn)
        if exchange is None:
            return original(self, conn, method, url, **more)
        if exchange.edited is not None:
            headers = library.module.response.HTTPHeaderDict(list(exchange.edited.headers))
            more = {**more, "body": exchange.edited.body, "headers": headers}
            url = _target(url, exchange.edited.url)
        if body is None:
            kind = _UploadFile if hasattr(more["body"], "read") else _UploadPieces
            more["body"] = kind(more["body"], exchange)
        return _call_through(library, original, self, conn, method, url, more, exchange)

    return make_request


def _target(url: str, edited: str) -> str:
    """Return what stands on the request line: the whole URL towards a proxy, else what follows the host."""
    return "/" + edited.partition("://")[2].partition("/")[2] if url.startswith("/") else edited


def _call_through(
    library: _Library,
    original: Any,
    pool: Any,
    conn: Any,
    method: str,
    url: str,
    more: dict[str, Any],
    tap: ResponseTap,
) -> Any:
    # The constructor would read the body before anybody could look: read it afterwards, in the same way.
    preload = more.get("preload_content", True)
    try:
        with tap.crossing.inside():
            response = original(pool, conn, method, url, **{**more, "preload_content": False})
    except BaseException as error:
        tap.fail(error)
        raise
    try:
        tap.head(response.status, response.reason or "", tuple(response.headers.items()), _version_text(response))
        if isinstance(response, library.response):
            cls: Any = type(response)
            response.__class__ = tee_class(cls)
            response._agent_replay_tap = tap
        else:  # HTTP/2, whose response has its body already
            tap.chunk(response.data)
            tap.end()
            return response
    except Exception as error:
        report(tap.crossing.session, "recording a response", error)
    if preload:
        _preload(response, decode_content=more.get("decode_content", True))
    return response


def _preload(response: Any, *, decode_content: bool) -> None:
    """Read the body as the constructor does: the response does not know its connection yet."""
    kept = response._pool, response._connection
    response._pool = response._connection = None
    try:
        response._body = response.read(decode_content=decode_content)
    finally:
        response._pool, response._connection = kept


def _serve(library: _Library, pool: Any, conn: Any, method: str, url: str, more: dict[str, Any], served: Served) -> Any:
    served.translate = functools.partial(library.error, pool, conn, url)
    served.connect_s, served.read_s = _patience(more.get("timeout"))
    try:
        served.open()
    except Exception as error:
        _at_home(error, pool, conn)
        raise
    head = served.head
    digits = head.http_version.rpartition("/")[2].replace(".", "")
    original = OfflineOriginal(head.headers, method)
    response = served_class(library.response)(
        body=ServedFile(original),
        headers=library.module.response.HTTPHeaderDict(list(head.headers)),
        status=head.status,
        version=int(digits) if digits.isdigit() else 0,
        version_string=head.http_version or "HTTP/?",
        reason=head.reason,
        preload_content=False,
        decode_content=more.get("decode_content", True),
        original_response=original,
        enforce_content_length=False,
        request_method=method,
        request_url=url,
    )
    response._agent_replay_served = served
    response.retries = more.get("retries")
    if more.get("preload_content", True):
        response._body = response.read(decode_content=more.get("decode_content", True))
    response._connection = more.get("response_conn")
    response._pool = pool
    if original.isclosed():
        response.release_conn()
    return response


def _patience(timeout: Any) -> tuple[float | None, float | None]:
    """Return how long the caller waits for a connection and for an answer; None: for ever, or as the system does."""
    if timeout is None:
        return None, None
    total = timeout.total
    found = [
        min([one for one in (limit, total) if isinstance(one, (int, float))], default=None)
        for limit in (timeout._connect, timeout._read)
    ]
    return found[0], found[1]


def _at_home(error: Exception, pool: Any, conn: Any) -> None:
    """Give a recorded error the live pool and connection objects that it had kept as text only."""
    if "pool" in error.__dict__:
        error.__dict__["pool"] = pool
    if "conn" in error.__dict__:
        error.__dict__["conn"] = conn


def _version_text(response: Any) -> str:
    text = getattr(response, "version_string", "")
    if text and text != "HTTP/?":
        return str(text)
    return {9: "HTTP/0.9", 10: "HTTP/1.0", 11: "HTTP/1.1", 20: "HTTP/2"}.get(response.version, "")


def _sent(pool: Any, method: str, url: str, more: dict[str, Any], body: bytes | None, streamed: bool) -> SentRequest:
    headers = more.get("headers")
    pairs = pool.headers.items() if headers is None else headers.items()
    notes = ("it was sent through a proxy",) if getattr(pool, "proxy", None) is not None else ()
    if "://" not in url:
        host = f"[{pool.host}]" if ":" in pool.host and not pool.host.startswith("[") else pool.host
        port = "" if pool.port is None or pool.port == _PORTS.get(pool.scheme) else f":{pool.port}"
        url = f"{pool.scheme}://{host}{port}{url}"
    texts = tuple((_as_text(name), _as_text(value)) for name, value in pairs)
    return SentRequest(method, url, texts, body, streamed, notes=notes)


def _known_body(body: Any) -> bytes | None:
    """Return the body that the caller holds in memory, or None when it is streamed."""
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return None


def _drained(body: Any) -> bytes:
    if hasattr(body, "read"):
        return _as_bytes(body.read())
    return b"".join(_as_bytes(piece) for piece in body)


def _as_bytes(piece: Any) -> bytes:
    return piece.encode() if isinstance(piece, str) else bytes(piece)


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


_patched: dict[str, _Library] = {}


def patch(module: ModuleType) -> CoverageEntry:
    """Stand in front of `module` (urllib3); the same again changes nothing."""
    version = str(getattr(module, "__version__", "?"))
    pool = module.connectionpool.HTTPConnectionPool
    if "response_conn" not in inspect.signature(pool._make_request).parameters:
        return CoverageEntry("urllib3", "not_captured", f"urllib3 {version} is not urllib3 2.x")
    if "urllib3" not in _patched:
        library = _patched["urllib3"] = _Library(module)
        library.patch()
    return CoverageEntry("urllib3", "captured", f"urllib3 {version} with requests and botocore, each attempt")


def unpatch(module: ModuleType) -> None:
    """Undo `patch`."""
    library = _patched.pop(module.__name__, None)
    if library is not None:
        library.unpatch()
