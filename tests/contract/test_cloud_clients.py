"""Bedrock by AWS's own client and Gemini over HTTP: recorded, then replayed with the server gone."""

from __future__ import annotations

import json
import re

import anthropic
import botocore.session
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import EventStreamError

from otel_agent_replay import semconv
from otel_agent_replay.boundary import transports
from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import Kind, SideEffect
from otel_agent_replay.protocols import PROTOCOLS, frames_of
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.edited_requests import EditedRequests
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import anthropic_message, anthropic_stream
from tests.support.bedrock_bodies import chunk, converse_stream, exception, text_answer
from tests.support.http_clients import CLIENTS, client_of
from tests.support.tape_session import recording, replaying

MODEL = "amazon.nova-micro-v1:0"
ASK = [{"role": "user", "content": [{"text": "Wie geht's? \U0001f44b"}]}]
FRAMES = (("content-type", "application/vnd.amazon.eventstream"),)
SECRET = "AKIA" + "QYLPMN5HNM4OPXYZ"


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


def aws(url):
    session = botocore.session.get_session()
    session.set_credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    config = Config(retries={"max_attempts": 0}, parameter_validation=True)
    return session.create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config)


def converse(url):
    answer = aws(url).converse(modelId=MODEL, messages=ASK, inferenceConfig={"maxTokens": 9})
    return [answer["output"], answer["stopReason"], answer["usage"]]


def converse_streamed(url):
    stream = aws(url).converse_stream(modelId=MODEL, messages=ASK)["stream"]
    got = []
    try:
        got.extend(stream)
    except EventStreamError as error:
        got.append((type(error).__name__, str(error)))
    stream.close()
    return got


def invoke(url):
    answer = aws(url).invoke_model(modelId=MODEL, body=json.dumps({"messages": ASK, "schemaVersion": "messages-v1"}))
    return [json.loads(answer["body"].read())]


def invoke_streamed(url):
    asked = json.dumps({"prompt": "hi", "max_gen_len": 9})
    stream = aws(url).invoke_model_with_response_stream(modelId="meta.llama3-8b-instruct-v1:0", body=asked)["body"]
    return [json.loads(event["chunk"]["bytes"]) for event in stream]


PLAIN = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Gut. \U0001f600"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
}
CONVERSED = converse_stream(*text_answer("Gut", ". ", "\U0001f600"))
BROKEN = converse_stream(*text_answer("Gut")[:2]) + exception("modelStreamErrorException", {"message": "broke"})
LLAMA = chunk({"generation": "Gu"}) + chunk({"generation": "t.", "stop_reason": "stop", "prompt_token_count": 4})


def framed(body):
    return Reply(body, headers=FRAMES, framing="chunked", cuts=range(7, len(body), 50))


BEDROCK = {
    "converse": (converse, Reply.of_json(PLAIN), "aws.bedrock_converse", "Gut. \U0001f600"),
    "converse stream": (converse_streamed, framed(CONVERSED), "aws.bedrock_converse", "Gut. \U0001f600"),
    "converse exception": (converse_streamed, framed(BROKEN), "aws.bedrock_converse", "Gut"),
    "invoke": (invoke, Reply.of_json(PLAIN), "aws.bedrock_invoke", "Gut. \U0001f600"),
    "invoke stream": (invoke_streamed, framed(LLAMA), "aws.bedrock_invoke", "Gut."),
}


@pytest.mark.parametrize("name", BEDROCK)
def test_a_bedrock_call_replays_with_equal_objects(name):
    """What AWS's client parsed from the recording equals what it parsed from the server, frame by frame."""
    call, reply, protocol, text = BEDROCK[name]
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = call(provider.url)
    assert observer.losses == []
    (exchange,) = observer.exchanges
    assert (exchange.call.kind, exchange.call.side_effect, exchange.call.name) == (Kind.MODEL, SideEffect.READ, "chat")
    facts = exchange.call.attributes
    assert (facts[semconv.PROTOCOL], facts[semconv.PROVIDER_NAME]) == (protocol, "aws.bedrock")
    assert facts[semconv.REQUEST_MODEL] == (MODEL if call is not invoke_streamed else "meta.llama3-8b-instruct-v1:0")
    assert facts[semconv.REQUEST_STREAM] == ("stream" in name or "exception" in name)
    kept = exchange.outcome.result
    assert (kept.data, exchange.outcome.exact) == (reply.body, True)
    assert PROTOCOLS[protocol].fold(kept.data, kept.media_type, 200).text == text
    assert (semconv.RESPONSE_TIME_TO_FIRST_CHUNK in exchange.outcome.attributes) == facts[semconv.REQUEST_STREAM]
    assert "AKIDEXAMPLE" not in repr(exchange)
    with replaying(observer.exchanges):
        assert call(provider.url) == live


