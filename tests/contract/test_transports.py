"""What every transport must give back from a recording, asked of every client library."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from otel_agent_replay.boundary import transports
from otel_agent_replay.boundary.http_exchange import finish_abandoned
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import FailurePhase, Kind, OutcomeStatus, SideEffect
from otel_agent_replay.testing import Reply, ScriptedProvider, refused_url
from tests.support.http_clients import ASYNC_CLIENTS, CLIENTS, client_of
from tests.support.tape_session import recording, replaying

TEXT = 'data: {"a": "grüße \U0001f44b"}\n\n' * 6
SSE = TEXT.encode()
INSIDE_A_CHARACTER = [SSE.index("\U0001f44b".encode()) + 2, SSE.index(b"data:", 40) + 3]
EVENTS = {"headers": (("content-type", "text/event-stream"), ("x-note", "grün".encode().decode("latin-1")))}


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


@pytest.fixture(params=CLIENTS)
def client(request):
    return client_of(request.param)


@pytest.fixture(params=ASYNC_CLIENTS)
def async_client(request):
    return client_of(request.param)


SCENARIOS = {
    "json": ("GET", Reply(b'{"ok": true}'), "whole"),
    "json in pieces": ("POST", Reply(b'{"ok": true}', cuts=[3, 7]), "stream"),
    "event stream": ("POST", Reply(SSE, framing="chunked", cuts=[40, 80], **EVENTS), "stream"),
    "event stream read whole": ("POST", Reply(SSE, framing="chunked", cuts=[40, 80], **EVENTS), "whole"),
    "cut inside a character": ("POST", Reply(SSE, framing="chunked", cuts=INSIDE_A_CHARACTER, **EVENTS), "stream"),
    "one byte at a time": ("POST", Reply(SSE[:60], framing="chunked", cuts=range(60), **EVENTS), "stream"),
    "no length": ("GET", Reply(SSE, framing="close", cuts=[50]), "stream"),
    "gzip decoded": ("GET", Reply(SSE * 9, coding="gzip", cuts=[10, 30]), "stream"),
    "gzip read whole": ("GET", Reply(SSE * 9, coding="gzip", cuts=[10, 30]), "whole"),
    "gzip raw": ("GET", Reply(SSE * 9, coding="gzip", cuts=[10, 30]), "raw"),
    "gzip chunked": ("GET", Reply(SSE * 9, coding="gzip", framing="chunked", cuts=[10, 30]), "stream"),
    "gzip of nothing": ("GET", Reply(b"", coding="gzip"), "whole"),
    "binary": ("GET", Reply(bytes(range(256)) * 4, headers=(("content-type", "application/pdf"),)), "whole"),
    "head": ("HEAD", Reply(b'{"ok": true}'), "whole"),
    "head of gzip": ("HEAD", Reply(SSE, coding="gzip"), "whole"),
    "no content": ("DELETE", Reply(status=204, headers=()), "whole"),
    "empty body": ("GET", Reply(b""), "stream"),
    "not found": ("GET", Reply(b'{"error": "no"}', 404, reason="Nothing Here"), "whole"),
    "overloaded": ("POST", Reply(b'{"error": "later"}', 529, headers=(("retry-after", "1"),)), "whole"),
    "trailers": ("GET", Reply(SSE, framing="chunked", trailers=(("x-sum", "1"),)), "stream"),
    "rate limits": ("GET", Reply(b"100000", headers=(("x-ratelimit-limit-tokens", "100000"),)), "whole"),
    "several headers of a name": ("GET", Reply(b"x", headers=(("x-a", "1"), ("x-a", "2"), ("X-B", ""))), "whole"),
}
FAILURES = {
    "cut after a piece": (Reply(SSE, ending="cut", cuts=[70]), "stream"),
    "cut in a chunked body": (Reply(SSE, framing="chunked", ending="cut", cuts=[70]), "stream"),
    "cut while read whole": (Reply(SSE, framing="chunked", ending="cut", cuts=[70]), "whole"),
    "reset after a piece": (Reply(SSE, ending="silent", cuts=[70]), "stream"),
    "silence after a piece": (Reply(SSE, framing="chunked", ending="silent", cuts=[70]), "stream"),
    "no answer": (Reply(ending="no_answer"), "whole"),
    "reset at once": (Reply(ending="reset_at_once"), "whole"),
    "silence at once": (Reply(ending="silent_at_once"), "whole"),
    "bytes that are not gzip": (Reply(b"plain", headers=(("content-encoding", "gzip"),)), "whole"),
}


def lockstep(body, cuts, **more):
    """A chunked reply whose pieces wait until the reader has got as many chunks, and what the reader must call."""
    gates = {number: threading.Event() for number in range(1, len(cuts) + 1)}

    def on_chunk(number):
        if number in gates:
            gates[number].set()

    return Reply(body, framing="chunked", cuts=cuts, hold=gates, **EVENTS, **more), on_chunk


def record_and_replay(client, script, *call, **more):
    with ScriptedProvider(script) as provider, recording() as observer:
        url = provider.url + "/v1/things?q=1"
        live = client.fetch(call[0], url, *call[1:], **more)
    assert observer.losses == []
    with replaying(observer.exchanges) as (tape, again):
        replayed = client.fetch(call[0], url, *call[1:], **more)
    return live, replayed, observer, tape, again


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_replay_gives_back_head_and_chunks(client, name):
    """Status, reason, version, headers and every chunk come back from the tape as they came from the server."""
    method, reply, how = SCENARIOS[name]
    body = b'{"ask": 1}' if method == "POST" else None
    live, replayed, observer, tape, again = record_and_replay(client, [reply], method, body, how=how)
    assert live.error is None
    assert live.status == reply.status
    if reply.reason:
        assert live.reason == reply.reason
    expected = b"" if method == "HEAD" else (reply.wire_body if how == "raw" else reply.body)
    assert live.body == expected
    assert replayed.seen() == live.seen()
    (exchange,) = observer.exchanges
    assert exchange.outcome.status is OutcomeStatus.OK
    assert exchange.outcome.exact
    assert exchange.outcome.result.data == (b"" if method == "HEAD" else reply.wire_body)
    assert sum(chunk.size for chunk in exchange.outcome.chunks) == exchange.outcome.result.size
    assert tape.log == [("settle", 0), ("done", 0)]
    assert [one.outcome.result for one in again.exchanges] == [exchange.outcome.result]


@pytest.mark.parametrize("name", FAILURES)
def test_a_replay_raises_the_same_error_at_the_same_point(client, name):
    """A recorded failure comes back as the same class with the same message, after the same chunks."""
    reply, how = FAILURES[name]
    live, replayed, observer, tape, _ = record_and_replay(client, [reply], "POST", b"{}", how=how)
    assert live.error is not None
    assert replayed.seen() == live.seen()
    assert type(replayed.error) is type(live.error)
    if name != "bytes that are not gzip":  # there the bytes are fine and the reader fails
        outcome = observer.exchanges[0].outcome
        assert outcome.status is OutcomeStatus.ERROR
        assert outcome.failure.phase is (FailurePhase.BODY if outcome.head else FailurePhase.CALL)
        assert bool(outcome.head) == bool(reply.body)


def test_a_refused_connection_is_refused_again(client):
    """Connecting where nobody listens replays as the same error, without any connection."""
    with refused_url() as url, recording() as observer:
        live = client.fetch("GET", url)
        assert observer.exchanges[0].outcome.failure.phase is FailurePhase.CALL
        assert observer.exchanges[0].outcome.head is None
    with replaying(observer.exchanges):
        replayed = client.fetch("GET", url)
    assert live.error is not None
    assert replayed.seen() == live.seen()


def test_an_early_close_is_replayed_as_far_as_it_was_read(client):
    """A reader that leaves after two chunks finds the same two; one that wants more stops the replay."""
    reply, on_chunk = lockstep(SSE, [40, 80, 120], ending="silent")
    live, replayed, observer, _, _ = record_and_replay(client, [reply], "POST", b"{}", stop_after=2, on_chunk=on_chunk)
    assert len(live.chunks) == 2
    assert live.error is None
    assert replayed.seen() == live.seen()
    assert observer.exchanges[0].outcome.closed_early
    with replaying(observer.exchanges), pytest.raises(ReplayDeparture, match="read beyond"):
        client.fetch("POST", observer.exchanges[0].call.head.url, b"{}")


def test_a_reader_that_leaves_earlier_than_recorded_ends_its_exchange(client):
    """Closing the body half-way in a replay ends the crossing with what was taken."""
    reply, on_chunk = lockstep(SSE, [40, 80, 120])
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = client.fetch("POST", provider.url, b"{}", on_chunk=on_chunk)
    assert len(live.chunks) >= 4
    with replaying(observer.exchanges) as (_, again):
        replayed = client.fetch("POST", provider.url, b"{}", stop_after=1)
    assert replayed.chunks == live.chunks[:1]
    assert again.exchanges[0].outcome.closed_early
    assert again.exchanges[0].outcome.result.data == live.chunks[0]


def test_a_body_that_never_ends_passes_through(client):
    """An endless stream is read as long as the reader likes, and no more of it is held than that."""
    reply = Reply(SSE, framing="chunked", cuts=[40], ending="endless", **EVENTS)
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = client.fetch("POST", provider.url, b"{}", stop_after=30)
    assert live.error is None
    assert len(live.chunks) == 30
    (exchange,) = observer.exchanges
    whole = exchange.outcome.result.data  # None when the chunks were so large that it was handed over in parts
    assert (whole if whole is not None else b"".join(part for part, _ in exchange.parts)) == live.body
    assert exchange.outcome.closed_early


def test_a_chunk_reaches_the_reader_before_the_next_is_sent(client):
    """The server sends each piece only once the reader has the one before: nothing is held back, cuts are kept."""
    reply, on_chunk = lockstep(SSE[:240], [40, *INSIDE_A_CHARACTER[:1], 80, 120, 180])
    live, replayed, _, _, _ = record_and_replay(client, [reply], "POST", b"{}", on_chunk=on_chunk)
    assert live.chunks == reply.pieces
    assert replayed.chunks == reply.pieces


def test_an_unrecorded_call_stops_the_replay(client):
    """A call that is not on the tape is never sent."""
    with ScriptedProvider([Reply(b"live")]) as provider:
        with replaying([]), pytest.raises(ReplayDeparture):
            client.fetch("GET", provider.url)
        assert provider.seen == []


def test_outside_a_run_nothing_is_touched(client):
    """Without a session a call goes its way."""
    with ScriptedProvider([Reply(b"live")]) as provider:
        assert client.fetch("GET", provider.url).body == b"live"


def test_three_identical_calls_get_their_own_answers(client):
    """The first, second and third answer come back first, second and third."""
    replies = [Reply(str(number).encode()) for number in range(3)]
    with ScriptedProvider(replies) as provider, recording() as observer:
        live = [client.fetch("POST", provider.url, b"same").body for _ in range(3)]
    with replaying(observer.exchanges):
        replayed = [client.fetch("POST", provider.url, b"same").body for _ in range(3)]
    assert replayed == live == [b"0", b"1", b"2"]


def test_each_redirect_is_an_exchange(client):
    """A redirect that the client follows is two exchanges, and both replay."""
    replies = [Reply(status=303, headers=(("location", "/end"),)), Reply(b"arrived")]
    with ScriptedProvider(replies) as provider, recording() as observer:
        more = {"follow_redirects": True} if "Httpx" in type(client).__name__ else {}
        live = client.fetch("POST", provider.url + "/start", b"{}", how="whole", **more)
    assert live.body == b"arrived"
    assert [one.outcome.head.status for one in observer.exchanges] == [303, 200]
    with replaying(observer.exchanges):
        replayed = client.fetch("POST", provider.url + "/start", b"{}", how="whole", **more)
    assert replayed.seen() == live.seen()


def test_worker_threads_are_recorded_and_replayed(client):
    """Calls from a pool's threads that carry the session replay with their own answers."""

    def ask(number):
        return client.fetch("POST", provider.url, str(number).encode()).body

    def all_of_them():
        contexts = [contextvars.copy_context() for _ in range(6)]
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda pair: pair[1].run(ask, pair[0]), enumerate(contexts)))

    with ScriptedProvider(lambda request: Reply(b"for " + request.body)) as provider, recording() as observer:
        live = all_of_them()
    with replaying(observer.exchanges):
        assert all_of_them() == live == [f"for {number}".encode() for number in range(6)]


