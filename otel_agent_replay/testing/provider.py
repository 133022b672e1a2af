"""A scripted HTTP server on 127.0.0.1 that plays a model provider, for tests and demos.

It serves given bytes, cut where you say, held until you say, packed, cut off, endless, refused or reset, and
remembers what it was asked. Standard library only; one thread a connection; it never talks to anything else.

    with ScriptedProvider([Reply(b'{"ok": true}')]) as provider:
        urllib.request.urlopen(provider.url + "/v1/anything").read()
    assert provider.seen[0].path == "/v1/anything"
"""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

JSON_HEADERS = (("content-type", "application/json"),)
EVENT_HEADERS = (("content-type", "text/event-stream; charset=utf-8"),)


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    `cuts` are byte offsets into the body where it is cut; each piece is sent by itself (one transfer chunk when
    `framing` is chunked). `framing` is length, chunked or close (no length: the end of the connection ends the
    body). `hold` maps a piece's number to an event that is waited for before the piece is sent; -1 holds the
    head. `ending` is:

    - whole: the body, in order;
    - cut: the connection closes after the pieces, although more was promised;
    - reset: the same with a TCP reset;
    - silent: nothing more comes, the connection stays open until the server closes;
    - endless: the last piece is sent again and again until the client leaves.
    - no_answer, reset_at_once, silent_at_once: the same without any head.
    """

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = JSON_HEADERS
    reason: str = ""
    cuts: Sequence[int] = ()
    framing: str = "length"
    coding: str = ""
    ending: str = "whole"
    hold: Mapping[int, threading.Event] = field(default_factory=dict)
    trailers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_json(cls, value: Any, status: int = 200, **more: Any) -> Reply:
        """Return a reply whose body is `value` as JSON."""
        return cls(json.dumps(value).encode(), status, **more)

    @classmethod
    def of_events(cls, body: bytes, **more: Any) -> Reply:
        """Return a reply whose body is an event stream, one piece an event unless `cuts` are given."""
        if "cuts" not in more:
            more["cuts"] = [at + 2 for at in range(len(body) - 2) if body[at : at + 2] == b"\n\n"]
        return cls(body, headers=EVENT_HEADERS, framing="chunked", **more)

    @property
    def wire_body(self) -> bytes:
        """The bytes of the body as they cross the wire."""
        return gzip.compress(self.body, mtime=0) if self.coding == "gzip" else self.body

    @property
    def pieces(self) -> list[bytes]:
        """The wire body, cut."""
        body = self.wire_body
        places = [0, *sorted({at for at in self.cuts if 0 < at < len(body)}), len(body)]
        return [body[start:end] for start, end in itertools.pairwise(places) if end > start]


@dataclass(frozen=True)
class SeenRequest:
    """A request that the server received."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, wanted: str) -> str:
        """Return the first value of a header, or ""."""
        return next((value for name, value in self.headers if name.lower() == wanted.lower()), "")

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Script = Callable[[SeenRequest], Reply]


class ScriptedProvider:
    """The server. `script` is replies in order (the last serves all later requests), or a function of the request."""

    def __init__(self, script: Iterable[Reply] | Script) -> None:
        self.seen: list[SeenRequest] = []
        self._script = script if callable(script) else _in_order(list(script))
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.provider = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> ScriptedProvider:
        """Serve until `stop`."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close every connection and the port; afterwards connecting is refused."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            still_open = list(self._sockets)
        for connection in still_open:
            _shut(connection)
        self._thread.join()

    def __enter__(self) -> ScriptedProvider:  # noqa: PYI034 - typing.Self needs 3.11
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def answer(self, request: SeenRequest) -> Reply:
        """Note `request` and return what the script says."""
        with self._lock:
            self.seen.append(request)
            return self._script(request)

    def wait(self, event: threading.Event) -> bool:
        """Wait for `event`; False when the server stops first."""
        while not self._stopping.is_set():
            if event.wait(0.02):
                return True
        return False

    def wait_for_stop(self) -> None:
        """Block until the server stops."""
        self._stopping.wait()

    def track(self, connection: socket.socket, *, is_open: bool) -> None:
        """Remember or forget a connection, so that `stop` can end it."""
        with self._lock:
            (self._sockets.add if is_open else self._sockets.discard)(connection)


@contextmanager
def refused_url() -> Iterator[str]:
    """Give a URL on 127.0.0.1 where connecting is refused: its port is taken and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def _in_order(replies: list[Reply]) -> Script:
    if not replies:
        raise ValueError("a script needs at least one reply")
    left = iter(replies)

    def script(_request: SeenRequest) -> Reply:
        return next(left, replies[-1])

    return script


def _shut(connection: socket.socket, *, reset: bool = False) -> None:
    try:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
    except OSError:
        return  # the client has closed it already


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    provider: ScriptedProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is part of the script, not an error."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.provider.track(self.request, is_open=True)
        super().setup()

    def finish(self) -> None:
        self.server.provider.track(self.request, is_open=False)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: `seen` is the log."""

    def do_POST(self) -> None:
        """Answer as the script says, whatever the method."""
        request = SeenRequest(self.command, self.path, tuple(self.headers.items()), self._read_body())
        provider = self.server.provider
        reply = provider.answer(request)
        if -1 in reply.hold and not provider.wait(reply.hold[-1]):
            return
        if reply.ending in {"no_answer", "reset_at_once", "silent_at_once"}:
            self._leave(reply.ending)
            return
        self._send_head(reply)
        if self.command == "HEAD" or reply.status in {204, 304}:
            return
        chunked = reply.framing == "chunked"
        pieces = reply.pieces
        for number, piece in enumerate(pieces):
            if number in reply.hold and not provider.wait(reply.hold[number]):
                return
            self._send(piece, chunked=chunked)
        while reply.ending == "endless":
            self._send(pieces[-1], chunked=chunked)
        if reply.ending != "whole":
            self._leave(reply.ending)
        elif chunked:
            trailers = "".join(f"{name}: {value}\r\n" for name, value in reply.trailers)
            self.wfile.write(b"0\r\n" + trailers.encode() + b"\r\n")

    do_GET = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_POST  # noqa: N815 - names of the base class

    def _send_head(self, reply: Reply) -> None:
        self.send_response_only(reply.status, reply.reason or None)
        for name, value in reply.headers:
            self.send_header(name, value)
        if reply.coding:
            self.send_header("content-encoding", reply.coding)
        if reply.status in {204, 304}:
            pass  # such a head ends the answer, whatever it says of a body
        elif reply.framing == "chunked":
            self.send_header("transfer-encoding", "chunked")
        elif reply.framing == "length":
            promised = len(reply.wire_body) + (1000 if reply.ending != "whole" else 0)
            self.send_header("content-length", str(promised))
        else:
            self.close_connection = True
        self.end_headers()

    def _send(self, piece: bytes, *, chunked: bool) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        self.wfile.flush()

    def _leave(self, ending: str) -> None:
        self.close_connection = True
        if ending.startswith("silent"):
            self.server.provider.wait_for_stop()
        else:
            _shut(self.connection, reset=ending.startswith("reset"))

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline() not in {b"\r\n", b"\n", b""}:
                continue
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("content-length") or 0))
