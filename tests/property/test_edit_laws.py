"""Edits of requests: only the named part changes, in text and in value, and twice is once."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.protocols.json_edit import parse_path, shown, with_elements, with_value, without_member
from otel_agent_replay.protocols.request_edits import RequestEdits, Setting

# Protocols whose requests are a list of messages of that shape; the others are one text (`unit/protocols`).
NAMES = st.sampled_from(
    ["anthropic.messages", "cohere.chat", "ollama.chat", "openai.chat_completions", "openai.responses"]
)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "input_text", "image", "tool_result"])},
    optional={"text": TEXT, "cache_control": st.just({"type": "ephemeral"}), "id": TEXT},
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": ROLES, "content": TEXT | st.lists(PARTS, max_size=3)}, optional={"id": TEXT}),
    max_size=4,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SPACING = st.sampled_from([(None, (",", ":")), (None, (", ", ": ")), (2, (",", ": ")), ("\t", (", ", ":"))])


@st.composite
def written(draw, values=VALUES):
    """A value and one of the ways to write it."""
    value = draw(values)
    indent, separators = draw(SPACING)
    return value, json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))


@st.composite
def requests(draw):
    name = draw(NAMES)
    conversation = "input" if name == "openai.responses" else "messages"
    members = {
        "model": TEXT,
        conversation: MESSAGES | TEXT if conversation == "input" else MESSAGES,
        "tools": st.lists(st.fixed_dictionaries({"name": TEXT}), min_size=1, max_size=2),
        "temperature": st.floats(0, 2),
    }
    prompt = {"anthropic.messages": "system", "openai.responses": "instructions"}.get(name)
    optional = {"stream": st.booleans(), "metadata": VALUES} | ({prompt: TEXT | st.lists(PARTS)} if prompt else {})
    value, text = draw(written(st.fixed_dictionaries(members, optional=optional)))
    return PROTOCOLS[name], value, text.encode()


EDITS = st.builds(
    RequestEdits,
    model=st.none() | TEXT,
    prompt=st.none() | TEXT,
    messages=st.lists(TEXT, max_size=2).map(tuple),
    settings=st.lists(
        st.builds(Setting, st.sampled_from([("temperature",), ("a", "b"), ("tools", 0, "name")]), VALUES)
        | st.builds(Setting, st.sampled_from([("temperature",), ("stream",)]), removed=st.just(True)),
        max_size=3,
        unique_by=lambda setting: setting.path,
    ).map(tuple),
    tools=st.none() | st.lists(st.fixed_dictionaries({"name": TEXT}), min_size=1, max_size=2).map(tuple),
)


@given(requests(), EDITS)
def test_twice_is_once(request, edits):
    """An edited request edited again the same way is the same bytes."""
    protocol, _, body = request
    once = edits.apply(protocol.name, body)
    assert edits.apply(protocol.name, once) == once


@given(requests(), st.data())
def test_members_that_are_not_named_stay(request, data):
    """Each kind of edit changes its own member alone, and every other member keeps its characters."""
    protocol, value, body = request
    conversation = "input" if protocol.name == "openai.responses" else "messages"
    prompt = {"anthropic.messages": "system"}.get(protocol.name, "instructions")
    edits, may_change = data.draw(
        st.sampled_from(
            [
                (RequestEdits(model="m"), {"model"}),
                (RequestEdits(prompt="p"), {prompt, conversation}),
                (RequestEdits(messages=("q",)), {conversation}),
                (RequestEdits(tools=({"name": "t"},)), {"tools"}),
                (RequestEdits(settings=(Setting(("temperature",), 1),)), {"temperature"}),
                (RequestEdits(settings=(Setting(("stream",), removed=True),)), {"stream"}),
            ]
        )
    )
    edited = edits.apply(protocol.name, body)
    after = json.loads(edited)
    assert {k: v for k, v in after.items() if k not in may_change} == {
        k: v for k, v in value.items() if k not in may_change
    }


@given(requests(), st.sampled_from([RequestEdits(prompt="p"), RequestEdits(messages=("q",))]))
def test_messages_that_are_not_named_stay(request, edits):
    """A prompt or a new message leaves every message of others as it was, in order."""
    protocol, value, body = request
    conversation = "input" if protocol.name == "openai.responses" else "messages"
    before, after = value[conversation], json.loads(edits.apply(protocol.name, body))[conversation]
    if isinstance(before, str):
        before = [{"role": "user", "content": before}]
    if isinstance(after, str):
        after = [{"role": "user", "content": after}]
    spoken = [message for message in before if message["role"] not in ("system", "developer")]
    kept = [message for message in after if message["role"] not in ("system", "developer")]
    assert kept[: len(spoken)] == spoken
    assert [one["content"] for one in kept[len(spoken) :]] in ([], ["q"])


@given(written(st.dictionaries(TEXT, VALUES, min_size=1)), VALUES, st.data())
def test_a_value_set_in_a_text_is_the_value_set_in_its_meaning(given_text, new, data):
    """Replacing and adding a member change that member alone; outside it the text is the same."""
    value, text = given_text
    key = data.draw(st.sampled_from(sorted(value)) | TEXT)
    edited = with_value(text, (key,), new)
    assert json.loads(edited) == {**value, key: new}
    assert list(json.loads(edited)) == list({**value, key: new})


@given(written(st.dictionaries(TEXT, VALUES)), TEXT, VALUES)
def test_what_was_added_can_be_taken_out_again(given_text, key, new):
    """Adding a member and removing it gives the text back, character for character."""
    value, text = given_text
    if key in value:
        assert json.loads(without_member(text, (key,))) == {k: v for k, v in value.items() if k != key}
    else:
        assert json.loads(without_member(with_value(text, (key,), new), (key,))) == value
        if value:
            assert without_member(with_value(text, (key,), new), (key,)) == text


@given(written(st.lists(VALUES)), st.lists(VALUES, min_size=1, max_size=2), st.integers(0, 5))
def test_elements_are_put_in_where_they_are_wanted(given_text, new, place):
    """Elements land before the wanted one, in order."""
    value, text = given_text
    place = min(place, len(value))
    assert json.loads(with_elements(text, 0, place, new)) == [*value[:place], *new, *value[place:]]


@given(st.lists(TEXT | st.integers(-3, 3), min_size=1, max_size=4).filter(lambda path: isinstance(path[0], str)))
def test_a_path_is_read_as_it_is_shown(path):
    """Any key, dots and quotes too, survives being written."""
    assert parse_path(shown(tuple(path))) == tuple(path)


@given(EDITS)
def test_edits_survive_a_plan_file(edits):
    """JSON and back gives equal edits."""
    assert RequestEdits.from_json(json.loads(json.dumps(edits.to_json()))) == edits
