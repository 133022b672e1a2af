"""Cutting a request body at the borders that repeat from one request to the next."""

from __future__ import annotations

import json

from otel_agent_replay.protocols import split_request
from otel_agent_replay.protocols.pieces import cut_request

CHAT = "openai.chat_completions"


def pieces(name: str, body: bytes) -> list[tuple[str, bytes]]:
    return [(role, body[start:end]) for start, end, role in split_request(name, body)]


def test_a_body_is_cut_at_its_messages():
    """Each message with the comma before it, tools as one, the rest between."""
    body = '{"messages":[{"role":"user","content":"é"}, {"role":"assistant"}],"model":"m","tools":[1]}'.encode()
    assert pieces(CHAT, body) == [
        ("envelope", b'{"messages":['),
        ("user", '{"role":"user","content":"é"}'.encode()),
        ("assistant", b', {"role":"assistant"}'),
        ("envelope", b'],"model":"m","tools":'),
        ("tools", b"[1]"),
        ("envelope", b"}"),
    ]


def test_system_and_instructions_are_pieces_of_their_own():
    """Anthropic's system and OpenAI's instructions do not change from step to step."""
    anthropic = b'{"system":"s","messages":[{"role":"user"}]}'
    responses = b'{"instructions":"s","input":[{"type":"reasoning"},{"role":"user"}]}'
    assert [role for role, _ in pieces("anthropic.messages", anthropic)] == [
        "envelope",
        "system",
        "envelope",
        "user",
        "envelope",
    ]
    assert [role for role, _ in pieces("openai.responses", responses)] == [
        "envelope",
        "system",
        "envelope",
        "reasoning",
        "user",
        "envelope",
    ]


def test_a_text_input_is_one_piece():
    """The Responses API takes a plain string as its input."""
    assert pieces("openai.responses", b'{"input":"hi"}')[1] == ("user", b'"hi"')


def test_a_large_image_is_a_piece_without_its_surroundings():
    """The base64 text alone, not its data URL head, so that the same image is stored once however it is sent."""
    image = "A" * 20000 + "=="
    message = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}],
    }
    found = pieces(CHAT, json.dumps({"messages": [message]}).encode())
    assert [role for role, _ in found] == ["envelope", "user", "blob", "user", "envelope"]
    assert found[2][1] == image.encode()


def test_long_prose_is_no_blob():
    """A long text with spaces stays in its message; so does a short image."""
    for content in ("word " * 5000, "A" * 1000):
        body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
        assert [role for role, _ in pieces(CHAT, body)] == ["envelope", "user", "envelope"]


def test_a_body_of_another_shape_has_no_pieces():
    """No JSON, no object, nothing to cut, an unknown protocol: no ranges."""
    for body in (b"", b"x", b"[1]", b'{"model":"m"}', b'{"messages":[}', b"\xff{}", b"[" * 100000):
        assert split_request(CHAT, body) == []
    assert split_request("other", b'{"messages":[]}') == []


def test_behind_any_message_a_body_is_cut_as_the_whole_is():
    """Who knows the beginning of a request need only read what lies behind its last known message."""
    bodies = [
        '{"messages":[{"role":"user","content":"é"}, {"role":"assistant"} ,7,{"a":"]"}] , "tools":[1],"model":"m"}',
        '{"tools":[],"messages":[{"role":"user"}],"system":"s","messages":[{"x":{}},{"y":"ü"}]}',
    ]
    for body in map(str.encode, bodies):
        whole = cut_request(CHAT, body)
        assert len(whole.message_ends) == 3
        for place, at in enumerate(whole.message_ends):
            rest = cut_request(CHAT, body, at)
            assert rest.ranges == [one for one in whole.ranges if one[0] >= at]
            assert rest.message_ends == whole.message_ends[place + 1 :]
    assert cut_request(CHAT, b'{"messages":[{}7]}', len(b'{"messages":[{}')).ranges == []
