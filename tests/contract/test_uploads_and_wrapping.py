"""Request bodies that are streamed, transports inside transports, and libraries imported late."""

from __future__ import annotations

import asyncio
import gzip
import io
import subprocess
import sys
import textwrap

import pytest

from otel_agent_replay.boundary import transports
from otel_agent_replay.boundary.transports.uncovered import uncovered_sdks, warn_of_uncovered_sdks
from otel_agent_replay.model import Kind
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.tape_session import recording, replaying

aiohttp = pytest.importorskip("aiohttp")
httpx = pytest.importorskip("httpx")
httpx2 = pytest.importorskip("httpx2")
requests = pytest.importorskip("requests")
urllib3 = pytest.importorskip("urllib3")

PIECES = [b"one ", b"two ", b"three"]


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


async def apieces():
    for piece in PIECES:
        yield piece


def _httpx_upload(url, library=httpx):
    return library.post(url, content=iter(PIECES)).content


def _httpx_file(url):
    return httpx.post(url, content=io.BytesIO(b"".join(PIECES))).content


def _httpx_async_upload(url):
    async def run():
        async with httpx2.AsyncClient() as client:
            return (await client.post(url, content=apieces())).content

    return asyncio.run(run())


def _requests_generator(url):
    return requests.post(url, data=iter(PIECES)).content


def _requests_file(url):
    return requests.post(url, data=io.BytesIO(b"".join(PIECES))).content


def _aiohttp(url, make):
    async def run():
        async with aiohttp.ClientSession() as session, session.post(url, data=make()) as response:
            return await response.read()

    return asyncio.run(run())


