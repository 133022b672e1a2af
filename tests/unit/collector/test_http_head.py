"""Heads of HTTP requests are read strictly, bodies in chunks whole or not at all."""

import pytest
from otel_agent_replay_collector.http_head import Chunks, read_head
from otel_agent_replay_collector.refusal import Refused

POST = b"POST /v1/traces HTTP/1.1\r\n"


def test_a_head_is_read():
    """Names in any case, a query left out, parameters of a content type left out."""
    head = read_head(
        b"POST /v1/traces?x=1 HTTP/1.1\r\nContent-Type: application/JSON; charset=utf-8\r\nContent-Length: 12\r\nX: y"
    )
    assert (head.method, head.path, head.length, head.content_type) == (b"POST", b"/v1/traces", 12, b"application/json")
    assert head.keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /v1/traces",
        b"post /v1/traces HTTP/1.1",
        b"POST  /v1/traces HTTP/1.1",
        b"POST /v1/traces HTTP/2.0",
        b"POST /v1/tr\x00aces HTTP/1.1",
        POST + b"no colon",
        POST + b" folded: x",
        POST + b"a b: x",
        POST + b"content-length: -1",
        POST + b"content-length: 0x10",
        POST + b"content-length: 1\r\ncontent-length: 1",
        POST + b"content-length: 1\r\ntransfer-encoding: chunked",
        POST + b"transfer-encoding: gzip, chunked",
        POST + b"x: a\nb: c",
    ],
)
def test_what_two_readers_could_take_differently_is_refused(data):
    """A head that is not exactly one request is no request."""
    with pytest.raises(Refused) as refused:
        read_head(data)
    assert refused.value.http in (400, 501)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_are_put_together_however_they_are_cut(size):
    """Any cutting of the bytes gives the same body, and what follows is kept for the next request."""
    sent = b"4\r\nWiki\r\n6;note=1\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\n\r\nPOST"
    chunks, at = Chunks(100), 0
    while not chunks.done:
        assert chunks.feed(sent[at : at + size])
        at += size
    assert bytes(chunks.body) == b"Wikipedia in \r\n\r\nchunks."
    assert chunks.rest + sent[at:] == b"POST"


@pytest.mark.parametrize("sent", [b"x\r\n", b"\r\n", b"1\r\nab\r\n", b"FFFFFFFFF\r\n", b"-1\r\n", b"y" * 20_000])
def test_broken_chunks_are_refused(sent):
    """A size that is none, or a chunk that is longer than it says, ends the request."""
    with pytest.raises(Refused):
        Chunks(100).feed(sent)


def test_chunks_over_the_limit_are_told_before_they_have_come():
    """A chunk that says that it is too large is not waited for."""
    assert not Chunks(100).feed(b"FFFF\r\n")
