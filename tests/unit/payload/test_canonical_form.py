"""Canonical JSON, capture levels, the memory of bodies, and the walk over JSON text."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.model import CaptureLevel, Payload, digest_of
from otel_agent_replay.payload import BodyHistory, apply_level, canonical_body, canonical_json
from otel_agent_replay.payload.json_text import places, unescaped, walk
from tests.property import strategies as own


@given(own.json_values())
def test_the_canonical_form_ignores_the_order_of_keys(tree):
    """Keys in any order give the same bytes, and the bytes parse to the same content."""

    def turned(value):
        if isinstance(value, dict):
            return {key: turned(item) for key, item in reversed(value.items())}
        return [turned(item) for item in value] if isinstance(value, list) else value

    assert canonical_json(turned(tree)) == canonical_json(tree)
    assert json.loads(canonical_json(tree)) == tree


def test_the_canonical_form_keeps_the_order_of_arrays():
    """The order of an array is content."""
    assert canonical_json([2, 1]) != canonical_json([1, 2])


def test_odd_values_have_a_canonical_form():
    """NaN, infinities and lone surrogates do not stop it."""
    assert canonical_json([math.nan, math.inf]) == b"[NaN,Infinity]"
    assert canonical_json("\ud800") == b'"\xed\xa0\x80"'


@pytest.mark.parametrize(
    ("media_type", "body", "expected"),
    [
        ("application/json; charset=utf-8", b'{ "b": 1, "a": 2 }', b'{"a":2,"b":1}'),
        ("application/problem+json", b"[ 1 ]", b"[1]"),
        ("text/plain", b"{ }", b"{ }"),
        ("application/json", b"{ broken", b"{ broken"),
        ("application/json", b"\xff", b"\xff"),
        ("", b"{ }", b"{ }"),
    ],
)
def test_only_json_bodies_are_changed(media_type, body, expected):
    """A JSON body that parses becomes canonical; everything else stays as it is."""
    assert canonical_body(body, media_type) == expected


def test_levels():
    """At `digest` the bytes go and the digest and size stay; else the payload is the same object."""
    payload = Payload.of(b"abc", "text/plain")
    only_digest = apply_level(payload, CaptureLevel.DIGEST)
    assert (only_digest.data, only_digest.digest, only_digest.size) == (None, payload.digest, 3)
    assert apply_level(payload, CaptureLevel.REDACTED) is payload
    assert apply_level(payload, CaptureLevel.FULL) is payload


def test_a_growing_conversation_is_a_small_delta():
    """The next request of a conversation is written as its difference to the one before."""
    history = BodyHistory()
    messages = [{"role": "user", "content": "x" * 1_000}]
    first = json.dumps({"messages": messages, "tools": ["t" * 500]}).encode()
    assert history.delta(first) is None
    history.remember(digest_of(first), first)
    messages.append({"role": "user", "content": "more"})
    second = json.dumps({"messages": messages, "tools": ["t" * 500]}).encode()
    digest, prefix, suffix = history.delta(second)
    assert digest == digest_of(first)
    assert len(second) - prefix - suffix < 60


def test_unrelated_bodies_are_stored_whole():
    """A delta that would save next to nothing is none."""
    history = BodyHistory()
    history.remember(b"d", b"a" * 100)
    assert history.delta(b"b" * 100) is None
    assert history.delta(b"") is None


@given(own.json_values(), st.booleans(), st.sampled_from([None, 1]))
def test_the_walk_finds_every_value_at_its_place(tree, ascii_only, indent):
    """Every leaf of a tree is found under its path, and its range is its text."""
    text = json.dumps(tree, ensure_ascii=ascii_only, indent=indent)
    found = {}
    for one in walk(text):
        if one.kind == "text":
            found[one.path] = unescaped(text[one.start : one.end])
        elif one.kind != "key":
            found[one.path] = json.loads(text[one.start : one.end])
    for path, value in found.items():
        place = tree
        for part in path:
            place = place[part]
        assert place == value
    assert () in found


@given(own.json_values(), st.data())
def test_the_walk_never_fails(tree, data):
    """A text of JSON that is cut anywhere, and any other text, is walked without an error."""
    text = json.dumps(tree)
    cut = text[: data.draw(st.integers(0, len(text)))]
    assert all(0 <= one.start <= one.end <= len(cut) for one in walk(cut))
    odd = data.draw(st.text('{}[]":,\\ a1', max_size=30))
    assert all(0 <= one.start <= one.end <= len(odd) for one in walk(odd))


@given(st.text(max_size=30), st.booleans())
def test_places_map_meaning_to_escapes(text, ascii_only):
    """Each character of a text is found at the escape that spells it."""
    raw = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    place = places(raw)
    assert unescaped(raw) == text
    for index, character in enumerate(text):
        assert unescaped(raw[place(index) : place(index + 1)]) == character
