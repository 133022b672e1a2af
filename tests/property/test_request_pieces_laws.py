"""Laws of the requests of a run: exact bytes, each message cut, masked and stored once, however they share."""

from __future__ import annotations

import json
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from otel_agent_replay.imports.trajectories.request_bodies import RequestBodies
from otel_agent_replay.imports.trajectories.trajectory import Beginning, ModelTurn
from otel_agent_replay.lake import request_pieces
from otel_agent_replay.lake.payload_store import Body, PackWriter
from otel_agent_replay.model import digest_of
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols import split_request

CHAT = "openai.chat_completions"
TEXTS = st.sampled_from(["", "yes", "é]},", "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2, "ann@example.org", "word " * 150])
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": TEXTS})
    | st.sampled_from([7, None, "text", {}, {"content": [{"type": "text", "text": "x"}]}]),
    max_size=7,
)
FRAMES = st.sampled_from([{}, {"model": "m"}, {"tools": [1]}, {"model": "m", "messages": None, "user": "a@b.org"}])


@st.composite
def requests(draw):
    """Requests of some agents that take turns: each goes on, begins anew, or repeats a part of an earlier one."""
    lists = [draw(MESSAGES)]
    made = []
    for _ in range(draw(st.integers(1, 8))):
        of = draw(st.sampled_from(lists))
        messages = of[: draw(st.integers(0, len(of)))] + draw(MESSAGES) if draw(st.booleans()) else of
        lists.append(messages)
        frame = draw(FRAMES)
        made.append({**frame, "messages": messages})
    return made


def bodies_of(made, separators):
    return [json.dumps(one, ensure_ascii=False, separators=separators).encode() for one in made]


@given(requests(), st.sampled_from([(",", ":"), (", ", ": ")]), st.lists(st.binary(max_size=9), max_size=2))
def test_every_request_comes_back_byte_for_byte(made, separators, odd):
    """Whatever requests share, and in whatever order they came, the ranges of each give its bytes."""
    rows = []
    writer = PackWriter(1, lambda table: rows.extend(table.to_pylist()))
    bodies = [*bodies_of(made, separators), *odd, b'{"messages":[{},']
    numbers = writer.add_run(Body(digest_of(body), body, CHAT) for body in bodies)
    writer.flush()
    for body in bodies:
        row = rows[numbers[digest_of(body)]]
        assert (row["pieces"] is None) == (not split_request(CHAT, body))
        if row["pieces"] is None:
            assert row["data"] == body
            continue
        found = [n for one in row["pieces"] for n in range(one["first"], one["first"] + one["count"])]
        assert b"".join(rows[n]["data"] for n in found) == body
        assert [rows[n]["role"] for n in found] == [role for _, _, role in split_request(CHAT, body)]


@given(st.integers(2, 40), st.booleans())
def test_only_what_is_new_in_a_request_is_cut(turns, tailed):
    """The bytes that are parsed grow with the conversation, not with its square; and each request is few ranges."""
    messages = [{"role": "user", "content": f"message {place} " * 9} for place in range(2 * turns)]
    tail = {"tools": [1]} if tailed else {}
    bodies = bodies_of(({"messages": messages[: 2 * step + 1], **tail} for step in range(turns)), (",", ":"))
    parsed = []
    real = request_pieces.cut_request

    def counted(name, body, at=0):
        parsed.append(len(body) - at)
        return real(name, body, at)

    rows = []
    writer = PackWriter(1, lambda table: rows.extend(table.to_pylist()))
    with patch.object(request_pieces, "cut_request", counted):
        writer.add_run(Body(digest_of(body), body, CHAT) for body in bodies)
    writer.flush()
    assert sum(parsed) <= len(bodies[-1]) + 100 * turns
    assert max(len(row["pieces"]) for row in rows if row["pieces"]) <= 4


@example([{"messages": [{"n": 1}]}, {"messages": [{"n": True}]}, {"messages": [{"n": 1.0}, {}]}], False, ())
@example([{"messages": [{"role": "", "content": ""}]}, {"messages": [{"content": "", "role": ""}]}], False, ())
@given(requests(), st.booleans(), st.sampled_from([(), ("mask", "messages[1].content"), ("hash", "messages[*].role")]))
def test_a_request_is_masked_as_it_is_alone(made, as_beginnings, rule):
    """Messages that are written and masked once for all give the bytes that each request gives by itself."""
    rules = [{"action": rule[0], "path": rule[1]}] if rule else []
    rules.append({"action": "mask", "preset": "email"})
    redaction = Redaction.from_rules(rules)
    turns = []
    for one in made:
        messages = one["messages"]
        longer = [*messages, "more"]
        turns.append(ModelTurn({**one, "messages": Beginning(longer, len(messages))} if as_beginnings else one, None))
    written = RequestBodies(turns, redaction)
    for turn, body in zip(turns, bodies_of(made, (", ", ": ")), strict=True):
        found = written.body(turn)
        assert found.data() == Redaction.from_rules(rules).body(body, "application/json")
        assert (found.digest, found.size) == (digest_of(found.data()), len(found.data()))
