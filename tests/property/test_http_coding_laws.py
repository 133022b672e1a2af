"""Content codings: packing and unpacking in any cutting, and masking inside."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.boundary.http_coding import CodingError, codings_of, decoded_body, decoded_chunks, masked
from otel_agent_replay.payload.redaction import Redaction

RULES = Redaction.default(key=b"k" * 32)
SECRET = b"sk-" + b"s3cr3tk3y" * 4


def _raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACK = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "raw deflate": _raw_deflate,
}


def cut(data, places):
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in zip(at, at[1:], strict=False)]


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=4000), st.lists(st.integers(0, 5000), max_size=8))
def test_any_cutting_unpacks_to_the_same(name, data, places):
    """Unpacking chunk by chunk gives one piece a chunk and together the whole."""
    chunks = cut(PACK[name](data), places)
    pieces = decoded_chunks(chunks, [name.split()[-1]])
    assert len(pieces) == len(chunks)
    assert b"".join(pieces) == data


@given(st.binary(max_size=500), st.lists(st.integers(0, 5000), max_size=5), st.integers(1, 600))
def test_a_prefix_unpacks_to_a_prefix(data, places, end):
    """A body that was closed early unpacks as far as it goes."""
    packed = gzip.compress(data, mtime=0)[:end]
    assert data.startswith(b"".join(decoded_chunks(cut(packed, places), ["gzip"])))


@given(
    st.sampled_from([(), ("gzip",), ("deflate",)]),
    st.text(alphabet='ab {}":,é\U0001f600', max_size=200),
    st.text(alphabet='cd {}":,ü', max_size=200),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_a_masked_body_keeps_its_chunks_and_loses_its_secret(codings, before, after, places):
    """However a body is packed and cut, as many chunks remain, they unpack, and the secret is gone."""
    plain = before.encode() + b" " + SECRET + b" " + after.encode()
    packed = PACK[codings[0]](plain) if codings else plain
    chunks = cut(packed, places)
    clean = masked(RULES, chunks, "text/plain", codings)
    assert len(clean.chunks) == len(chunks)
    assert not clean.exact
    unpacked = b"".join(decoded_chunks(clean.chunks, codings))
    assert unpacked == clean.plain
    assert SECRET not in unpacked
    assert b"s3cr3tk3y" not in unpacked


@given(st.sampled_from([(), ("gzip",)]), st.lists(st.integers(0, 5000), max_size=8))
def test_a_clean_body_is_kept_as_it_came(codings, places):
    """Where nothing is masked the very bytes are kept."""
    plain = b'{"text": "nothing to hide"}' * 9
    chunks = cut(PACK[codings[0]](plain) if codings else plain, places)
    clean = masked(RULES, list(chunks), "application/json", codings)
    assert clean.chunks == chunks
    assert clean.exact
    assert clean.plain == plain


def test_several_members_and_several_codings_unpack():
    """Gzip of two members, and deflate inside gzip, are unpacked whole."""
    two = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decoded_body(two, [("Content-Encoding", "gzip")]) == b"one two"
    assert decoded_body(two + b"rubbish", [("Content-Encoding", "gzip")]) == b"one two"
    both = gzip.compress(zlib.compress(b"both"))
    assert decoded_body(both, [("content-encoding", "deflate, gzip")]) == b"both"
    assert codings_of([("Content-Encoding", "Identity, GZIP")]) == ("gzip",)


def test_what_is_not_what_it_says_is_named():
    """Bytes of another coding, and codings we do not know, are an error that says which."""
    with pytest.raises(CodingError, match="not gzip"):
        decoded_chunks([b"plain text"], ["gzip"])
    with pytest.raises(CodingError, match="unknown content coding 'rot13'"):
        decoded_chunks([b"x"], ["rot13"])
    kept = masked(RULES, [b"plain text"], "text/plain", ["gzip"])
    assert kept.chunks == [b"plain text"]
    assert "could not be unpacked" in kept.notes[0]


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    """A body that unpacks to more than the bound is refused before it fills the memory."""
    from otel_agent_replay.boundary import http_coding

    monkeypatch.setattr(http_coding, "MOST_DECODED", 10_000)
    with pytest.raises(CodingError, match="more than"):
        decoded_chunks([gzip.compress(b"0" * 1_000_000)], ["gzip"])
