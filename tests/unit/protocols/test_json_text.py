"""Reading strangers' JSON: strictness where it is asked for, no exception anywhere."""

from __future__ import annotations

import pytest

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
