"""The tap on a live exchange: ends it once, bounds its memory, keeps what came."""

from __future__ import annotations

import gc
import hashlib
import zlib

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.boundary import http_tap
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.http_call import SentRequest, call_of
from otel_agent_replay.boundary.http_tap import ResponseTap, finish_abandoned
from otel_agent_replay.boundary.policy import RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import FailurePhase, OutcomeStatus
from tests.support.tape_session import MemoryObserver, redaction

EVENTS = (("content-type", "text/event-stream"),)
SECRET = "sk-" + "s3cr3tk3y" * 4


@pytest.fixture
def observer():
    return MemoryObserver()


@pytest.fixture
def tap(observer):
    return make_tap(observer)


def make_tap(observer, body=b'{"messages": [], "model": "m"}', url="http://h.test/v1/chat/completions"):
    session = Session(run_id=b"r" * 16, root=Place.root("agent"), mode=RECORD, observer=observer, redaction=redaction())
    request = SentRequest("POST", url, (("content-type", "application/json"),), body, streamed=body is None)
    call, protocol = call_of(session.redaction, request)
    return ResponseTap(session.begin(call, session.root), protocol, request, 0)


def test_only_the_first_end_counts(tap, observer):
    """End, close and failure may all be told; the crossing ends as the first said."""
    tap.head(200, "OK", (), "HTTP/1.1")
    tap.end()
    tap.close()
    tap.fail(ValueError("late"))
    assert [one.outcome.status for one in observer.exchanges] == [OutcomeStatus.OK]
    assert not observer.exchanges[0].outcome.closed_early


def test_a_failure_before_the_head_is_of_the_call(tap, observer):
    """Without a head there is no result, and the failure's phase is the call."""
    tap.fail(TimeoutError("slow"))
    outcome = observer.exchanges[0].outcome
    assert (outcome.status, outcome.head, outcome.result) == (OutcomeStatus.ERROR, None, None)
    assert outcome.failure.phase is FailurePhase.CALL


def test_a_failure_in_the_body_keeps_what_came(tap, observer):
    """The chunks before the failure are the result, the failure's phase is the body."""
    tap.head(200, "OK", (), "HTTP/1.1")
    tap.chunk(b"ab")
    tap.fail(ConnectionResetError(104, "reset"))
    outcome = observer.exchanges[0].outcome
    assert outcome.result.data == b"ab"
    assert outcome.failure.phase is FailurePhase.BODY
    assert outcome.failure.type.endswith(":ConnectionResetError")


def test_an_interrupted_caller_is_cancelled_and_a_generator_that_closes_left_early(observer):
    """Exceptions that are no Exception mean that the caller gave up; GeneratorExit that it left."""
    make_tap(observer).fail(KeyboardInterrupt())
    left = make_tap(observer)
    left.head(200, "OK", (), "")
    left.fail(GeneratorExit())
    assert [one.outcome.status for one in observer.exchanges] == [OutcomeStatus.CANCELLED, OutcomeStatus.OK]
    assert observer.exchanges[1].outcome.closed_early


def test_a_long_stream_is_told_in_parts(observer, monkeypatch):
    """A stream that never ends is handed over piece by piece; the outcome has the digest of the whole, no data."""
    monkeypatch.setattr(http_tap, "PART_OF_STREAM", 1000)
    monkeypatch.setattr(http_tap, "OVERLAP", 100)
    tap = make_tap(observer)
    tap.head(200, "OK", EVENTS, "HTTP/1.1")
    pieces = [b"data: {%d}\n\n" % number for number in range(1000)]
    most_held = 0
    for piece in pieces:
        tap.chunk(piece)
        most_held = max(most_held, sum(map(len, tap._data)))
    tap.close()
    (exchange,) = observer.exchanges
    whole = b"".join(pieces)
    assert most_held < 1200
    assert b"".join(data for data, _ in exchange.parts) == whole
    assert [chunk.size for _, chunks in exchange.parts for chunk in chunks] == [len(piece) for piece in pieces]
    times = [chunk.after_ns for _, chunks in exchange.parts for chunk in chunks]
    assert times == sorted(times)
    result = exchange.outcome.result
    assert (result.data, result.size, result.digest) == (None, len(whole), hashlib.sha256(whole).digest())
    assert exchange.outcome.chunks == ()
    assert len(exchange.parts) > 5


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_a_secret_across_two_parts_is_masked(observer, monkeypatch, cut):
    """A credential that straddles the border of two parts appears in neither."""
    monkeypatch.setattr(http_tap, "PART_OF_STREAM", 300)
    monkeypatch.setattr(http_tap, "OVERLAP", 120)
    tap = make_tap(observer)
    tap.head(200, "OK", EVENTS, "HTTP/1.1")
    text = (b"x" * (280 - cut) + f" {SECRET} ".encode() + b"y" * 400) * 2
    for at in range(0, len(text), 20):
        tap.chunk(text[at : at + 20])
    tap.end()
    (exchange,) = observer.exchanges
    kept = b"".join(data for data, _ in exchange.parts)
    assert len(exchange.parts) > 1
    assert b"s3cr3tk3y" not in kept
    assert len(kept) == len(text)
    assert not exchange.outcome.exact