def test_parallel_calls_in_another_order_get_their_own_answers(async_client):
    """Gathered calls find their answers also when a replay starts them in reverse order."""

    async def gather(numbers):
        calls = [async_client.fetch_async("POST", provider.url, str(number).encode()) for number in numbers]
        return {number: got.body for number, got in zip(numbers, await asyncio.gather(*calls), strict=True)}

    with ScriptedProvider(lambda request: Reply(b"for " + request.body)) as provider, recording() as observer:
        live = asyncio.run(gather([0, 1, 2]))
    with replaying(observer.exchanges):
        assert asyncio.run(gather([2, 1, 0])) == live


def test_a_cancelled_call_is_cancelled_again(async_client):
    """A call that was abandoned by its task never answers in the replay; the task is cancelled again."""

    async def give_up(url):
        task = asyncio.create_task(async_client.fetch_async("POST", url, b"{}"))
        await reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    gate = threading.Event()
    with ScriptedProvider([Reply(b"late", hold={-1: gate})]) as provider, recording() as observer:

        async def reached():
            while not provider.seen:
                await asyncio.sleep(0.005)

        asyncio.run(give_up(provider.url))
    (exchange,) = observer.exchanges
    assert exchange.outcome.status is OutcomeStatus.CANCELLED
    with replaying(observer.exchanges) as (tape, again):

        async def reached():
            while not tape.log:
                await asyncio.sleep(0)

        asyncio.run(give_up(provider.url))
    assert [one.outcome.status for one in again.exchanges] == [OutcomeStatus.CANCELLED]


