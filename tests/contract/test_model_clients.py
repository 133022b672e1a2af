"""The real openai and anthropic clients over the transports: recorded, then replayed with the server gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.boundary import transports
from otel_agent_replay.model import Kind, OutcomeStatus, SideEffect
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import (
    anthropic_message,
    anthropic_stream,
    echo,
    openai_chat,
    openai_chat_stream,
)
from tests.support.tape_session import recording, replaying

httpx2 = pytest.importorskip("httpx2")
openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

ASK = [{"role": "user", "content": "Wie geht's? \U0001f44b"}]
CALLS = [{"id": "call_1", "name": "refund", "arguments": '{"order": 7,  "eur": 1.50}'}]


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


def openai_plain(url, **more):
    with openai.OpenAI(base_url=url + "/v1", api_key="sk-" + "a" * 24, **more) as client:
        answer = client.chat.completions.create(model="gpt-4o-mini", messages=ASK, temperature=0.5)
        return [answer.model_dump()]


def openai_stream(url, **more):
    with openai.OpenAI(base_url=url + "/v1", api_key="sk-" + "a" * 24, **more) as client:
        stream = client.chat.completions.create(model="gpt-4o-mini", messages=ASK, stream=True)
        return [event.model_dump() for event in stream]


def openai_plain_async(url, **more):
    async def run():
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="sk-" + "a" * 24, **more) as client:
            answer = await client.chat.completions.create(model="gpt-4o-mini", messages=ASK, temperature=0.5)
            return [answer.model_dump()]

    return asyncio.run(run())


def openai_stream_async(url, **more):
    async def run():
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="sk-" + "a" * 24, **more) as client:
            stream = await client.chat.completions.create(model="gpt-4o-mini", messages=ASK, stream=True)
            return [event.model_dump() async for event in stream]

    return asyncio.run(run())


def anthropic_plain(url, **more):
    with anthropic.Anthropic(base_url=url, api_key="sk-ant-" + "a" * 24, **more) as client:
        answer = client.messages.create(model="claude-test", max_tokens=9, messages=ASK)
        return [answer.model_dump()]


def anthropic_streamed(url, **more):
    with anthropic.Anthropic(base_url=url, api_key="sk-ant-" + "a" * 24, **more) as client:
        stream = client.messages.create(model="claude-test", max_tokens=9, messages=ASK, stream=True)
        return [event.model_dump() for event in stream]


def anthropic_streamed_async(url, **more):
    async def run():
        async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-" + "a" * 24, **more) as client:
            async with client.messages.stream(model="claude-test", max_tokens=9, messages=ASK) as stream:
                return [event.model_dump() async for event in stream]

    return asyncio.run(run())


PLAIN = openai_chat("Gut. \U0001f600", tool_calls=CALLS)
STREAM = openai_chat_stream(["Gut", ". ", "\U0001f600"], tool_calls=CALLS)
CASES = {
    "openai": (openai_plain, PLAIN, "openai.chat_completions", "openai"),
    "openai stream": (openai_stream, STREAM, "openai.chat_completions", "openai"),
    "openai async": (openai_plain_async, PLAIN, "openai.chat_completions", "openai"),
    "openai stream async": (openai_stream_async, STREAM, "openai.chat_completions", "openai"),
    "anthropic": (anthropic_plain, anthropic_message("Gut."), "anthropic.messages", "anthropic"),
    "anthropic stream": (anthropic_streamed, anthropic_stream(["G", "ut."]), "anthropic.messages", "anthropic"),
    "anthropic async": (anthropic_streamed_async, anthropic_stream(["G", "ut."]), "anthropic.messages", "anthropic"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_call_replays_with_equal_objects(name):
    """What the client parsed from the recording equals what it parsed from the server."""
    call, reply, protocol, provider_name = CASES[name]
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = call(provider.url)
    assert observer.losses == []
    (exchange,) = observer.exchanges
    assert (exchange.call.kind, exchange.call.side_effect) == (Kind.MODEL, SideEffect.READ)
    facts = exchange.call.attributes
    assert facts[semconv.PROTOCOL] == protocol
    assert facts[semconv.PROVIDER_NAME] == provider_name
    assert exchange.call.name == "chat"  # not the model, so that a run on another one lines up
    assert exchange.outcome.result.data == reply.body
    assert exchange.outcome.attributes[semconv.RESPONSE_MODEL] == facts[semconv.REQUEST_MODEL]
    assert "sk-" not in repr(exchange)
    with replaying(observer.exchanges):
        assert call(provider.url) == live


@pytest.mark.parametrize("call", [openai_plain, openai_plain_async, openai_stream])
def test_each_attempt_of_a_retry_is_an_exchange(call):
    """A 500 that the client retries is one exchange, the answer that follows another."""
    later = Reply(b'{"error": {"message": "later"}}', 500, headers=(("retry-after-ms", "1"),))
    good = STREAM if call is openai_stream else PLAIN
    with ScriptedProvider([later, good]) as provider, recording() as observer:
        live = call(provider.url)
    assert [one.outcome.head.status for one in observer.exchanges] == [500, 200]
    with replaying(observer.exchanges):
        assert call(provider.url) == live


@pytest.mark.parametrize(
    ("call", "reply", "error"),
    [
        (openai_plain, Reply(b'{"error": {"message": "no"}}', 401), openai.AuthenticationError),
        (openai_plain, Reply(ending="silent_at_once"), openai.APITimeoutError),
        (openai_plain_async, Reply(ending="no_answer"), openai.APIConnectionError),
        (anthropic_plain, Reply(b'{"type": "error"}', 529), anthropic.APIStatusError),
        (anthropic_plain, Reply(ending="no_answer"), anthropic.APIConnectionError),
    ],
)
def test_an_error_of_the_client_replays_as_the_same_class(call, reply, error):
    """The client turns the replayed transport error or status into the same exception of its own."""
    with ScriptedProvider([reply]) as provider, recording() as observer, pytest.raises(error) as live:
        call(provider.url, max_retries=0, timeout=0.3)
    with replaying(observer.exchanges), pytest.raises(error) as replayed:
        call(provider.url, max_retries=0, timeout=0.3)
    assert type(replayed.value) is type(live.value)
    assert str(replayed.value) == str(live.value)
    assert type(replayed.value.__cause__) is type(live.value.__cause__)
    if live.value.__cause__ is not None and hasattr(live.value.__cause__, "request"):
        assert str(replayed.value.__cause__.request.url) == str(live.value.__cause__.request.url)


def test_a_stream_that_is_cut_fails_after_the_same_events():
    """A connection that breaks in mid-stream gives the same events and then the same error."""

    def events_and_error(url):
        got = []
        with openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
            try:
                for event in client.chat.completions.create(model="m", messages=ASK, stream=True):
                    got.append(event.model_dump())
            except Exception as error:
                return got, type(error), str(error)
        return got, None, None

    reply = Reply.of_events(STREAM.body[:-200], ending="cut")
    with ScriptedProvider([reply]) as provider, recording() as observer:
        live = events_and_error(provider.url)
    assert live[1] is not None
    assert observer.exchanges[0].outcome.status is OutcomeStatus.ERROR
    with replaying(observer.exchanges):
        assert events_and_error(provider.url) == live


def test_a_stream_closed_half_way_is_kept_as_far_as_it_was_read():
    """A reader that breaks out of the stream leaves a prefix on the tape, which replays."""

    def first_events(url):
        with openai.OpenAI(base_url=url + "/v1", api_key="k") as client:
            with client.chat.completions.create(model="m", messages=ASK, stream=True) as stream:
                return [next(iter(stream)).model_dump()]

    with ScriptedProvider([Reply.of_events(STREAM.body, ending="silent")]) as provider, recording() as observer:
        live = first_events(provider.url)
    assert observer.exchanges[0].outcome.closed_early
    with replaying(observer.exchanges):
        assert first_events(provider.url) == live


def test_output_that_no_parser_understands_is_kept_and_marked():
    """A body that is not what the protocol says is kept byte for byte, and the outcome says so."""
    garbage = b'{"choices": [ oops \xff'
    with ScriptedProvider([Reply(garbage)]) as provider, recording() as observer:
        with openai.OpenAI(base_url=provider.url + "/v1", api_key="k") as client:
            raw = client.chat.completions.with_raw_response.create(model="m", messages=ASK)
        assert raw.content == garbage
    outcome = observer.exchanges[0].outcome
    assert outcome.result.data == garbage
    assert outcome.attributes[semconv.MALFORMED]


@pytest.mark.parametrize("oddity", [b'{"id": "chatcmpl-1", "cho', b"<html>busy</html>", b'{"id": "\xff"}'])
def test_one_malformed_event_in_a_stream_is_kept_and_marked(oddity):
    """The rest is read, and the outcome says which event it was, for a reader of bytes and a client that gives up."""
    broken = STREAM.body.replace(b"\n\ndata: [DONE]", b"\n\ndata: %s\n\n%s" % (oddity, STREAM.body))

    def read_bytes(url):
        body = {"model": "m", "messages": ASK, "stream": True}
        return [httpx2.post(url + "/v1/chat/completions", json=body, timeout=10).content]

    for call in (read_bytes, openai_stream):
        with ScriptedProvider([Reply.of_events(broken)]) as provider, recording() as observer:
            with contextlib.suppress(ValueError):  # the client's, of JSON that is none
                assert call(provider.url) == [broken]
        (exchange,) = observer.exchanges
        assert broken.startswith(exchange.outcome.result.data), call
        assert oddity in exchange.outcome.result.data
        assert re.match(r"event 7 is (no JSON object|not UTF-8)", exchange.outcome.attributes[semconv.MALFORMED]), call
        assert exchange.outcome.attributes[semconv.RESPONSE_MODEL] == "gpt-4o-mini"


@pytest.mark.parametrize("name", ["anthropic-version", "anthropic-beta", "openai-beta"])
def test_a_header_that_changes_the_answer_makes_another_call(name):
    """The same body under another version or beta is another call; under another request id it is the same."""
    with ScriptedProvider([PLAIN]) as provider, recording() as observer, httpx2.Client() as client:
        for more in ({name: "1"}, {name: "2"}, {name: "2", "x-request-id": "7"}):
            client.post(provider.url + "/v1/chat/completions", json={"model": "m", "messages": ASK}, headers=more)
    first, second, third = (exchange.call.digest for exchange in observer.exchanges)
    assert first != second
    assert second == third


def test_the_raw_response_of_a_client_replays():
    """`with_streaming_response` sees the recorded bytes too."""

    def lines(url):
        with openai.OpenAI(base_url=url + "/v1", api_key="k") as client:
            with client.chat.completions.with_streaming_response.create(model="m", messages=ASK) as response:
                return [response.http_response.http_version, *response.iter_lines()]

    with ScriptedProvider([PLAIN]) as provider, recording() as observer:
        live = lines(provider.url)
    with replaying(observer.exchanges):
        assert lines(provider.url) == live


def test_gathered_calls_of_a_client_find_their_answers_in_any_order():
    """Ten parallel prompts replay with their own answers when they are started in reverse."""

    async def ask(url, numbers):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="k") as client:

            async def one(number):
                messages = [{"role": "user", "content": f"number {number}"}]
                answer = await client.chat.completions.create(model="m", messages=messages)
                return answer.choices[0].message.content

            return dict(zip(numbers, await asyncio.gather(*map(one, numbers)), strict=True))

    numbers = list(range(10))
    with ScriptedProvider(echo) as provider, recording() as observer:
        live = asyncio.run(ask(provider.url, numbers))
    assert live[7] == "number 7"
    with replaying(observer.exchanges):
        assert asyncio.run(ask(provider.url, numbers[::-1])) == live


def test_a_secret_split_over_chunks_reaches_no_outcome():
    """A credential in a streamed answer is masked although no chunk holds it whole; the reader still gets it."""
    secret = "sk-" + "s3cr3tk3y" * 4
    body = f"data: {json.dumps({'choices': [], 'note': secret})}\n\n".encode()
    at = body.index(secret.encode())
    reply = Reply.of_events(body, cuts=[at + 5, at + 11])
    with ScriptedProvider([reply]) as provider, recording() as observer:
        import httpx

        with httpx.stream("POST", provider.url + "/v1/chat/completions", json={"messages": []}) as response:
            assert secret in "".join(response.iter_text())
    outcome = observer.exchanges[0].outcome
    assert b"s3cr3tk3y" not in outcome.result.data
    assert not outcome.exact
    assert sum(chunk.size for chunk in outcome.chunks) == outcome.result.size
