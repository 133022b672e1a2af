"""A case's file is read strictly: what is wrong is named with its place, and what was meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_agent_replay.casefile.schema_check import problems
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Kind
from otel_agent_replay.replay.component.case import Case, duration_ns, schema

MINUTE_NS = 60 * 10**9


def of(**keys):
    return Case.of({"entry": "shop.agents:desk", **keys}, Path("cases/one"))


def fixture(*attempts, **keys):
    return {"tool": "refund", "attempts": list(attempts), **keys}


def wrong(**keys):
    with pytest.raises(ConfigurationError) as caught:
        of(**keys)
    return str(caught.value)


def written(tmp_path, text):
    (tmp_path / "case.yaml").write_text(text)
    return tmp_path


def test_a_whole_case_is_read(tmp_path):
    """Every section comes out as it was said, durations in nanoseconds and changes as pairs."""
    case = Case.load(
        written(
            tmp_path,
            """
about: A refund that times out.
entry: shop.agents:desk
input: {order_id: "17"}
seed: 7
clock: {start: 2026-03-01T09:00:00+01:00, zone: "+01:00"}
environment: {SHOP_URL: "http://shop.test"}
max_steps: 50
fixtures:
  - tool: refund
    arguments: {order_id: "17"}
    repeat: true
    attempts:
      - timeout: read
        takes: 30s
        begins: {operation: refund-17, completes_after: 10m}
      - value: {refunded: 4900}
        calls_back: {entry: "shop.hooks:done", arguments: {id: 17}, after: 1h}
transitions:
  state: order.status
  start: NEW
  allowed: ["NEW -> DONE"]
  forbidden: ["* -> LOST"]
  terminal: [DONE]
  failed: [FAILED]
effects: {at_most_once: false}
expect: {outcome: ok, final_state: DONE}
""",
        )
    )
    assert (case.entry, case.input, case.seed, case.max_steps) == ("shop.agents:desk", {"order_id": "17"}, "7", 50)
    assert case.start_ns == 1772352000 * 10**9
    assert case.ahead_s == 3600
    (refund,) = case.fixtures
    assert (refund.number, refund.kind, refund.label, refund.repeat) == (1, Kind.TOOL, "tool refund", True)
    first, second = refund.attempts
    assert (first.shape, first.given, first.takes_ns) == ("timeout", "read", 30 * 10**9)
    assert (first.begins.operation, first.begins.completes_after_ns) == ("refund-17", 10 * MINUTE_NS)
    assert (second.calls_back.entry, second.calls_back.after_ns) == ("shop.hooks:done", 60 * MINUTE_NS)
    assert case.transitions.allowed == [("NEW", "DONE")]
    assert case.transitions.forbidden == [("*", "LOST")]
    assert case.at_most_once is False
    assert case.events_file == tmp_path / "events.yaml"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"fixturez": []}, "unknown key 'fixturez'; did you mean 'fixtures'?"),
        ({"fixtures": [fixture({"valeu": 1})]}, "fixtures[0].attempts[0]: unknown key 'valeu'; did you mean 'value'?"),
        ({"fixtures": [fixture({"takes": 1})]}, "there is none of them"),
        ({"fixtures": [fixture({"value": 1, "refused": True})]}, "there is value and refused"),
        ({"fixtures": [fixture()]}, "fixtures[0].attempts: needs at least 1"),
        ({"fixtures": [{"attempts": [{"value": 1}]}]}, "exactly one of model, http, tool"),
        ({"fixtures": [fixture({"timeout": "soon"})]}, "'soon' is not one of 'read', 'connect'"),
        ({"fixtures": [fixture({"value": 1, "takes": "30 min"})]}, "fixtures[0].attempts[0].takes: '30 min'"),
        ({"fixtures": [fixture({"value": 1, "takes": -1})]}, "takes: -1 is below 0"),
        ({"entry": "desk"}, "entry: 'desk' is not of the form"),
        ({"input": ["17"]}, "input: ['17'] is not a mapping"),
        ({"seed": True}, "seed: True is not a text or a integer"),
        ({"transitions": {"forbidden": ["A to B"]}}, "transitions.forbidden[0]: 'A to B'"),
        ({"environment": {"PORT": 80}}, "environment.PORT: 80 is not a text"),
        ({"clock": {"start": "yesterday"}}, "clock.start"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(keys, told):
    """An unknown key, a missing or a double shape, a wrong type, an amount without a unit."""
    assert told in wrong(**keys)


def test_every_wrong_place_is_told_at_once():
    """Three mistakes are three lines of one error, not three runs."""
    told = wrong(fixturez=[], max_steps=0, input=1)
    assert all(part in told for part in ("fixturez", "max_steps: 0 is below 1", "input: 1 is not a mapping"))


def test_a_missing_entry_is_missing():
    """The one thing that a case cannot be without."""
    with pytest.raises(ConfigurationError, match="'entry' is missing"):
        Case.of({}, Path("cases/one"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("entry: a:b\nentry: c:d\n", "line 2: the key 'entry' comes twice"),
        ("entry: [a\n", "is not YAML"),
        ("- entry\n", "is not a mapping"),
        ("entry: !!python/object/apply:os.system [ls]\n", "is not YAML"),
    ],
)
def test_yaml_is_read_strictly(tmp_path, text, told):
    """No key twice, no tag that makes objects, and a message that names the file."""
    with pytest.raises(ConfigurationError, match="case.yaml") as caught:
        Case.load(written(tmp_path, text))
    assert told in str(caught.value)


def test_no_file_outside_the_folder_is_read(tmp_path):
    """A case may not name its way out of its folder."""
    case = Case.of({"entry": "a:b"}, tmp_path / "case")
    with pytest.raises(ConfigurationError, match="outside"):
        case.read("../secret")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1.5, 1_500_000_000),
        ("250ms", 250_000_000),
        ("30m", 30 * MINUTE_NS),
        ("1h30m", 90 * MINUTE_NS),
        ("2d", 2880 * MINUTE_NS),
    ],
)
def test_durations_are_seconds_or_amounts_with_units(given, expected):
    """A number is seconds; a text adds up its amounts."""
    assert duration_ns(given) == expected


def test_the_shipped_schema_is_a_schema_of_itself_only_with_known_words():
    """Every word of the schema is one that the check understands: nothing in it is silently ignored."""
    known = {
        "$schema", "title", "description", "type", "required", "additionalProperties", "properties", "$defs", "$ref",
        "items", "minItems", "enum", "minimum", "pattern", "oneOf", "anyOf",
    }  # fmt: skip

    def words(part, inside_properties=False):
        if isinstance(part, dict):
            for key, value in part.items():
                if not inside_properties:
                    yield key
                yield from words(value, key in ("properties", "$defs") and not inside_properties)
        elif isinstance(part, list):
            for item in part:
                yield from words(item)

    assert set(words(schema())) <= known
    assert json.loads(json.dumps(schema())) == schema()
    for choice in schema()["$defs"]["attempt"]["oneOf"]:
        assert choice["required"][0] in schema()["$defs"]["attempt"]["properties"]


def test_references_may_be_narrowed_where_they_stand():
    """A `$ref` beside other words is both."""
    narrowed = {"$ref": "#/$defs/n", "minimum": 3, "$defs": {"n": {"type": "integer"}}}
    assert problems(2, narrowed) == [": 2 is below 3"]
    assert problems("x", narrowed)
