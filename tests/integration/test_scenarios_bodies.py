"""Bodies as users have reported them broken by recorders: packed, binary, cut anywhere, endless, retried.

One script holds all agents; it is recorded once and replayed once, in the reverse order of its agents, with the
server gone. The numbers are those of the scenario table in tests/README.md.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from otel_agent_replay.model import Kind, OutcomeStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream
from tests.support.agents import Script, assert_same, nodes_of

pytest.importorskip("openai")
pytest.importorskip("httpx")
pytest.importorskip("requests")

SOURCE = """
import asyncio, base64, gzip, hashlib, json, os, sys
import httpx, openai, requests
import otel_agent_replay as replay

URL = os.environ["SERVER"]

def shown(data):
    return base64.b64encode(data).decode()

@replay.agent
async def lines():
    found = []
    with httpx.Client() as client, client.stream("GET", URL + "/lines") as response:
        found += list(response.iter_lines())
    async with httpx.AsyncClient() as client, client.stream("GET", URL + "/lines") as response:
        found += [line async for line in response.aiter_lines()]
    return found

@replay.agent
def endless():
    found = []
    with httpx.Client() as client, client.stream("GET", URL + "/endless") as response:
        for piece in response.iter_raw():
            found.append(shown(piece))
            if len(found) == 3:
                return [found[0], len(found)]

@replay.agent
def packed():
    found = {}
    with httpx.Client() as client:
        with client.stream("GET", URL + "/packed") as response:
            raw = b"".join(response.iter_raw())
            found["httpx raw"] = [shown(raw), gzip.decompress(raw).decode()]
        found["httpx decoded"] = client.get(URL + "/packed").text
        found["httpx empty"] = client.get(URL + "/packed-empty").text
        head = client.head(URL + "/packed")
        found["httpx head"] = [head.headers["content-encoding"], head.text]
    with requests.get(URL + "/packed", stream=True) as response:
        found["requests raw"] = gzip.decompress(response.raw.read(decode_content=False)).decode()
    found["requests decoded"] = requests.get(URL + "/packed").text
    return found

@replay.agent
def binary():
    document = b"%PDF-1.7 " + bytes(range(256)) * 3
    sent = httpx.post(URL + "/mirror", content=document, headers={"content-type": "application/pdf"})
    form = requests.post(URL + "/digest", files={"file": ("voice.ogg", document, "audio/ogg")})
    return [shown(sent.content), sent.content == document, form.text]

@replay.agent
def cut_characters():
    client = openai.OpenAI(base_url=URL + "/cut/v1", api_key="sk-none")
    messages = [{"role": "user", "content": "naïve 🙂"}]
    events = client.chat.completions.create(model="m", messages=messages, stream=True)
    return "".join(event.choices[0].delta.content or "" for event in events)

@replay.agent
def version():
    response = httpx.get(URL + "/lines")
    return "modern" if response.http_version == "HTTP/2" else response.http_version

@replay.agent
def retried():
    client = openai.OpenAI(base_url=URL + "/retry/v1", api_key="sk-none", max_retries=2)
    answer = client.chat.completions.with_raw_response.create(model="m", messages=[{"role": "user", "content": "?"}])
    return [answer.parse().choices[0].message.content, answer.retries_taken]

agents = [lines, endless, packed, binary, cut_characters, version, retried]
if "reversed" in sys.argv:
    agents.reverse()
results = {agent.__name__: asyncio.run(agent()) if agent is lines else agent() for agent in agents}
with open(sys.argv[1], "w") as file:
    json.dump(results, file, sort_keys=True)
