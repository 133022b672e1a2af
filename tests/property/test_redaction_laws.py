"""Laws of redaction."""

from __future__ import annotations

import json
import string

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from otel_agent_replay.model import CaptureLevel
from otel_agent_replay.payload import Redaction, decode, encode
from tests.property import strategies as own

ACTIONS = ["mask", "hash", "drop"]
RULES = st.lists(
    st.one_of(
        st.builds(dict, action=st.sampled_from(ACTIONS), preset=st.sampled_from(["email", "us_ssn", "ip_address"])),
        st.builds(
            dict, action=st.sampled_from(ACTIONS), pattern=st.sampled_from([r"\d{3,}", "a+", r"(?i)x.?y", r"\W{2}"])
        ),
        st.builds(dict, action=st.sampled_from(ACTIONS), key=st.sampled_from(["^a$", "content", "ssn"])),
        st.builds(
            dict, action=st.sampled_from(ACTIONS), path=st.sampled_from(["messages[*].content", "**.b", "n", "a.*"])
        ),
    ),
    max_size=3,
)
MEDIA = st.sampled_from(["application/json", "text/plain", "text/event-stream", "application/x-www-form-urlencoded"])
relaxed = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, str]:
    media = draw(MEDIA)
    piece = st.one_of(
        own.tokens(),
        st.sampled_from(
            ["ann@example.org", "123-45-6789", "10.0.0.1", "[masked]***", '{"a": 1, "password": "hunter2"}']
        ),
        st.text(max_size=10),
    )
    text = " ".join(draw(st.lists(piece, max_size=4)))
    if media == "application/json":
        tree = {"messages": [{"content": text, "b": draw(own.json_values(3))}], "a": draw(own.json_values(4)), "n": 5}
        return json.dumps(tree, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"), media
    if media == "text/event-stream":
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)])]
        events = [json.dumps({"index": 0, "delta": {"partial_json": one}}) for one in pieces]
        return "".join(f"event: x\ndata: {event}\n\n" for event in events).encode(), media
    return text.encode("utf-8", "surrogatepass"), media


@given(bodies(), RULES)
@settings(parent=relaxed)
def test_redaction_is_idempotent(body, rules):
    """A redacted body is not changed by a second redaction."""
    data, media = body
    redaction = Redaction.from_rules(rules, key=b"k")
    once = redaction.body(data, media)
    assert redaction.body(once, media) is once


@given(st.data(), bodies(), RULES)
@settings(parent=relaxed)
def test_any_chunking_redacts_the_same(data, body, rules):
    """However a body is cut, as many chunks come back and together they are the redacted body."""
    whole, media = body
    redaction = Redaction.from_rules(rules, key=b"k")
    chunks = data.draw(own.chunkings(whole))
    redacted = redaction.chunks(chunks, media)
    assert len(redacted) == len(chunks)
    assert b"".join(redacted) == redaction.body(whole, media)


@given(st.data(), own.tokens())
@settings(parent=relaxed)
def test_a_credential_never_survives(data, secret):
    """A credential that is known by its shape is in no redacted body, at any level."""
    body, media = data.draw(own.bodies_with(secret))
    assert secret.encode() in body
    for level in CaptureLevel:
        assert secret.encode() not in Redaction.default(level=level).body(body, media)


@given(st.data(), own.SECRETS)
@settings(parent=relaxed)
def test_a_learnt_secret_never_survives(data, secret):
    """A learnt secret is in no redacted body, neither as it is nor as the body's format spells it."""
    assume(secret not in "user assistant content messages function arguments" and not secret.isdigit())
    body, media = data.draw(own.bodies_with(secret))
    redaction = Redaction.default()
    redaction.learn(secret)
    redacted = redaction.body(body, media)
    assert redacted != body
    assert secret.encode() not in redacted
    if media.startswith("application/json"):
        assert secret not in json.dumps(json.loads(redacted), ensure_ascii=False)
        assert not _holds(json.loads(redacted), secret)


def _holds(tree, secret: str) -> bool:
    if isinstance(tree, dict):
        return any(_holds(key, secret) or _holds(value, secret) for key, value in tree.items())
    if isinstance(tree, list):
        return any(_holds(item, secret) for item in tree)
    if isinstance(tree, str) and tree[:1] == "{":
        try:
            return _holds(json.loads(tree), secret)
        except ValueError:
            pass
    return isinstance(tree, str) and secret in tree