def test_a_secret_in_frames_is_masked_and_the_frames_stay_whole():
    """A key spelled over two frames of text, or within base64, is masked; checksums hold, so that a client can read."""
    spelled = converse_stream(*text_answer("the key is " + SECRET[:9], SECRET[9:] + "."))
    packed = chunk({"generation": "the key is " + SECRET + "."}) + chunk({"generation": "", "stop_reason": "stop"})
    for call, body in ((converse_streamed, spelled), (invoke_streamed, packed)):
        with ScriptedProvider([framed(body)]) as provider, recording() as observer:
            live = call(provider.url)
        (exchange,) = observer.exchanges
        kept = exchange.outcome.result.data
        assert SECRET in json.dumps(live) or SECRET[9:] in json.dumps(live)
        assert not exchange.outcome.exact
        assert [frame.problem for frame in frames_of(kept)] == [None] * len(list(frames_of(body)))
        assert sum(one.size for one in exchange.outcome.chunks) == len(kept)
        protocol = PROTOCOLS[exchange.call.attributes[semconv.PROTOCOL]]
        text = protocol.fold(kept, exchange.outcome.result.media_type, 200).text
        assert text.startswith("the key is ")
        assert text.endswith(".")
        assert SECRET not in text
        with replaying(observer.exchanges):
            again = call(provider.url)
        assert len(again) == len(live)
        assert SECRET[9:] not in json.dumps(again)


def test_another_guardrail_is_another_call():
    """A guardrail travels in headers of its own and changes the answer: the calls have two digests."""
    with ScriptedProvider([BEDROCK["invoke"][1]]) as provider, recording() as observer:
        for version in ("1", "2", "2"):
            body = json.dumps({"messages": ASK, "schemaVersion": "messages-v1"})
            aws(provider.url).invoke_model(
                modelId=MODEL, body=body, guardrailIdentifier="abc", guardrailVersion=version
            )["body"].read()
    first, second, third = (exchange.call.digest for exchange in observer.exchanges)
    assert first != second
    assert second == third


CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi \U0001f44b"}]}]}
CHUNKS = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Gu"}]}}], "modelVersion": "gemini-x"},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "t. \U0001f600"}]}, "finishReason": "STOP"}],
     "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2}, "modelVersion": "gemini-x"},
]  # fmt: skip
EVENTS = b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in CHUNKS)
ARRAY = b"[" + b",\r\n".join(json.dumps(one, ensure_ascii=False).encode() for one in CHUNKS) + b"\r\n]"
GEMINI = {
    "plain": ("/v1beta/models/gemini-x:generateContent", Reply.of_json(
        {"candidates": [{"content": {"parts": [{"text": "Gut. \U0001f600"}]}, "finishReason": "STOP"}],
         "modelVersion": "gemini-x"})),
    "events": ("/v1beta/models/gemini-x:streamGenerateContent?alt=sse&key=AIzaSyTest", Reply.of_events(EVENTS)),
    "array": ("/v1/projects/p/locations/l/publishers/google/models/gemini-x:streamGenerateContent",
              Reply(ARRAY, framing="chunked", cuts=range(11, len(ARRAY), 40))),
}  # fmt: skip


@pytest.mark.parametrize("name", GEMINI)
def test_a_gemini_call_replays_in_every_form(name):
    """Plain, as events and as an array: a model exchange with its facts, whose chunks come back as they came."""
    path, reply = GEMINI[name]

    def call(url):
        with httpx.Client() as client, client.stream("POST", url + path, json=CONTENTS) as response:
            return list(response.iter_bytes())

    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = call(provider.url)
    (exchange,) = observer.exchanges
    facts = exchange.call.attributes
    assert (exchange.call.kind, exchange.call.name) == (Kind.MODEL, "generate_content")
    assert (facts[semconv.PROTOCOL], facts[semconv.REQUEST_MODEL]) == ("google.generate_content", "gemini-x")
    assert exchange.outcome.attributes[semconv.RESPONSE_MODEL] == "gemini-x"
    kept = exchange.outcome.result
    assert PROTOCOLS["google.generate_content"].fold(kept.data, kept.media_type, 200).text == "Gut. \U0001f600"
    assert (semconv.RESPONSE_TIME_TO_FIRST_CHUNK in exchange.outcome.attributes) == (name != "plain")
    assert "AIzaSyTest" not in repr(exchange)
    with replaying(observer.exchanges):
        assert call(provider.url) == live