"""

TEXT = "It\x85is naïve\u2028🙂, said the “model”."
PACKED = "a packed body, " * 20


def server():
    asked = defaultdict(int)
    whole = openai_chat_stream([TEXT[:7], TEXT[7:]]).body
    in_characters = [at for at, byte in enumerate(whole) if 0x80 <= byte < 0xC0]

    def script(request):
        asked[request.path] += 1
        if request.path == "/lines":
            return Reply(b"one\ntwo\r\nthree \xc2\x85 four\n", cuts=[2, 9, 17], framing="chunked")
        if request.path == "/endless":
            return Reply(
                b"data: tick\n\n", headers=(("content-type", "text/event-stream"),), ending="endless", framing="chunked"
            )
        if request.path == "/packed":
            return Reply(PACKED.encode(), headers=(("content-type", "text/plain"),), coding="gzip", cuts=[10, 20])
        if request.path == "/packed-empty":
            return Reply(b"", headers=(("content-encoding", "gzip"),))
        if request.path == "/mirror":
            return Reply(request.body, headers=(("content-type", "application/pdf"),))
        if request.path == "/digest":
            return Reply(str(request.body.count(b"PDF-1.7")).encode(), headers=(("content-type", "text/plain"),))
        if request.path.startswith("/cut"):
            return Reply(whole, headers=(("content-type", "text/event-stream"),), cuts=in_characters, framing="chunked")
        if asked[request.path] == 1:
            return Reply(b'{"error": {"message": "later"}}', 500, headers=(("retry-after-ms", "1"),))
        return openai_chat("at last")

    return ScriptedProvider(script)


class Lived:
    def __init__(self, folder):
        with server() as provider:
            self.script = Script(folder, SOURCE, SERVER=provider.url)
            self.runs = self.script.record("live.json")
        self.verdict = self.script.replay(self.runs["packed"], "replayed.json", "reversed", allow_write=[folder])
        self.folder = folder

    def result(self, agent):
        """Return what the agent gave when it was recorded, having seen that it gave the same in the replay."""
        live, replayed = (json.loads((self.folder / name).read_text()) for name in ("live.json", "replayed.json"))
        assert replayed[agent] == live[agent]
        return live[agent]


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return Lived(tmp_path_factory.mktemp("bodies"))


def test_runs_of_a_process_replay_in_another_order(lived):
    """Scenario 18: the agents of a process replay the same when they run in another order than recorded."""
    assert_same(lived.verdict)
    assert len(lived.verdict.others) == 6


def test_reading_by_lines_is_not_disturbed(lived):
    """Scenario 1: `iter_lines` and `aiter_lines` of a stream see the server's lines, recorded and replayed."""
    assert lived.result("lines") == ["one", "two", "three ", " four"] * 2  # httpx itself ends a line at U+0085


def test_a_body_that_never_ends_is_recorded_as_far_as_it_was_read(lived):
    """Scenario 2: an event stream without end passes through; what was read of it is kept, and closed early."""
    assert lived.result("endless")[1] == 3
    (node,) = nodes_of(lived.runs["endless"], Kind.HTTP)
    assert node.outcome.closed_early
    assert node.outcome.status is OutcomeStatus.OK
    assert node.outcome.result.size < 100_000


def test_packed_bodies_are_read_raw_and_unpacked(lived):
    """Scenario 3: gzip is kept as it came on the wire; raw readers, decoding readers, HEAD and empty bodies agree."""
    found = lived.result("packed")
    assert (
        found["httpx raw"][1] == found["httpx decoded"] == found["requests raw"] == found["requests decoded"] == PACKED
    )
    assert found["httpx empty"] == ""
    assert found["httpx head"] == ["gzip", ""]


def test_binary_bodies_come_back_byte_for_byte(lived):
    """Scenario 4: an upload and an answer that are no text are kept whole."""
    _, mirrored, parts = lived.result("binary")
    assert mirrored
    assert parts == "1"
    nodes = nodes_of(lived.runs["binary"], Kind.HTTP)
    document = b"%PDF-1.7 " + bytes(range(256)) * 3
    assert lived.runs["binary"].payload(nodes[0].outcome.result.digest) == document


def test_characters_cut_between_chunks_stay_whole(lived):
    """Scenarios 5 and 6: every multi-byte character is cut, and U+0085 and U+2028 end no event."""
    assert lived.result("cut_characters") == TEXT
    (node,) = nodes_of(lived.runs["cut_characters"], Kind.MODEL)
    assert len(node.outcome.chunks) > 5


def test_the_http_version_is_replayed(lived):
    """Scenario 7: code that branches on `http_version` takes the same branch."""
    assert lived.result("version") == "HTTP/1.1"


def test_a_retry_of_the_client_is_two_exchanges(lived):
    """500, then 200: each attempt is an exchange of its own, and the replay retries just so."""
    assert lived.result("retried") == ["at last", 1]
    nodes = nodes_of(lived.runs["retried"], Kind.MODEL)
    assert [node.outcome.head.status for node in nodes] == [500, 200]