UPLOADS = {
    "httpx iterator": _httpx_upload,
    "httpx file": _httpx_file,
    "httpx2 async iterator": _httpx_async_upload,
    "requests generator": _requests_generator,
    "requests file": _requests_file,
    "aiohttp async iterator": lambda url: _aiohttp(url, apieces),
    "aiohttp file": lambda url: _aiohttp(url, lambda: io.BytesIO(b"".join(PIECES))),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_a_streamed_upload_is_recorded_as_it_is_sent(name):
    """The server gets the stream unchanged, the recording the whole body, and a replay matches it."""
    send = UPLOADS[name]
    with ScriptedProvider(lambda request: Reply(b"got " + request.body)) as provider, recording() as observer:
        live = send(provider.url + "/upload")
    assert live == b"got one two three"
    (exchange,) = observer.exchanges
    assert exchange.call.request.data == b"one two three"
    assert [call.request for call in observer.sent_calls] == [exchange.call.request]
    assert observer.losses == []
    with replaying(observer.exchanges):
        assert send(provider.url + "/upload") == live


FORMS = {
    "httpx": lambda url: httpx.post(url, files={"f": ("a.txt", b"content", "text/plain")}, data={"a": "1"}).content,
    "httpx2": lambda url: httpx2.post(url, files={"f": ("a.txt", io.BytesIO(b"content"), "text/plain")}).content,
    "requests": lambda url: requests.post(url, files={"f": ("a.txt", b"content", "text/plain")}).content,
    "urllib3": lambda url: urllib3.request("POST", url, fields={"f": ("a.txt", b"content")}).data,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_with_a_random_boundary_matches_itself(name):
    """Each client draws a new multipart boundary a request; the same form replays all the same."""
    send = FORMS[name]
    with ScriptedProvider([Reply(b"stored")]) as provider, recording() as observer:
        assert send(provider.url) == b"stored"
        assert b"content" in provider.seen[0].body
    assert b"content" in observer.exchanges[0].call.request.data
    with replaying(observer.exchanges):
        assert send(provider.url) == b"stored"


def test_a_packed_request_is_kept_unpacked():
    """A gzip request body, whose bytes differ each time it is packed, matches by what it says."""

    def send(url, level):
        packed = gzip.compress(b'{"q": "what"}', level, mtime=level)
        return httpx.post(url, content=packed, headers={"content-encoding": "gzip"}).content

    with ScriptedProvider([Reply(b"a")]) as provider, recording() as observer:
        send(provider.url, 1)
    assert observer.exchanges[0].call.request.data == b'{"q": "what"}'
    assert observer.exchanges[0].call.notes
    with replaying(observer.exchanges):
        assert send(provider.url, 9) == b"a"


def test_a_mock_transport_is_recorded_like_any_other():
    """Canned answers of a mock are an exchange, preloaded or streamed, and replay without the mock being asked."""
    asked = []

    def canned(request):
        asked.append(request)
        return httpx.Response(200, json={"n": len(asked)})

    with httpx.Client(transport=httpx.MockTransport(canned)) as client:
        with recording() as observer:
            live = client.get("http://service.test/a").json()
        with replaying(observer.exchanges):
            assert client.get("http://service.test/a").json() == live == {"n": 1}
    assert len(asked) == 1


def test_a_transport_around_another_is_one_exchange():
    """A mock that asks a real server inside is recorded once, as the outermost."""
    inner = httpx.Client()

    def relay(request):
        return httpx.Response(200, content=inner.get(provider.url).content)

    with inner, ScriptedProvider([Reply(b"inside")]) as provider, recording() as observer:
        with httpx.Client(transport=httpx.MockTransport(relay)) as client:
            assert client.get("http://outer.test/").content == b"inside"
    assert [one.call.head.url for one in observer.exchanges] == ["http://outer.test/"]


def test_an_application_served_in_process_is_one_exchange():
    """ASGI and WSGI transports replay without running the application."""
    runs = []

    def wsgi(environ, start_response):
        runs.append(1)
        start_response("200 OK", [("content-type", "text/plain")])
        return [b"a", b"b"]

    async def asgi(scope, receive, send):
        runs.append(1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ab"})

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi)) as client:
            return (await client.get("http://app.test/")).content

    def both():
        with httpx.Client(transport=httpx.WSGITransport(wsgi)) as client:
            return client.get("http://app.test/w").content, asyncio.run(ask())

    with recording() as observer:
        assert both() == (b"ab", b"ab")
    with replaying(observer.exchanges):
        assert both() == (b"ab", b"ab")
    assert len(runs) == 2


def test_a_custom_retry_transport_shows_each_attempt():
    """A transport that retries around the built-in one gives an exchange an attempt, also on replay."""

    class Retrying(httpx.BaseTransport):
        def __init__(self):
            self.inner = httpx.HTTPTransport()

        def handle_request(self, request):
            response = self.inner.handle_request(request)
            if response.status_code == 503:
                response.read()
                response = self.inner.handle_request(request)
            return response

        def close(self):
            self.inner.close()

    def ask(url):
        with httpx.Client(transport=Retrying()) as client:
            return client.get(url).content

    with ScriptedProvider([Reply(b"", 503), Reply(b"ok")]) as provider, recording() as observer:
        assert ask(provider.url) == b"ok"
    assert [one.outcome.head.status for one in observer.exchanges] == [503, 200]
    with replaying(observer.exchanges):
        assert ask(provider.url) == b"ok"


def test_clients_made_before_us_are_covered():
    """A client that exists when we arrive is recorded: the classes are patched, not the instances."""
    transports.uninstall()
    with httpx.Client() as old, ScriptedProvider([Reply(b"x")]) as provider:
        transports.install()
        with recording() as observer:
            old.get(provider.url)
    assert len(observer.exchanges) == 1


def test_a_connection_pool_of_one_is_not_used_up_by_a_replay():
    """Served responses give their pool slot back, as live ones do."""
    with ScriptedProvider([Reply(b"x")]) as provider, recording() as observer:
        pool = urllib3.HTTPConnectionPool("127.0.0.1", provider.port, maxsize=1, block=True)
        for _ in range(3):
            pool.request("GET", "/", preload_content=False).read()
    with replaying(observer.exchanges):
        for _ in range(3):
            assert pool.request("GET", "/", preload_content=False, pool_timeout=5).read() == b"x"
    pool.close()


def test_a_plain_urllib3_request_has_its_body_preloaded():
    """The default of urllib3 reads the body at once; recorded and replayed alike, errors in it too."""

    def ask(url):
        with urllib3.PoolManager(retries=False) as pool:
            try:
                return pool.request("GET", url).data
            except urllib3.exceptions.HTTPError as error:
                return type(error), str(error)

    with ScriptedProvider([Reply(b"whole"), Reply(b"half", ending="cut")]) as provider, recording() as observer:
        live = [ask(provider.url), ask(provider.url)]
    assert live[0] == b"whole"
    assert live[1][0] is urllib3.exceptions.ProtocolError
    with replaying(observer.exchanges):
        assert [ask(provider.url), ask(provider.url)] == live


def test_all_ways_to_read_aiohttp_agree_with_the_recording():
    """readline, readexactly, iter_chunked, iter_chunks and readany give the same pieces from the tape."""
    body = b"".join(b"line %d of a longer text\n" % number for number in range(200))

    async def ask(url):
        got = []
        async with aiohttp.ClientSession() as session:
            for way in ("lines", "exactly", "chunked", "chunks", "any"):
                async with session.get(f"{url}/{way}") as response:
                    content = response.content
                    if way == "lines":
                        got.append([line async for line in content])
                    elif way == "exactly":
                        got.append([await content.readexactly(100), await content.read(7), await content.read()])
                    elif way == "chunked":
                        got.append([piece async for piece in content.iter_chunked(33)])
                    elif way == "chunks":
                        got.append([piece async for piece in content.iter_chunks()])
                    else:
                        got.append([piece async for piece in content.iter_any()])
        return got

    reply = Reply(body, framing="chunked", cuts=range(0, len(body), 77))
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = asyncio.run(ask(provider.url))
    assert b"".join(live[0]) == b"".join(live[2]) == body
    with replaying(observer.exchanges):
        assert asyncio.run(ask(provider.url)) == live


@pytest.mark.parametrize("library", ["httpx", "httpx2", "urllib3", "aiohttp"])
def test_a_library_that_is_imported_later_is_covered(library):
    """Installing imports nothing; the library is patched when the host imports it, and its module is as ever."""
    script = textwrap.dedent(
        f"""
        import sys
        from otel_agent_replay.boundary import transports
        waiting = transports.install()
        assert {library!r} not in sys.modules, "installing must not import a client library"
        assert {{entry.what for entry in waiting}} == {{"httpx", "httpx2", "urllib3", "aiohttp"}}
        import {library}
        from importlib.machinery import SourceFileLoader
        assert type({library}.__loader__) is SourceFileLoader, {library}.__loader__
        assert type({library}.__spec__.loader) is SourceFileLoader
        (entry,) = [entry for entry in transports.coverage() if entry.what == {library!r}]
        assert entry.state == "captured" and {library}.__version__ in entry.detail, entry
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_model_sdk_without_a_hook_is_named_once(monkeypatch, caplog):
    """An imported SDK whose calls we cannot see is in the coverage, and logged once."""
    monkeypatch.setitem(sys.modules, "llama_cpp", object())
    monkeypatch.setattr(transports.uncovered, "_said", set())
    assert [(entry.what, entry.state) for entry in uncovered_sdks()] == [("llama_cpp", "not_captured")]
    warn_of_uncovered_sdks()
    warn_of_uncovered_sdks()
    assert len([record for record in caplog.records if "llama_cpp" in record.message]) == 1


def test_a_defect_of_ours_lets_the_call_through_while_recording(monkeypatch):
    """If building the call fails, the request goes on live and the loss is counted; a replay stops instead."""
    from otel_agent_replay.boundary import http_exchange
    from otel_agent_replay.errors import ReplayInterrupt

    def broken(*_args):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(http_exchange, "call_of", broken)
    with ScriptedProvider([Reply(b"live")]) as provider:
        with recording() as observer:
            assert httpx.get(provider.url).content == b"live"
            assert requests.get(provider.url).content == b"live"
            assert _aiohttp(provider.url, lambda: b"x") == b"live"
        assert len(observer.losses) == 3
        with replaying([]), pytest.raises(ReplayInterrupt):
            httpx.get(provider.url)
        assert len(provider.seen) == 3


def test_a_model_call_is_below_nothing_but_its_run():
    """An exchange recorded at the transport is a child of where the agent's code stood."""
    with ScriptedProvider([Reply(b"{}")]) as provider, recording() as observer:
        httpx.post(provider.url + "/v1/chat/completions", json={"messages": [], "model": "m"})
    assert observer.exchanges[0].call.kind is Kind.MODEL
    assert observer.begun[0].place.path == ("run:agent#0", "model:chat#0")
