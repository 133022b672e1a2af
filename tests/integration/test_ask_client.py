"""Sending a question: retries, waits, limits, and no other endpoint; our own traffic is not recorded."""

from __future__ import annotations

import threading

import pytest

import otel_agent_replay as replay
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.protocols import OPENAI_CHAT
from otel_agent_replay.replay.ask.candidate import Question
from otel_agent_replay.replay.ask.client import Client, Patience, Unanswered
from otel_agent_replay.replay.ask.destination import endpoint_of
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply, refused_url
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream

QUICK = Patience(connect_s=5, answer_s=30, longest_wait_s=5, attempts=3)
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'


def question(url, allowed=None):
    return Question(
        url + "/v1/chat/completions", (("content-type", "application/json"),), BODY, OPENAI_CHAT, "openai", "m",
        frozenset({endpoint_of(allowed or url)}),
    )  # fmt: skip


def ask(script, patience=QUICK, **more):
    """What a client makes of one question to a server of this script; and what the server saw."""
    with ScriptedProvider(script) as provider:
        client = Client(patience=patience, **more)
        try:
            return client.ask(question(provider.url)), provider.seen
        except Unanswered as error:
            return error, provider.seen
        finally:
            client.close()


def test_what_is_sent_is_the_question_byte_for_byte():
    """The server sees the body and headers of the question, once."""
    answer, seen = ask([openai_chat("Hello")])
    assert (answer.status, answer.media_type) == (200, "application/json")
    assert OPENAI_CHAT.fold(answer.body, answer.media_type, answer.status).text == "Hello"
    assert [one.body for one in seen] == [BODY]
    assert answer.latency_ns >= answer.first_byte_ns > 0


def test_a_streamed_answer_is_read_to_its_end():
    """All pieces of a stream come back as one body, packed ones unpacked."""
    for reply in (openai_chat_stream(["Hel", "lo"]), openai_chat_stream(["Hel", "lo"], coding="gzip", cuts=())):
        answer, _ = ask([reply])
        assert OPENAI_CHAT.fold(answer.body, answer.media_type, 200).text == "Hello"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_what_is_not_paid_for_is_tried_again(status):
    """A busy or broken server is asked again, after the time that it asks for."""
    waits = []
    stopping = threading.Event()
    stopping.wait = waits.append
    busy = Reply.of_json({"error": {"message": "busy"}}, status=status)
    slow = Reply(busy.body, status, (*busy.headers, ("retry-after", "2")))
    answer, seen = ask([busy, slow, openai_chat("Hello")], stopping=stopping)
    assert answer.status == 200
    assert len(seen) == 3
    assert 0 < waits[0] <= 0.5
    assert waits[1] == 2


def test_retries_end():
    """After so many attempts there is no answer, and nothing is in doubt; the provider's words are kept."""
    stopping = threading.Event()
    stopping.wait = lambda _: False
    error, seen = ask([Reply.of_json({"error": {"message": "busy"}}, status=503)], stopping=stopping)
    assert isinstance(error, Unanswered)
    assert not error.in_doubt
    assert "HTTP 503" in str(error)
    assert "busy" in str(error)
    assert len(seen) == 3


def test_a_wait_that_is_too_long_is_not_waited_for():
    """A server that asks for an hour gets none: the question is unanswered at once."""
    reply = Reply(b"{}", 429, (("retry-after", "3600"),))
    error, seen = ask([reply])
    assert "asks to wait 3600 s" in str(error)
    assert len(seen) == 1


@pytest.mark.parametrize(("status", "refused"), [(400, False), (401, True), (403, True), (404, False), (302, False)])
def test_what_will_not_change_is_not_tried_again(status, refused):
    """A wrong request, a wrong key and a redirect are told at once; redirects are not followed."""
    reply = Reply(b'{"error": "no"}', status, (("location", "http://127.0.0.1:1/"),))
    error, seen = ask([reply])
    assert f"HTTP {status}" in str(error)
    assert error.refused is refused
    assert not error.in_doubt
    assert len(seen) == 1


@pytest.mark.parametrize("ending", ["cut", "reset", "no_answer", "reset_at_once"])
def test_what_may_have_been_paid_for_is_in_doubt(ending):
    """A connection that ends after the question was sent leaves it in doubt, and it is not sent again."""
    error, seen = ask([Reply(openai_chat("Hello").body, ending=ending)])
    assert isinstance(error, Unanswered)
    assert error.in_doubt
    assert len(seen) == 1


def test_an_answer_that_does_not_come_is_in_doubt():
    """Silence beyond the patience leaves the question in doubt."""
    error, seen = ask([Reply(ending="silent_at_once")], Patience(answer_s=0.3, attempts=3))
    assert error.in_doubt
    assert len(seen) == 1


def test_a_refused_connection_is_no_doubt():
    """Where nobody listens nothing was paid: it is tried again, then unanswered."""
    stopping = threading.Event()
    waits = []
    stopping.wait = waits.append
    with refused_url() as url, pytest.raises(Unanswered, match="no connection") as caught:
        Client(patience=QUICK, stopping=stopping).ask(question(url))
    assert not caught.value.in_doubt
    assert len(waits) == 2


def test_nothing_is_sent_where_it_may_not_go():
    """A question whose address is neither recorded nor declared is refused before a connection is made."""
    with ScriptedProvider([openai_chat("Hello")]) as provider:
        with pytest.raises(CannotJudge, match="nothing is sent"):
            Client().ask(question(provider.url, allowed="http://127.0.0.1:1"))
        assert provider.seen == []


def test_our_own_questions_are_not_recorded(tmp_path):
    """Under a recorder that would take any model call for a run, a question leaves no trace."""
    replay.configure(lake=tmp_path, seal="off", process_run=True)
    try:
        assert ask([openai_chat("Hello")])[0].status == 200
    finally:
        replay.shutdown()
    seal(tmp_path)
    kinds = [str(node.kind) for found in Lake(tmp_path).runs() for node in Lake(tmp_path).load(found.run.run_id).nodes]
    assert "model" not in kinds
