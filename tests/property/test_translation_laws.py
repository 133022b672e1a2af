"""Translating a request keeps what was said: read again in the other protocol, the conversation is the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.protocols.translation import SPOKEN, translate

SOURCE = "openai.chat_completions"
_texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(str.strip)
_names = st.text("abcdefgh_", min_size=1, max_size=8)
_values = st.one_of(st.integers(), st.booleans(), _texts, st.lists(st.integers()))
_arguments = st.dictionaries(_names, _values, max_size=3)
_members = ("messages", "content", "role", "parts", "tool_calls", "input", "contents", "type", "tools", "system")
_odd = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(_members), one, max_size=4),
    max_leaves=20,
)


@st.composite
def conversations(draw):
    """Chat messages as an agent would send them: each call is answered before anybody speaks again."""
    messages = [{"role": "system", "content": draw(_texts)}] if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(_texts)})
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            function = {"name": draw(_names), "arguments": json.dumps(draw(_arguments))}
            calls.append({"id": f"call_{number}", "type": "function", "function": function})
        said = draw(st.one_of(st.none(), _texts)) if calls else draw(_texts)
        messages.append({"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})})
        for call in draw(st.permutations(calls)):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": draw(_texts)})
    return messages


def said_in(body: bytes, protocol: str) -> dict[str, list]:
    """What counts of a request: the prompt, the texts of either side, calls, and results by the call they answer."""
    read = PROTOCOLS[protocol].request_messages(body)
    found: dict[str, list] = {
        "system": [part["content"] for part in read.system],
        "said": [],
        "calls": [],
        "results": [],
    }
    names: dict[str, tuple] = {}
    waiting: list[tuple] = []
    for message in read.messages:
        if message["role"] == "system":
            found["system"] += [part["content"] for part in message["parts"]]
            continue
        for part in message["parts"]:
            if part["type"] == "text" and part["content"]:
                found["said"].append((message["role"], part["content"]))
            elif part["type"] == "tool_call":
                call = (part["name"], json.dumps(json.loads(part["arguments"] or "{}"), sort_keys=True))
                found["calls"].append(call)
                names[part["id"]] = call
                waiting.append(call)
            elif part["type"] == "tool_call_response":
                response = part["response"]
                if isinstance(response, dict):
                    response = response.get("result", response)
                found["results"].append((names.get(part["id"], part.get("name")), response))
    return found


@given(conversations(), st.sampled_from([name for name in SPOKEN if not name.startswith("google")]))
def test_what_was_said_is_said_in_the_other_words_too(messages, target):
    """Prompt, texts, calls with their arguments, and results with the call they answer."""
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    found = translate(body, SOURCE, target, model="n")
    assert found.lost == ()
    assert said_in(found.body, target) == said_in(body, SOURCE)


@given(conversations(), st.sampled_from(SPOKEN))
def test_there_and_back_says_the_same(messages, target):
    """Calls in order, texts and prompt; Google's results come back by their order within a name."""
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    there = translate(body, SOURCE, target, model="n").body
    back = translate(there, target, SOURCE, model="m").body
    before, after = said_in(body, SOURCE), said_in(back, SOURCE)
    assert {key: before[key] for key in ("system", "said", "calls")} == {
        key: after[key] for key in ("system", "said", "calls")
    }
    assert len(before["results"]) == len(after["results"])


@given(_odd, st.sampled_from(SPOKEN), st.sampled_from(SPOKEN))
def test_no_request_is_too_odd(value, source, target):
    """Whatever object a client sent, it is translated as far as it goes."""
    body = json.dumps({"messages": value, "contents": value, "input": value, "tools": value}).encode()
    assert json.loads(translate(body, source, target, model="m").body) is not None