def test_a_response_that_is_dropped_is_ended(client):
    """A reader that forgets its response without closing leaves an exchange that is ended, not lost."""
    if type(client).__name__ not in {"HttpxSync", "Urllib3"}:
        pytest.skip("the adapter always closes")
    reply = Reply(SSE, framing="chunked", cuts=[40], **EVENTS)
    with ScriptedProvider([reply]) as provider, recording() as observer:
        if type(client).__name__ == "Urllib3":
            import urllib3

            pool = urllib3.PoolManager()
            response = pool.request("GET", provider.url, preload_content=False)
        else:
            pool = client.library.Client()
            response = pool.send(pool.build_request("GET", provider.url), stream=True)
        del response
        gc.collect()
        finish_abandoned()
        assert [one.outcome.closed_early for one in observer.exchanges] == [True]
        getattr(pool, "close", getattr(pool, "clear", None))()


def test_what_a_call_says_of_itself(client):
    """Method, redacted URL, kind and side effect are on the call; credentials are not."""
    headers = {"authorization": "Bearer sk-abcdefghijklmnopqrstuvwx", "anthropic-version": "1"}
    with ScriptedProvider([Reply(b"{}")]) as provider, recording() as observer:
        client.fetch("GET", provider.url + "/a?api_key=hush&b=2", headers=headers)
        client.fetch("PUT", provider.url + "/a", b"x")
        assert provider.seen[0].header("authorization") == headers["authorization"]
    read, write = (one.call for one in observer.exchanges)
    assert (read.kind, read.side_effect, write.side_effect) == (Kind.HTTP, SideEffect.READ, SideEffect.WRITE)
    assert read.name == f"GET 127.0.0.1:{provider.port}/a"
    assert "hush" not in repr(read)
    assert "b=2" in read.head.url
    assert "sk-abcdef" not in repr(read)
    assert ("anthropic-version", "1") in [(name.lower(), value) for name, value in read.head.headers]
    assert write.request.data == b"x"


def test_get_and_head_read_and_the_rest_writes(client):
    """What is no model call is a read or a write by its method."""
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    with ScriptedProvider([Reply(b"{}")]) as provider, recording() as observer:
        for method in methods:
            client.fetch(method, provider.url + "/a")
    effects = [one.call.side_effect for one in observer.exchanges]
    assert effects == [SideEffect.READ] * 2 + [SideEffect.WRITE] * 4


def test_uninstalling_puts_the_originals_back(client):
    """After `uninstall` a session records nothing of HTTP."""
    transports.uninstall()
    with ScriptedProvider([Reply(b"live")]) as provider, recording() as observer:
        assert client.fetch("GET", provider.url).body == b"live"
    assert observer.begun == []
