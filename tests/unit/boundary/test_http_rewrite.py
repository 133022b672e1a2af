"""A model request that is changed on its way out: what is asked, recorded and sent."""

from __future__ import annotations

import gzip
import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place, current
from otel_agent_replay.boundary.http_exchange import SentRequest, Served, begin_exchange
from otel_agent_replay.boundary.policy import FORK
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ConfigurationError, ReplayInterrupt
from otel_agent_replay.model import AnswerSource, Kind
from tests.support.tape_session import MemoryObserver, MemoryTape, recording, redaction

URL = "http://h.test/v1/chat/completions"
BODY = b'{"model": "old", "messages": [{"role": "user", "content": "hi"}]}'
NEW = BODY.replace(b"old", b"newer")
JSON = ("Content-Type", "application/json")


class Rewriter:
    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def rewrite(self, call, place, protocol, body, headers):
        self.asked.append((call.kind, place.step, protocol, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def begin(rewriter, body=BODY, headers=(), tape=(), url=URL):
    observer = MemoryObserver()
    session = Session(
        run_id=b"f" * 16,
        root=Place.root("agent"),
        mode=FORK,
        observer=observer,
        redaction=redaction(),
        prefix={AnswerSource.TAPE: MemoryTape(list(tape))},
    )
    session.edits = rewriter
    session.open()
    try:
        request = SentRequest("POST", url, (JSON, ("Content-Length", str(len(body))), *headers), body)
        return begin_exchange((session, session.root), lambda: request), observer
    finally:
        session.close()


def test_the_edited_request_is_what_is_sent_and_recorded():
    """The transport gets body and length, the observer the call that was really made, with a note."""
    rewriter = Rewriter(NEW)
    tap, observer = begin(rewriter)
    assert rewriter.asked == [(Kind.MODEL, 1, "openai.chat_completions", BODY)]
    assert tap.edited.body == NEW
    assert dict(tap.edited.headers)["Content-Length"] == str(len(NEW))
    (crossing,) = observer.begun
    assert crossing.source is AnswerSource.LIVE
    assert crossing.call.request.data == NEW
    assert crossing.call.attributes[semconv.REQUEST_MODEL] == "newer"
    assert crossing.call.notes == ("edited: model",)


def test_the_tape_is_asked_for_the_original():
    """A recorded answer to the request as the agent made it is served, and nothing is edited."""
    with recording() as observer:
        request = SentRequest("POST", URL, (JSON,), BODY)
        session, place = current.get()
        tap = begin_exchange((session, place), lambda: request)
        tap.head(200, "OK", (), "")
        tap.end()
    rewriter = Rewriter(NEW)
    served, replay = begin(rewriter, tape=observer.exchanges)
    assert isinstance(served, Served)
    assert rewriter.asked == []
    assert replay.begun[0].call.request.data == BODY


@pytest.mark.parametrize("answer", [None, BODY])
def test_what_is_not_edited_goes_as_the_client_made_it(answer):
    """None, or the same bytes, leave the request alone and without a note."""
    tap, observer = begin(Rewriter(answer))
    assert tap.edited is None
    assert observer.begun[0].call.notes == ()


def test_a_packed_request_is_unpacked_edited_and_sent_plain():
    """The rewriter sees JSON; digests of the old body and its coding are gone from the headers."""
    rewriter = Rewriter(NEW)
    packed = gzip.compress(BODY)
    tap, observer = begin(rewriter, packed, (("Content-Encoding", "gzip"), ("Content-MD5", "x"), ("X-A", "1")))
    assert rewriter.asked[0][3] == BODY
    assert tap.edited.body == NEW
    assert tap.edited.headers == (JSON, ("Content-Length", str(len(NEW))), ("X-A", "1"))
    assert observer.begun[0].call.request.data == NEW


@pytest.mark.parametrize(
    ("answer", "headers", "says"),
    [
        (ConfigurationError("no such path"), (), "no such path"),
        (NEW, (("Authorization", "AWS4-HMAC-SHA256 Credential=x"),), "signed"),
        (b'{"model": "m"}', (), "no request of openai.chat_completions"),
        (b"", (), "cannot be changed as wanted"),
    ],
)
def test_a_request_that_cannot_be_edited_is_not_sent(answer, headers, says):
    """The session stops with the reason, before anything is recorded as begun."""
    rewriter = Rewriter(answer)
    with pytest.raises(ReplayInterrupt, match=says):
        begin(rewriter, headers=headers)


def test_other_http_is_not_edited():
    """Only model requests are offered."""
    rewriter = Rewriter(NEW)
    with recording() as observer:
        session, place = current.get()
        session.edits = rewriter
        request = SentRequest("POST", "http://h.test/things", (JSON,), BODY)
        tap = begin_exchange((session, place), lambda: request)
        tap.end()
    assert (rewriter.asked, tap.edited) == ([], None)
    assert json.loads(observer.exchanges[0].call.request.data)["model"] == "old"
