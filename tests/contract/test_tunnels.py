"""HTTPS through a proxy that only tunnels: the call is the target's, and a replay needs neither proxy nor server."""

from __future__ import annotations

import asyncio
import base64
import http.server
import socket
import socketserver
import ssl
import threading

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from otel_agent_replay.boundary import transports
from tests.support.certificates import certificates
from tests.support.tape_session import recording, replaying

SECRET = "tunnel-secret-5kx7"
EVENTS = [b"data: first\n\n", "data: grüße \U0001f44b\n\n".encode(), b"data: [DONE]\n\n"]


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("tunnels") / "certificates")


class _Target(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in (*EVENTS, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()

    def log_message(self, *_arguments):
        pass


class _Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        lines = []
        while (line := self.rfile.readline().strip()) or not lines:
            lines.append(line.decode("latin-1"))
        self.server.asked.append(lines)
        method, target, _ = lines[0].split(" ")
        assert method == "CONNECT"
        with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2]))) as inner:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=(inner, self.connection))
            back.start()
            _copy(self.connection, inner)
            back.join()


def _copy(source, into):
    try:
        while data := source.recv(65536):
            into.sendall(data)
        into.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other end has left


class _Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler, context=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.asked = []
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, *_arguments):
        pass


def _httpx(library):
    def fetch(url, proxy, authority):
        trust = ssl.create_default_context(cafile=authority)
        with library.Client(proxy=proxy, verify=trust, trust_env=False) as client, client.stream("GET", url) as answer:
            return answer.status_code, list(answer.iter_raw())

    return fetch


def _httpx_async(library):
    async def fetch(url, proxy, authority):
        trust = ssl.create_default_context(cafile=authority)
        async with (
            library.AsyncClient(proxy=proxy, verify=trust, trust_env=False) as client,
            client.stream("GET", url) as answer,
        ):
            return answer.status_code, [piece async for piece in answer.aiter_raw()]

    return lambda *given: asyncio.run(fetch(*given))


def _requests(url, proxy, authority):
    with requests.Session() as session:
        session.trust_env = False
        with session.get(url, proxies={"https": proxy}, verify=str(authority), stream=True) as answer:
            return answer.status_code, list(answer.iter_content(None))


def _urllib3(url, proxy, authority):
    user, _, address = proxy.removeprefix("http://").rpartition("@")
    headers = urllib3.make_headers(proxy_basic_auth=user)
    with urllib3.ProxyManager(f"http://{address}", proxy_headers=headers, ca_certs=str(authority)) as manager:
        answer = manager.request("GET", url, preload_content=False)
        return answer.status, list(answer.stream(None))


def _aiohttp(url, proxy, authority):
    async def fetch():
        trust = ssl.create_default_context(cafile=authority)
        async with aiohttp.ClientSession() as session, session.get(url, proxy=proxy, ssl=trust) as answer:
            return answer.status, [piece async for piece in answer.content.iter_any()]

    return asyncio.run(fetch())


CLIENTS = {
    "httpx": _httpx(httpx),
    "httpx-async": _httpx_async(httpx),
    "httpx2": _httpx(httpx2),
    "httpx2-async": _httpx_async(httpx2),
    "requests": _requests,
    "urllib3": _urllib3,
    "aiohttp": _aiohttp,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_through_a_tunnel_replays_without_proxy_and_server(client, papers):
    """One exchange with the target's own address and its pieces; the proxy's credentials are nowhere."""
    fetch = CLIENTS[client]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.server, papers.server_key)
    with _Threads(_Target, context) as target, _Threads(_Tunnel) as tunnel:
        port = target.server_address[1]
        url = f"https://localhost:{port}/v1/things?q=1"
        proxy = f"http://user:{SECRET}@127.0.0.1:{tunnel.server_address[1]}"
        with recording() as observer:
            live = fetch(url, proxy, papers.authority)
        ((connect, *headers),) = tunnel.asked
        assert connect.startswith(f"CONNECT localhost:{port} ")
        credentials = base64.b64encode(f"user:{SECRET}".encode()).decode()
        assert any(credentials in line for line in headers)
        ((path, received),) = target.asked
        assert path == "/v1/things?q=1"
        assert "Proxy-Authorization" not in received
    assert observer.losses == []
    assert live[0] == 200
    assert b"".join(live[1]) == b"".join(EVENTS)
    (exchange,) = observer.exchanges
    assert exchange.call.head.url == url
    assert exchange.call.notes == ("it was sent through a proxy",)
    assert SECRET not in repr(observer.exchanges)
    assert credentials not in repr(observer.exchanges)
    with replaying(observer.exchanges) as (tape, again):
        assert fetch(url, proxy, papers.authority) == live
    assert tape.left == []
    assert again.losses == []
