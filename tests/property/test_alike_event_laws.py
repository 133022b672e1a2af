"""A stream that is known to hold nothing by its form is one in which the whole search finds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.payload.alike_events import holds_nothing
from otel_agent_replay.payload.credentials import runs_of
from otel_agent_replay.payload.masks import cut, cuts_of
from otel_agent_replay.payload.redaction import Redaction

SECRET, SHORT_SECRET = "zebra-crossing-in-a-long-run-1234", "tr0ub4dor&3"
pieces = st.sampled_from(
    ["", " ", "word ", "sk-", "abcdefghij", "1234567890", "ABCDEFGH12", "Bearer ", "api_key", "=", '"', "\\", "\n", "é"]
    + [
        "\\n",
        'password": "',
        "x" * 9,
        "eyJ",
        ".",
        "@",
        "://",
        "ghp_",
        "zebra-crossing-",
        "in-a-long-run-1234",
        "tr0ub4",
    ]
    + ["dor&3", SECRET, SHORT_SECRET, "token", "tokens "]
)


def openai(piece: str, number: int) -> str:
    deltas: list[dict[str, str]] = [{"content": piece}]
    if number == 0:
        deltas.insert(0, {"role": "assistant", "content": ""})
    return "".join(
        "data: " + json.dumps({"id": "chatcmpl-" + "B" * 29, "choices": [{"index": 0, "delta": delta}]}) + "\n\n"
        for delta in deltas
    )


def padded(piece: str, number: int) -> str:
    event = {"choices": [{"delta": {"content": piece}}], "obfuscation": "abcdefg"[: number % 7]}
    return "data: " + json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n\n"


def anthropic(piece: str, number: int) -> str:
    events = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}]
    if number == 0:
        events.insert(0, {"type": "content_block_start", "content_block": {"type": "text", "text": ""}})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def lines(piece: str, number: int) -> str:
    return json.dumps({"model": "m", "response": piece, "done": number > 11}) + "\n"


def two_texts(piece: str, number: int) -> str:
    name = "reasoning" if number < 7 else "content"
    return "data: " + json.dumps({"token": "t", "choices": [{"delta": {name: piece}}]}) + "\n\n"


forms = st.sampled_from([openai, padded, anthropic, lines, two_texts])
texts = st.lists(pieces | st.just("word "), min_size=1, max_size=16)
cuts = st.lists(st.integers(0, 4000), max_size=4)


def stream_of(form: Callable[[str, int], str], given_pieces: list[str]) -> bytes:
    return "".join([form(piece, number) for number, piece in enumerate(given_pieces)]).encode()


@given(forms, texts, cuts, st.sampled_from([(), (SECRET,), (SHORT_SECRET,), (SECRET, SHORT_SECRET)]))
def test_what_is_known_by_its_form_is_what_the_search_finds(form, given_pieces, places, learnt) -> None:
    """A stream comes out the same whether it is first looked at by its form or not, however its secrets are split."""
    data = stream_of(form, given_pieces)
    ends = sorted({*(place for place in places if place < len(data)), len(data)})
    redaction = Redaction.default()
    for secret in learnt:
        redaction.learn(secret)
    kind = "application/x-ndjson" if form is lines else "text/event-stream"
    chunks = cut(data, ends)
    redacted, moved = redaction._redacted(data, kind, cuts_of(chunks), typed=False)
    assert redaction.chunks(chunks, kind) == cut(redacted, moved)
    if holds_nothing(data, lambda part: redaction._learnt.may_be_in(part, runs_of(part))):
        assert redacted == data


def test_ordinary_streams_of_models_are_known_by_their_form() -> None:
    """A stream of words needs no search, in each provider's form of it; one that spells a key does."""
    for form in (openai, padded, anthropic, lines):
        assert holds_nothing(stream_of(form, ["word ", 'a "quoted\\" one', "\n"] * 5), lambda _: False), form
        assert not holds_nothing(stream_of(form, ["word "] * 9 + ["sk-a", "bcdefghij12", "34567890"]), lambda _: False)
        assert not holds_nothing(stream_of(form, ["word "] * 12), lambda _: True)
