"""Protocol replay below the command: recorded pieces, packed bodies, and what is judged."""

from __future__ import annotations

import gzip
import zlib

from otel_agent_replay.model import (
    Call,
    Chunk,
    HttpRequestHead,
    HttpResponseHead,
    Kind,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
    WireExchange,
)
from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.replay.protocol import AS_RECORDED, Parser, judge, model_exchanges, protocol_of
from otel_agent_replay.testing.builders import MODEL_URL, run
from otel_agent_replay.testing.recorded_bodies import chat_request, chat_stream

BODY = chat_stream(["Sun", "ny ☀"]).data
SSE = "text/event-stream"
CHAT = PROTOCOLS["openai.chat_completions"]


def recorded(stored, sizes, headers=(("content-type", SSE),), **more):
    request = chat_request([{"role": "user", "content": "q"}])
    head = HttpRequestHead("POST", MODEL_URL, (("content-type", "application/json"),))
    call = Call(Kind.MODEL, "chat", SideEffect.READ, request, head)
    chunks = tuple(Chunk(size, 1000) for size in sizes)
    answer = HttpResponseHead(200, "OK", headers)
    outcome = Outcome(OutcomeStatus.OK, Payload.of(stored, SSE), answer, chunks, **more)
    return run("weather").crossing(call, outcome).build("x")


def test_recorded_pieces_come_back():
    """The pieces in which a body was read are those of the exchange, and its cuts lie between them."""
    (exchange,), skipped = model_exchanges(recorded(BODY, [10, 0, len(BODY) - 10]))
    assert (exchange.body, exchange.sizes, exchange.cuts) == (BODY, (10, 0, len(BODY) - 10), (10, 10))
    assert skipped == []
    assert protocol_of(exchange) is CHAT


def test_a_packed_body_is_unpacked_piece_by_piece():
    """Of a packed body the pieces are what each stored piece unpacks to, so that cuts inside characters stay."""
    packer = zlib.compressobj(wbits=31)
    parts = [BODY[:40], BODY[40:41], BODY[41:]]
    packed = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    packed[-1] += packer.flush()
    headers = (("content-type", SSE), ("content-encoding", "gzip"))
    (exchange,), _ = model_exchanges(recorded(b"".join(packed), map(len, packed), headers))
    assert (exchange.body, exchange.sizes) == (BODY, (40, 1, len(BODY) - 41))


def test_pieces_that_do_not_add_up_are_not_believed():
    """Sizes that are not those of the stored body give the body whole."""
    (exchange,), _ = model_exchanges(recorded(BODY, [3]))
    assert (exchange.body, exchange.sizes) == (BODY, ())


def test_a_body_that_cannot_be_unpacked_is_named():
    """A damaged packing leaves the exchange out, with the reason."""
    headers = (("content-encoding", "gzip"),)
    exchanges, skipped = model_exchanges(recorded(b"no gzip at all", [14], headers))
    assert exchanges == []
    assert "cannot be unpacked" in skipped[0][1]


def test_what_is_not_quite_what_came_is_said():
    """A masked body and one that was closed early carry a note."""
    (exchange,), _ = model_exchanges(recorded(BODY, [len(BODY)], exact=False, closed_early=True))
    assert [note.partition(":")[0] for note in exchange.notes] == [
        "a secret was masked inside",
        "the reader closed it early",
    ]


def test_the_recorded_pieces_are_read_without_being_asked_for():
    """A parser that breaks at a recorded cut is found with no random chunking at all."""
    at = BODY.index("☀".encode()) + 1 if "☀".encode() in BODY else len(BODY) // 2
    exchange = WireExchange("x", BODY, SSE, sizes=(at, len(BODY) - at))
    breaks = Parser("theirs", lambda _exchange, pieces: {"text": str(len(pieces))})
    judged = judge(exchange, CHAT, [breaks])
    assert [(item.parser, item.number, item.count) for item in judged.rechunked] == [
        ("ours", None, 1),
        ("theirs", AS_RECORDED, 1),
    ]
    assert judged.rechunked[1].cuts == (at,)
    assert not judged.same


def test_nothing_asked_is_nothing_claimed():
    """With no second parser and no chunking nothing was compared, and nothing says that it was."""
    judged = judge(WireExchange("x", BODY, SSE), CHAT)
    assert (judged.compared, judged.rechunked, judged.unjudged) == ([], [], "")
    assert judged.values["ours"]["text"] == "Sunny ☀"


def test_an_unknown_api_has_nothing_of_ours():
    """Where the API is unknown a parser is not held against anything, and that is said."""
    judged = judge(WireExchange("x", gzip.compress(b"?")), None, [Parser("theirs", lambda _e, _p: {"text": ""})])
    assert judged.folded is None
    assert "the API is unknown" in judged.unjudged
