"""Every OpenAI and Anthropic exchange of the shared recordings, served, recorded, and replayed with the server gone."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from contextlib import contextmanager

import pytest

from otel_agent_replay.boundary import transports
from otel_agent_replay.model import CaptureLevel, Kind
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols.openai_chat import OPENAI_CHAT
from otel_agent_replay.protocols.recognise import recognise
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.recordings import data_folder, header, load_exchanges
from tests.support.tape_session import recording, replaying

anthropic = pytest.importorskip("anthropic")
httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")
aiohttp = pytest.importorskip("aiohttp")
requests = pytest.importorskip("requests")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="the recordings are not on this machine"),
]

EXCHANGES = 382  # of them 360 in the files of the index, 22 in files that lie beside it
CALLS = 353  # the others are files, threads, traces, and models at paths that neither client asks
NOT_SERVED = frozenset({"content-length", "transfer-encoding", "content-encoding", "connection", "set-cookie", "date"})


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


# What a recording speaks is told by its path, whatever we make of it: the openai client asks others at these, too.
CHAT, RESPONSES, COMPLETIONS = "/chat/completions", "/responses", "/completions"
MESSAGES = "/v1/messages"
ELSEWHERE = {"openai-assistants", "mcp", "google-gemini"}  # listed under other names, in part


def _speaks(exchange):
    family = "" if exchange.provider_api in ELSEWHERE else exchange.provider_api
    return bool(family) or "://api.openai.com/" in exchange.url or exchange.path.endswith(CHAT)


@functools.cache
def exchanges():
    return [one for one in load_exchanges({"openai", "anthropic", *ELSEWHERE}) if _speaks(one)]


def hurtful_cuts(body, seed):
    """Return places to cut: random ones, one inside a multi-byte character, one inside a field name."""
    draw = random.Random(seed)
    cuts = set(draw.sample(range(1, len(body)), min(6, len(body) - 1))) if len(body) > 1 else set()
    high = [at for at, byte in enumerate(body) if 0x80 <= byte < 0xC0]
    fields = [at for at in range(len(body) - 5) if body[at : at + 5] == b"data:"]
    cuts.update(draw.sample(high, min(3, len(high))))
    cuts.update(at + 2 for at in draw.sample(fields, min(3, len(fields))))
    return sorted(cuts)


def reply_of(exchange, seed):
    headers = tuple(pair for pair in exchange.response_headers if pair[0].lower() not in NOT_SERVED)
    packed = "gzip" in header(exchange.response_headers, "content-encoding")
    body = exchange.response_body
    return Reply(
        body,
        exchange.status,
        headers,
        cuts=hurtful_cuts(body, seed),
        framing="chunked",
        coding="gzip" if packed else "",
    )


def recorded(replies_and_calls):
    """Record each call against a server that answers it with its reply; return pairs of (result, recording)."""
    rules = Redaction.default(key=b"k" * 32, level=CaptureLevel.FULL)
    results, current = [], []
    with ScriptedProvider(lambda _request: current[-1]) as provider:
        for reply, call in replies_and_calls:
            current.append(reply)
            with recording(rules) as observer:
                results.append((call(provider.url), observer))
            assert observer.losses == []
    return provider.url, results


def replayed(url, call, observer):
    """Return what `call` gets from its recording, all of which it must use."""
    rules = Redaction.default(key=b"k" * 32, level=CaptureLevel.FULL)
    with replaying(observer.exchanges, rules) as (tape, _):
        result = call(url)
    assert tape.left == []
    return result


@contextmanager
def bare_httpx():
    with httpx.Client(verify=False) as client:

        def send(url, exchange):
            with client.stream(exchange.method, url, content=exchange.request_body) as response:
                return response.status_code, list(response.iter_bytes())

        yield send


@contextmanager
def bare_requests():
    with requests.Session() as session:

        def send(url, exchange):
            with session.request(exchange.method, url, data=exchange.request_body, stream=True) as response:
                return response.status_code, list(response.iter_content(512))

        yield send


@contextmanager
def bare_aiohttp():
    async def read(url, exchange):
        async with (
            aiohttp.ClientSession() as session,
            session.request(exchange.method, url, data=exchange.request_body) as response,
        ):
            return response.status, [piece async for piece in response.content.iter_any()]

    yield lambda url, exchange: asyncio.run(read(url, exchange))


def path_of(exchange):
    return "/" + exchange.url.partition("://")[2].partition("/")[2]


TRANSPORTS = (bare_httpx, bare_requests, bare_aiohttp)


@pytest.mark.parametrize(
    ("transport", "first", "every_nth"),
    [
        *((transport, place, 3) for place, transport in enumerate(TRANSPORTS)),  # each exchange through one of them
        *(pytest.param(transport, 0, 1, marks=pytest.mark.soak) for transport in TRANSPORTS),
    ],
)
def test_every_exchange_replays_byte_for_byte(transport, first, every_nth):
    """Through a bare transport each body and each of its chunks comes back as it came, whatever it holds."""
    with transport() as send:
        every = exchanges()[first::every_nth]
        calls = [lambda url, one=one: send(url + path_of(one), one) for one in every]
        url, results = recorded(
            (reply_of(one, seed), call) for seed, (one, call) in enumerate(zip(every, calls, strict=True))
        )
        for exchange, call, (live, observer) in zip(every, calls, results, strict=True):
            assert live[0] == exchange.status, exchange.source
            if exchange.status != 204:
                assert b"".join(live[1]) == exchange.response_body, exchange.source
            assert replayed(url, call, observer) == live, exchange.source
            (kept,) = observer.exchanges
            assert kept.outcome.exact, exchange.source
            assert kept.call.request.data == exchange.request_body, exchange.source
    assert len(every) >= EXCHANGES // every_nth


@functools.lru_cache(maxsize=2)
def clients(url):
    """Return the real clients for a server; making them anew for each call would cost most of the time."""
    return {
        "anthropic": anthropic.Anthropic(base_url=url, api_key="k", max_retries=0),
        "openai": openai.OpenAI(base_url=url, api_key="k", max_retries=0),
    }


def asked_path(exchange):
    """Return the path at which a real client asks for this exchange, or None where it has no such call."""
    for path in (CHAT, RESPONSES, COMPLETIONS, MESSAGES):
        if exchange.path.endswith(path):
            return path
    # Some servers take a chat's request at a path of their own.
    return CHAT if recognise(exchange.method, exchange.url, (), exchange.request_body) is OPENAI_CHAT else None


def client_call(exchange):
    """Return how the real client asks for this exchange, or None where it has no such call."""
    path = asked_path(exchange)
    if path is None or exchange.method != "POST":
        return None
    body = json.loads(exchange.request_body)
    streamed = exchange.media_type == "text/event-stream"
    of_anthropic = path == MESSAGES
    types = {
        MESSAGES: (anthropic.types.Message, anthropic.types.RawMessageStreamEvent),
        RESPONSES: (openai.types.responses.Response, openai.types.responses.ResponseStreamEvent),
        COMPLETIONS: (openai.types.Completion, openai.types.Completion),
        CHAT: (openai.types.chat.ChatCompletion, openai.types.chat.ChatCompletionChunk),
    }[path]

    def call(url):
        made = clients(url)["anthropic" if of_anthropic else "openai"]
        stream_type = anthropic.Stream if of_anthropic else openai.Stream
        got = []
        try:
            if streamed:
                options = {"stream": True, "stream_cls": stream_type[types[1]]}
                for event in made.post(path, body=body, cast_to=types[0], **options):
                    got.append(event.model_dump(warnings=False))
            else:
                answer = made.post(path, body=body, cast_to=types[0])
                got.append(answer.model_dump(warnings=False) if hasattr(answer, "model_dump") else answer)
        except Exception as error:
            got.append((type(error), str(error), type(error.__cause__)))
        return got

    return call


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_model_call_replays_with_equal_objects_through_the_real_client():
    """The openai and anthropic clients parse the same objects, or fail the same, from the tape as from the wire."""
    every = [(one, call) for one in exchanges() if (call := client_call(one)) is not None]
    url, results = recorded((reply_of(one, seed + 1000), call) for seed, (one, call) in enumerate(every))
    parsed = 0
    for (exchange, call), (live, observer) in zip(every, results, strict=True):
        assert replayed(url, call, observer) == live, exchange.source
        (kept,) = observer.exchanges
        assert kept.call.kind is Kind.MODEL, exchange.source
        assert kept.outcome.exact, exchange.source
        parsed += bool(live) and not isinstance(live[-1], tuple)
    assert len(every) >= CALLS
    assert parsed >= 320
