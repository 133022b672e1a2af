"""An edited model request really leaves edited, whatever client sends it."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from otel_agent_replay.boundary import transports
from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.edited_requests import EditedRequests
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import anthropic_message, openai_chat, openai_chat_stream
from tests.support.http_clients import CLIENTS, client_of
from tests.support.tape_session import recording

BODY = b'{"model": "old",  "messages": [{"role": "user", "content": "hi"}]}'
EDITS = RequestEdits(model="a-much-longer-name", prompt="Sei nett. \u2713")
EDITED = EDITS.apply("openai.chat_completions", BODY)
JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


@pytest.fixture(params=CLIENTS)
def client(request):
    return client_of(request.param)


def fetch(client, body, headers, edits=EDITS, how="whole", **reply):
    with ScriptedProvider([Reply(b'{"ok": 1}', **reply)]) as provider, recording() as observer:
        current.get()[0].edits = EditedRequests(edits)
        got = client.fetch("POST", provider.url + "/v1/chat/completions", body, headers=headers, how=how)
    return got, provider.seen, observer


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_the_server_gets_the_edited_request(client, how):
    """Body and length are the edited ones, other headers the client's; the record says what was sent."""
    got, requests, observer = fetch(client, BODY, {**JSON, "x-mine": "1"}, how=how)
    assert (got.error, got.body) == (None, b'{"ok": 1}')
    (request,) = requests
    assert request.body == EDITED
    headers = {name.lower(): value for name, value in request.headers}
    assert headers["content-length"] == str(len(EDITED))
    assert headers["x-mine"] == "1"
    (exchange,) = observer.exchanges
    assert exchange.call.request.data == EDITED
    assert exchange.call.notes == ("edited: model, messages",)
    assert observer.losses == []


def test_a_packed_request_leaves_plain(client):
    """The server gets the edited JSON, and no header that calls it packed."""
    got, requests, _ = fetch(client, gzip.compress(BODY), {**JSON, "content-encoding": "gzip"})
    assert got.status == 200
    assert requests[0].body == EDITED
    assert "content-encoding" not in {name.lower() for name, _ in requests[0].headers}


def test_a_request_that_cannot_be_edited_does_not_leave(client):
    """The client's caller gets the interrupt, the server nothing."""
    with ScriptedProvider([Reply(b"{}")]) as provider, recording() as observer:
        current.get()[0].edits = EditedRequests(RequestEdits(last_user_message="x"))
        body = BODY.replace(b'"user"', b'"tool"')
        with pytest.raises(ReplayInterrupt, match="no user message"):
            client.fetch("POST", provider.url + "/v1/chat/completions", body, headers=JSON)
    assert provider.seen == []
    assert observer.begun == []


def test_the_clients_own_request_stays_as_it_was():
    """An httpx client tells its caller what it asked; the edit is no business of the client."""
    httpx = pytest.importorskip("httpx")
    with ScriptedProvider([Reply(b"{}")]) as provider, recording(), httpx.Client() as client:
        current.get()[0].edits = EditedRequests(EDITS)
        response = client.post(provider.url + "/v1/chat/completions", content=BODY, headers=JSON)
    assert response.request.content == BODY
    assert provider.seen[0].body == EDITED


def test_a_body_that_aiohttp_packs_itself_is_edited_before():
    """With `compress` the client packs what it is given: the edited body."""
    aiohttp = pytest.importorskip("aiohttp")

    async def run(url):
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=BODY, headers=JSON, compress="gzip") as response:
                return response.status

    with ScriptedProvider([Reply(b"{}")]) as provider, recording():
        current.get()[0].edits = EditedRequests(EDITS)
        assert asyncio.run(run(provider.url + "/v1/chat/completions")) == 200
    assert gzip.decompress(provider.seen[0].body) == EDITED


def test_real_clients_ask_another_model():
    """The clients of openai (plain, streaming, async) and anthropic send the edited request and read its answer."""
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    ask = {"model": "old", "messages": [{"role": "user", "content": "hi"}]}

    async def asynchronous(url):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="k") as client:
            return (await client.chat.completions.create(**ask)).choices[0].message.content

    script = [openai_chat("one"), openai_chat_stream("two"), openai_chat("three"), anthropic_message("four")]
    with ScriptedProvider(script) as provider, recording() as observer:
        current.get()[0].edits = EditedRequests(RequestEdits(model="new"))
        with openai.OpenAI(base_url=provider.url + "/v1", api_key="k") as client:
            said = [client.chat.completions.create(**ask).choices[0].message.content]
            stream = client.chat.completions.create(**ask, stream=True)
            said.append("".join(event.choices[0].delta.content or "" for event in stream if event.choices))
        said.append(asyncio.run(asynchronous(provider.url)))
        with anthropic.Anthropic(base_url=provider.url, api_key="k") as client:
            said.append(client.messages.create(**ask, max_tokens=9).content[0].text)
    assert said == ["one", "two", "three", "four"]
    assert [json.loads(request.body)["model"] for request in provider.seen] == ["new"] * 4
    assert [exchange.call.notes for exchange in observer.exchanges] == [("edited: model",)] * 4


class Elsewhere:
    """Sends every model request below another base URL, with another key."""

    def __init__(self, base_url):
        self.base_url = base_url

    def moved(self, protocol, url, headers):
        host = self.base_url.partition("//")[2]
        changed = {"host": host, "authorization": "Bearer new"}
        return self.base_url + "/gate/chat/completions", tuple(
            (name, changed.get(name.lower(), value)) for name, value in headers
        )


def test_a_request_goes_to_another_host_or_nowhere(client):
    """Its server gets path, host, key and edited body; a client that has connected by then sends nothing at all."""
    with ScriptedProvider([Reply(b'{"ok": 1}')]) as old, ScriptedProvider([Reply(b'{"ok": 2}')]) as new, recording():
        session = current.get()[0]
        session.edits, session.route = EditedRequests(EDITS), Elsewhere(new.url)
        headers = {**JSON, "authorization": "Bearer old"}
        try:
            got = client.fetch("POST", old.url + "/v1/chat/completions", BODY, headers=headers)
        except ReplayInterrupt as interrupt:
            assert "has connected to" in str(interrupt)
            assert (old.seen, new.seen) == ([], [])
            assert type(client).__name__ in ("Urllib3", "Requests")
            return
    assert (got.error, got.body, old.seen) == (None, b'{"ok": 2}', [])
    (request,) = new.seen
    assert (request.path, request.body) == ("/gate/chat/completions", EDITED)
    assert request.header("host") == new.url.partition("//")[2]
    assert [value for name, value in request.headers if name.lower() == "authorization"] == ["Bearer new"]