@given(st.data(), own.tokens())
@settings(parent=relaxed)
def test_a_credential_spelled_over_events_never_survives(data, secret):
    """A credential that a stream spells out piece by piece is not in the text that the events make together."""
    text = f"the key is {secret} ok"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=1, max_size=6)))
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)])]
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    media_type, event_of, piece_of = SHAPES[shape]
    before, after = ("data: ", "\n\n") if media_type == "text/event-stream" else ("", "\n")
    body = "".join(before + json.dumps(event_of(piece)) + after for piece in pieces).encode()
    redacted = Redaction.default().body(body, media_type)
    assert len(redacted) == len(body)
    lines = [line.removeprefix(before) for line in redacted.decode().split("\n") if line]
    spelled = "".join(piece_of(json.loads(line)) for line in lines)
    assert secret not in spelled
    assert spelled.startswith("the key is ")
    assert spelled.endswith(" ok")


SSE, LINES = "text/event-stream", "application/x-ndjson"
# Of each protocol: its media type, an event with a piece of text, and that piece again.
SHAPES = {
    "chat": (
        SSE,
        lambda piece: {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": piece}}]},
        lambda event: event["choices"][0]["delta"]["content"],
    ),
    "reasoning": (
        SSE,
        lambda piece: {"choices": [{"index": 0, "delta": {"reasoning": piece}}]},
        lambda event: event["choices"][0]["delta"]["reasoning"],
    ),
    "messages": (
        SSE,
        lambda piece: {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": piece}},
        lambda event: event["delta"]["text"],
    ),
    "responses": (
        SSE,
        lambda piece: {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": piece},
        lambda event: event["delta"],
    ),
    "cohere plan": (
        SSE,
        lambda piece: {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}},
        lambda event: event["delta"]["message"]["tool_plan"],
    ),
    "cohere v1": (
        "application/stream+json",
        lambda piece: {"event_type": "text-generation", "text": piece},
        lambda event: event["text"],
    ),
    "completions": (
        SSE,
        lambda piece: {"choices": [{"index": 0, "text": piece}]},
        lambda event: event["choices"][0]["text"],
    ),
    "writer": (SSE, lambda piece: {"value": piece}, lambda event: event["value"]),
    "ollama chat": (
        LINES,
        lambda piece: {"model": "m", "message": {"content": piece}, "done": False},
        lambda event: event["message"]["content"],
    ),
    "ollama generate": (LINES, lambda piece: {"model": "m", "response": piece}, lambda event: event["response"]),
}


@given(own.json_values(15), RULES)
@settings(parent=relaxed)
def test_redacted_json_is_json(value, rules):
    """JSON stays JSON of the same shape under every rule; only dropped and masked values change."""
    data = json.dumps({"a": value, "messages": [{"content": value}]}).encode()
    redacted = Redaction.from_rules(rules).body(data, "application/json")
    json.loads(redacted)


@given(own.values(8), RULES)
@settings(parent=relaxed)
def test_redacted_values_can_be_read(value, rules):
    """Typed values still decode after redaction by key or path."""
    rules = [rule for rule in rules if "key" in rule or "path" in rule]
    redaction = Redaction.from_rules(rules, key=b"k")
    decode(redaction.value_bytes(encode({"a": value, "content": value}).data))


@given(st.text(string.printable, max_size=200))
def test_clean_text_is_the_same_object(text):
    """What holds nothing comes back as the very same object."""
    assume("=" not in text and "@" not in text and '"' not in text)
    assert Redaction.default().text(text) is text


@given(st.data(), st.lists(st.text(max_size=300), min_size=1, max_size=6), own.tokens())
@settings(parent=relaxed)
def test_growing_bodies_are_looked_at_in_full(data, turns, secret):
    """A secret is found wherever it enters a conversation whose earlier bodies were clean."""
    redaction = Redaction.default()
    filler = "We talk about nothing in particular. " * 120
    messages = [{"role": "user", "content": filler}]
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        redaction.body(json.dumps({"messages": messages, "tools": [filler]}).encode(), "application/json")
    place = data.draw(st.integers(0, len(messages)))
    messages.insert(place, {"role": "user", "content": f"my key {secret}"})
    body = json.dumps({"messages": messages, "tools": [filler]}).encode()
    assert secret.encode() not in redaction.body(body, "application/json")