def test_a_slow_stream_is_told_in_parts_by_time(observer, monkeypatch):
    """A stream that trickles for long is handed over although it is small."""
    monkeypatch.setattr(http_tap, "PART_AFTER_NS", 0)
    monkeypatch.setattr(http_tap, "OVERLAP", 4)
    tap = make_tap(observer)
    tap.head(200, "OK", EVENTS, "HTTP/1.1")
    for _ in range(5):
        tap.chunk(b"data: 1\n\n")
    assert observer.begun[0].session.observer._parts


def test_a_packed_body_beyond_the_bound_is_not_held(observer, monkeypatch):
    """What cannot be looked into in parts is dropped beyond a size, and the outcome says so."""
    monkeypatch.setattr(http_tap, "MOST_PACKED", 1000)
    tap = make_tap(observer)
    tap.head(200, "OK", (("content-encoding", "gzip"),), "HTTP/1.1")
    for _ in range(20):
        tap.chunk(b"p" * 100)
    tap.end()
    outcome = observer.exchanges[0].outcome
    assert outcome.result.size == 0
    assert not outcome.exact
    assert not outcome.round_trips
    assert "not kept" in outcome.notes[0]


def test_a_masked_packed_body_is_packed_anew(tap, observer):
    """A secret inside a gzip body is masked; the kept bytes unpack, chunk by chunk as before."""
    plain = [b'{"a": "', SECRET[:9].encode(), SECRET[9:].encode() + b'", ', b'"b": 1}']
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    chunks = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in plain]
    chunks[-1] += packer.flush()
    tap.head(200, "OK", (("content-encoding", "gzip"), ("content-type", "application/json")), "HTTP/1.1")
    for chunk in chunks:
        tap.chunk(chunk)
    tap.end()
    outcome = observer.exchanges[0].outcome
    assert not outcome.exact
    assert len(outcome.chunks) == len(chunks)
    reader = zlib.decompressobj(31)
    start, pieces = 0, []
    for chunk in outcome.chunks:
        pieces.append(reader.decompress(outcome.result.data[start : start + chunk.size]))
        start += chunk.size
    assert reader.eof
    assert [len(piece) for piece in pieces] == [len(piece) for piece in plain]
    assert b"s3cr3tk3y" not in b"".join(pieces)


def test_a_dropped_tap_is_ended_by_the_next(observer):
    """Collection only sets the tap aside: ending a crossing in the middle of a collection could dead-lock."""
    tap = make_tap(observer)
    tap.head(200, "OK", (), "")
    tap.chunk(b"a")
    del tap
    gc.collect()
    assert observer.exchanges == []
    finish_abandoned()
    assert observer.exchanges[0].outcome.closed_early
    assert observer.exchanges[0].outcome.result.data == b"a"


def test_a_defect_while_ending_still_ends_the_crossing(tap, observer, monkeypatch):
    """If keeping the response fails, the crossing ends with its head and a note, and the loss is counted."""

    def broken(*_args):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(http_tap, "masked", broken)
    tap.head(200, "OK", (), "")
    tap.chunk(b"a")
    tap.end()
    outcome = observer.exchanges[0].outcome
    assert outcome.head.status == 200
    assert not outcome.round_trips
    assert outcome.notes
    assert [loss.what for loss in observer.losses] == ["keeping a response"]


def test_a_huge_upload_is_held_to_its_bound(observer, monkeypatch):
    """Of a streamed upload beyond the bound the first part is kept, and the call says so."""
    monkeypatch.setattr(http_tap, "MOST_UPLOADED", 100)
    tap = make_tap(observer, body=None, url="http://h.test/upload")
    for _ in range(30):
        tap.uploaded(b"u" * 10)
    tap.head(200, "OK", (), "")
    tap.end()
    call = observer.exchanges[0].call
    assert call.request.size == 100
    assert not call.round_trips
    assert "300 bytes" in call.notes[0]


def test_the_facts_of_an_answer(tap, observer):
    """Status, model and tokens of a provider's answer are on the outcome."""
    body = b'{"id": "r1", "model": "m-2", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}'
    tap.head(200, "OK", (("content-type", "application/json"),), "HTTP/1.1")
    tap.chunk(body)
    tap.end()
    facts = observer.exchanges[0].outcome.attributes
    assert facts[semconv.HTTP_STATUS] == 200
    assert facts[semconv.RESPONSE_MODEL] == "m-2"
    assert facts[semconv.USAGE_INPUT_TOKENS] == 3
    assert semconv.MALFORMED not in facts