@pytest.mark.parametrize("streamed", [False, True])
def test_claude_on_vertex_ai_replays_through_its_own_client(streamed):
    """Anthropic's client for Vertex AI names the model in the URL; recorded as Messages, replayed with equals."""

    def call(url):
        options = {"access_token": "ya29.not-to-be-kept", "region": "us-east5", "project_id": "p", "max_retries": 0}
        with anthropic.AnthropicVertex(base_url=url + "/v1", **options) as client:
            asked = {
                "model": "claude-sonnet-4@20250514",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
            }
            if streamed:
                return [event.model_dump() for event in client.messages.create(stream=True, **asked)]
            return [client.messages.create(**asked).model_dump()]

    reply = anthropic_stream(["G", "ut."]) if streamed else anthropic_message("Gut.")
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = call(provider.url)
    (seen,) = provider.seen
    assert "model" not in seen.json
    (exchange,) = observer.exchanges
    facts = exchange.call.attributes
    assert (exchange.call.kind, facts[semconv.PROTOCOL]) == (Kind.MODEL, "anthropic.messages")
    assert (facts[semconv.REQUEST_MODEL], facts[semconv.REQUEST_STREAM]) == ("claude-sonnet-4@20250514", streamed)
    assert "ya29" not in repr(exchange)
    with replaying(observer.exchanges):
        assert call(provider.url) == live


@pytest.mark.parametrize("name", ["events", "array"])
def test_a_secret_over_two_pieces_of_gemini_is_masked(name):
    """A key that the model spells in two pieces is masked in both forms of its stream, which stay what they are."""
    pieces = [
        {"candidates": [{"content": {"parts": [{"text": text}]}}]} for text in (SECRET[:9], SECRET[9:] + " is it")
    ]
    framed_as = {
        "events": Reply.of_events(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in pieces)),
        "array": Reply(json.dumps(pieces, indent=2).encode(), framing="chunked", cuts=[60, 140, 200]),
    }
    with ScriptedProvider([framed_as[name]]) as provider, recording() as observer, httpx.Client() as client:
        with client.stream("POST", provider.url + GEMINI[name][0], json=CONTENTS) as response:
            live = list(response.iter_bytes())
    (exchange,) = observer.exchanges
    kept = exchange.outcome.result
    folded = PROTOCOLS["google.generate_content"].fold(kept.data, kept.media_type, 200)
    assert folded.text.endswith(" is it")
    assert SECRET not in folded.text
    assert SECRET[9:].encode() not in kept.data
    assert len(exchange.outcome.chunks) == len(live)


@pytest.fixture(params=CLIENTS)
def client(request):
    return client_of(request.param)


def test_another_model_leaves_in_the_url(client):
    """An edited Gemini request goes to the other model's path, its body as it was; the record says so."""
    body = json.dumps(CONTENTS).encode()
    with ScriptedProvider([GEMINI["plain"][1]]) as provider, recording() as observer:
        current.get()[0].edits = EditedRequests(RequestEdits(model="gemini-y"))
        url = provider.url + "/v1beta/models/gemini-x:generateContent?alt=json"
        got = client.fetch("POST", url, body, headers={"content-type": "application/json"})
    assert (got.error, got.status) == (None, 200)
    (seen,) = provider.seen
    assert (seen.path, seen.body) == ("/v1beta/models/gemini-y:generateContent?alt=json", body)
    (exchange,) = observer.exchanges
    assert exchange.call.attributes[semconv.REQUEST_MODEL] == "gemini-y"
    assert exchange.call.notes == ("edited: model in the URL",)


def test_an_edited_request_is_signed_again_as_what_is_sent():
    """AWS's signature covers body and path: the other model's path carries a signature of its own, which fits."""
    with ScriptedProvider([BEDROCK["converse"][1]]) as provider, recording() as observer:
        current.get()[0].edits = EditedRequests(RequestEdits(model="amazon.nova-pro-v1:0"))
        converse(provider.url)
    (seen,) = provider.seen
    assert seen.path == "/model/amazon.nova-pro-v1%3A0/converse"
    given = dict(seen.headers)
    sent = {name.title(): value for name, value in given.items()}
    made = AWSRequest("POST", provider.url + seen.path, data=seen.body)
    signed = re.search(r"SignedHeaders=([^,]+)", sent["Authorization"])[1].split(";")
    for name in signed:
        if name != "host":
            made.headers[name.title()] = sent[name.title()]
    made.context["timestamp"] = sent["X-Amz-Date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), "bedrock", "us-east-1")
    expected = auth.signature(auth.string_to_sign(made, auth.canonical_request(made)), made)
    assert sent["Authorization"].endswith(f"Signature={expected}")
    (exchange,) = observer.exchanges
    assert exchange.call.notes == ("edited: model in the URL",)


def test_what_somebody_else_has_signed_is_not_changed_behind_its_signature(client):
    """A signature that nobody here can make again: an edit is refused, and nothing is sent."""
    with ScriptedProvider([BEDROCK["converse"][1]]) as provider, recording():
        current.get()[0].edits = EditedRequests(RequestEdits(model="amazon.nova-pro-v1:0"))
        url = provider.url + f"/model/{MODEL}/converse"
        headers = {"content-type": "application/json", "authorization": "AWS4-HMAC-SHA256 Credential=x"}
        with pytest.raises(ReplayInterrupt, match="the client has signed it"):
            client.fetch("POST", url, json.dumps({"messages": ASK}).encode(), headers=headers)
    assert provider.seen == []
