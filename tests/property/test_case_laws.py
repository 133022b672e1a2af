"""Laws of cases: the order of rows changes nothing, a mutant is another run, made-up values fit wherever they stand."""

from __future__ import annotations

import dataclasses
import json

from hypothesis import assume, given
from hypothesis import strategies as st

from otel_agent_replay.gate import check
from otel_agent_replay.gate.facts import RunFacts
from otel_agent_replay.gate.mutants import mutants_of
from otel_agent_replay.gate.suggesting import merged, suggest
from otel_agent_replay.payload.body_texts import replaced_body
from otel_agent_replay.payload.personal import Replacement
from otel_agent_replay.payload.synthetic import CARD, EMAIL, PHONE, TEXT, SyntheticValues
from tests.support.case_runs import NONE, READ, WRITE, Desk, case_of

NAMES = st.sampled_from(["lookup", "check", "refund", "mail"])
ARGUMENTS = st.dictionaries(st.sampled_from(["id", "cents", "note"]), st.integers(0, 3) | st.sampled_from(["a", "b"]))
CALLS = st.tuples(NAMES, ARGUMENTS, st.sampled_from([READ, WRITE, NONE]))
STEPS = st.lists(CALLS | st.sampled_from(["WAITING", "DONE"]), min_size=1, max_size=8)
STATED = {
    "must_call": ["lookup", {"tool": "refund", "arguments": {"id": 1}}],
    "must_not_call": ["mail", {"tool": "refund", "arguments": {"cents": {"$above": 2}}}],
    "order": ["check", "refund"],
    "at_most_once": ["lookup", {"tool": "mail", "by": ["id"]}],
    "only": ["refund"],
    "object_id": [{"call": "refund", "path": "id", "same_as": "order_id"}],
    "final_state": "DONE",
    "must_cite": ["done"],
    "budget": {"steps": 4},
    "outcome": "ok",
}


def run_of(steps, output="done", order_id=1):
    desk = Desk()
    for step in steps:
        if isinstance(step, str):
            desk.state(step)
        else:
            name, arguments, effect = step
            desk.call(name, arguments, {"of": name}, effect)
    return desk.says(output, {"order_id": order_id})


def states(case, run):
    return [(one.invariant.name, one.state.value, [item.step for item in one.evidence]) for one in check(case, run)]


@given(STEPS, st.randoms(use_true_random=False))
def test_rows_in_another_order_change_no_invariant(steps, random):
    """What holds of a run, and the steps that show it, does not hang on the order in which its spans lie."""
    run = run_of(steps)
    spans = list(run.spans)
    random.shuffle(spans)
    case = case_of(effects={"at_most_once": True}, transitions={"forbidden": ["WAITING -> DONE"]}, **STATED)
    assert states(case, dataclasses.replace(run, spans=tuple(spans))) == states(case, run)


def said(run):
    facts = RunFacts.of(run)
    calls = [(made.label, made.arguments, made.step, made.key, made.sequence) for made in facts.calls]
    return calls, facts.output


@given(STEPS, st.text(max_size=5) | st.integers(0, 5) | st.dictionaries(st.sampled_from("ab"), st.integers(0, 5)))
def test_a_mutant_is_another_run_and_leaves_its_original_alone(steps, output):
    """Every mutant says something else than its original, no two say the same, and the original stays as it was."""
    run = run_of(steps, output)
    before = said(run)
    found = [json.dumps(said(mutant.recorded), default=str) for mutant in mutants_of(run)]
    assert json.dumps(before, default=str) not in found
    assert said(run) == before
    assert all(mutant.step is None or mutant.step >= 1 for mutant in mutants_of(run))


@given(STEPS, STEPS, STEPS)
def test_what_is_suggested_tells_the_runs_apart(bad, good, other):
    """All suggestions together hold of every good run, and each of them is broken by the bad one."""
    bad, good = run_of(bad, "failed"), [run_of(good), run_of(other)]
    found = suggest(bad, good)
    assume(found)
    whole = merged(found)
    case = case_of(effects=whole.get("effects"), transitions=whole.get("transitions"), **whole.get("expect", {}))
    assert all(one.holds for run in good for one in check(case, run))
    assert {one.state.value for one in check(case, bad)} == {"broken"}


KNOWN = {
    "ann@example.org": EMAIL,
    "4111 1111 1111 1111": CARD,
    "+49 170 1234567": PHONE,
    "Jürgen Öz": TEXT,
    "a-17": TEXT,
}
REPLACE = Replacement(KNOWN, SyntheticValues(b"key"))
TEXTS = st.lists(st.sampled_from([*KNOWN, " ", ", ", "\n", '"', "\\", "word", "é", "🙂", "{", "@"]), max_size=8).map(
    "".join
)


@given(
    st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)),
    st.booleans(),
)
def test_json_says_the_replaced_texts_and_nothing_else(value, ascii_only):
    """A body in either way of escaping reads as the value with its texts replaced, and is as long as it was."""
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    made = replaced_body(data, "application/json", REPLACE)
    assert len(made) == len(data)
    if len({REPLACE(text) for text in _keys(value)}) == len(set(_keys(value))):
        assert json.loads(made) == _replaced(json.loads(data))


def _keys(value):
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list) else []


def _replaced(value):
    if isinstance(value, dict):
        return {_text(key): _replaced(item) for key, item in value.items()}
    return [_replaced(item) for item in value] if isinstance(value, list) else _text(value)


def _text(text):
    try:
        inner = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        inner = None
    return REPLACE(text) if inner is None else text


@given(TEXTS, st.lists(st.integers(1, 6), min_size=1, max_size=20), st.booleans())
def test_a_stream_cut_anywhere_spells_the_replaced_text(text, sizes, ascii_only):
    """However a text is cut into events, what they spell is the text replaced, in events as long as before."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    pieces.append(text[at:])
    events = [json.dumps({"delta": {"content": piece}}, ensure_ascii=ascii_only) for piece in pieces]
    data = "".join(f"data: {event}\n\n" for event in events).encode()
    made = replaced_body(data, "text/event-stream", REPLACE)
    said = [json.loads(line[6:])["delta"]["content"] for line in made.decode().split("\n\n") if line]
    assert len(made) == len(data)
    assert [len(piece) for piece in said] == [len(piece) for piece in pieces]
    assert "".join(said) == REPLACE(text)


@given(st.lists(st.from_regex(r"[a-z]{3,12}(\.[a-z]{2,5})?@[a-z]{3,9}\.(com|de|org)", fullmatch=True), unique=True))
def test_two_values_never_become_one(mails):
    """Made-up addresses are as many as real ones, none is a real one, and each lies in a domain that cannot exist."""
    values = SyntheticValues(b"key")
    made = [values.of(mail, EMAIL) for mail in mails]
    assert len(set(made)) == len(mails)
    assert not set(made) & set(mails)
    assert all(len(new) == len(old) and new.endswith(".test") for new, old in zip(made, mails, strict=True))
