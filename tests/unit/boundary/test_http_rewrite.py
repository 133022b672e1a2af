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

    def address(self, url):
        return url


class Route:
    """Another endpoint; `key` takes the place of the client's."""

    def __init__(self, url, key="new"):
        self.url = url
        self.key = key

    def moved(self, protocol, url, headers):
        return self.url, tuple((name, self.key if name == "x-key" else value) for name, value in headers)


def begin(rewriter, body=BODY, headers=(), tape=(), url=URL, route=None, movable=True):
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
    session.route = route
    session.open()
    try:
        given = (JSON, ("Content-Length", str(len(body))), *headers)
        request = SentRequest("POST", url, given, body, movable=movable)
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


ELSEWHERE = "http://other.test:9/gate/v1/chat/completions"


def test_a_request_is_sent_to_another_endpoint_and_is_known_by_what_was_asked():
    """URL and headers are the route's, the body is edited too; the record says both, and what the agent asked."""
    tap, observer = begin(Rewriter(NEW), headers=(("x-key", "old"),), route=Route(ELSEWHERE))
    assert (tap.edited.url, tap.edited.body, dict(tap.edited.headers)["x-key"]) == (ELSEWHERE, NEW, "new")
    call = observer.begun[0].call
    assert call.head.url == ELSEWHERE
    assert call.notes == ("edited: model", "edited: sent to other.test:9 instead of h.test")
    original, _ = begin(None)
    assert call.asked == original.crossing.call.digest


def test_a_client_that_has_connected_already_is_not_sent_elsewhere():
    """To the same host it may still be sent, to another path there."""
    with pytest.raises(ReplayInterrupt, match="has connected to h.test already"):
        begin(None, route=Route(ELSEWHERE), movable=False)
    tap, _ = begin(None, route=Route("http://h.test/v2/chat/completions"), movable=False)
    assert tap.edited.url == "http://h.test/v2/chat/completions"


@pytest.mark.parametrize("header", [("Authorization", "AWS4-HMAC-SHA256 Credential=x"), ("Signature", "sig1=:x:")])
def test_what_its_client_has_signed_is_not_sent_elsewhere_or_edited(header):
    """The signature covers path and body: it is said what to change instead, and nothing leaves."""
    for rewriter, route in ((None, Route(ELSEWHERE)), (Rewriter(NEW), None)):
        with pytest.raises(ReplayInterrupt, match="signed it .* change model and endpoint where the client is made"):
            begin(rewriter, headers=(header,), route=route)


def test_a_route_that_leads_to_no_model_is_refused():
    """What is no request of the protocol any more is not sent."""
    with pytest.raises(ReplayInterrupt, match="no request of openai.chat_completions"):
        begin(None, route=Route("http://other.test/upload"))
