"""Reading strangers' JSON: strictness where it is asked for, no exception anywhere."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols import PROTOCOLS, split_request
from otel_agent_replay.protocols.json_spans import elements, member, members
from otel_agent_replay.protocols.json_text import check_arguments, mend, parse


@pytest.mark.parametrize("raw", ["{}", '{"a":1e400}', "9" * 5000, '{"a":18446744073709551617}', "null", ' "x" '])
def test_valid_json_is_valid_whatever_its_numbers(raw):
    """Numbers that no machine type holds are JSON all the same."""
    assert check_arguments(raw) == (True, None)


@pytest.mark.parametrize("raw", ["", "{", "{'a':1}", '{"a":NaN}', "[Infinity]", "{}{}", "[" * 100000])
def test_what_is_no_json_is_not_valid(raw):
    """Empty text, Python literals, NaN and endless nesting are not JSON."""
    assert check_arguments(raw) == (False, None)


def test_repeated_keys_are_reported_at_any_depth():
    """Each repeated key is named, nested ones too."""
    assert check_arguments('{"b":1,"b":2,"n":{"a":1,"a":2}}') == (True, "duplicate keys ['a', 'b']")


def test_parsing_never_raises():
    """Bytes of no encoding, numbers beyond the limit and endless nesting are None."""
    for text in (b"\xff\xfe\x00", b"9" * 5000, b"[" * 100000, b""):
        assert parse(text) is None


def test_surrogates_meet_or_are_replaced():
    """Two halves are one character; a lone one is U+FFFD and reported; a real U+FFFD is not reported."""
    assert mend("\ud83d\ude80") == ("\U0001f680", False)
    assert mend("a\ud83d") == ("a�", True)
    assert mend("�") == ("�", False)


def test_spans_are_slices_of_the_text():
    """Members and elements give exact slices, spaces around them excluded."""
    text = ' { "a" : [ 1 , {"b": 2.0} ] , "a" : "\\u00e9" } '
    assert [(span.key, text[span.start : span.end]) for span in members(text)] == [
        ("a", '[ 1 , {"b": 2.0} ]'),
        ("a", '"\\u00e9"'),
    ]
    first = next(members(text))
    assert [text[span.start : span.end] for span in elements(text, first.start)] == ["1", '{"b": 2.0}']
    assert member(text, 0, "a").value == "é"
    assert member(text, 0, "z") is None


@pytest.mark.parametrize("text", ["", "[]", '{"a"', '{"a":1', '{"a" 1}', '{"a":1 "b":2}', "{1:2}"])
def test_a_broken_object_is_a_value_error(text):
    """Walking what is no object raises ValueError, nothing else."""
    with pytest.raises(ValueError, match=r".*"):
        list(members(text))


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
@pytest.mark.parametrize("depth", [100, 450, 900, 960, 980, 990, 995, 1100, 50_000])
def test_no_depth_of_nesting_raises(name, depth):
    """Values nested up to and beyond what the parser takes, a surrogate among them, are read or refused."""
    deep = b"[" * depth + b'"\\ud83e"' + b"]" * depth
    block = b'{"type":"tool_use","id":"t","name":"f","input":%s}' % deep
    plain = b'{"content":[%s],"messages":[{"role":"user","content":[%s]}],"input":[%s],"output":[%s]}' % ((block,) * 4)
    call = b'{"choices":[{"delta":{"content":%s,"tool_calls":[{"function":{"arguments":%s}}]}}]}' % (deep, deep)
    item = b'{"type":"response.output_item.done","item":{"type":"x_call","call_id":"c","action":%s}}' % deep
    start = b'{"type":"content_block_start","index":0,"content_block":%s}' % block
    protocol = PROTOCOLS[name]
    for body in (plain, *(b"data: %s\n\n" % event for event in (call, item, start))):
        protocol.fold(body, "", 200)
        protocol.response_facts(body, "", 200)
        protocol.request_facts(body)
        protocol.request_messages(body)
        split_request(name, body)
