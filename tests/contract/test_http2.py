"""HTTP/2: what is recorded of it and given back is what HTTP/1.1 gives, and its version is told."""

from __future__ import annotations

import asyncio
import socket
import threading

import httpx
import httpx2
import pytest

from otel_agent_replay.boundary import transports
from tests.support.tape_session import recording, replaying

pytest.importorskip("h2", reason="h2, which httpx needs for HTTP/2, is not installed here")

import h2.config  # noqa: E402
import h2.connection  # noqa: E402
import h2.events  # noqa: E402

PIECES = ["data: grüße \U0001f44b\n\n".encode(), b"data: second\n\n", b"data: [DONE]\n\n"]


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


class Http2Server:
    """Answers each request of one connection with an event stream, one frame a piece, on 127.0.0.1."""

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/things"
        self.asked = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._listener.close()
        self._thread.join(10)

    def _serve(self):
        peer, _ = self._listener.accept()
        with peer:
            connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            connection.initiate_connection()
            peer.sendall(connection.data_to_send())
            while data := peer.recv(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        self.asked.append(dict(event.headers))
                    elif isinstance(event, h2.events.StreamEnded):
                        self._answer(connection, event.stream_id)
                peer.sendall(connection.data_to_send())

    @staticmethod
    def _answer(connection, stream):
        connection.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream"), ("x-note", "two")])
        for piece in PIECES[:-1]:
            connection.send_data(stream, piece)
        connection.send_data(stream, PIECES[-1], end_stream=True)


def _sync(library):
    def fetch(url):
        with library.Client(http1=False, http2=True, trust_env=False) as client:
            with client.stream("POST", url, json={"stream": True}) as response:
                pieces = list(response.iter_raw())
            return response.http_version, response.status_code, response.headers["x-note"], pieces

    return fetch


def _async(library):
    async def fetch(url):
        async with library.AsyncClient(http1=False, http2=True, trust_env=False) as client:
            async with client.stream("POST", url, json={"stream": True}) as response:
                pieces = [piece async for piece in response.aiter_raw()]
            return response.http_version, response.status_code, response.headers["x-note"], pieces

    return lambda url: asyncio.run(fetch(url))


CLIENTS = {
    "httpx": _sync(httpx),
    "httpx-async": _async(httpx),
    "httpx2": _sync(httpx2),
    "httpx2-async": _async(httpx2),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_over_http_2_replays_with_its_pieces_and_its_version(client):
    """Head, version and frames are those that came, recorded as they came and given back without a server."""
    with Http2Server() as server, recording() as observer:
        live = CLIENTS[client](server.url)
        assert server.asked[0][b":path"] == b"/v1/things"
    assert observer.losses == []
    assert live[:3] == ("HTTP/2", 200, "two")
    assert b"".join(live[3]) == b"".join(PIECES)
    assert len(live[3]) == len(PIECES)
    with replaying(observer.exchanges) as (_tape, again):
        assert CLIENTS[client](server.url) == live
    assert again.losses == []
