"""JSON lines: what is a line, what is none, and what is said of those that hold no object."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols.json_lines import JsonLines, ends_of, is_json_lines
from otel_agent_replay.protocols.stream import objects_of


def objects(body):
    stream = JsonLines()
    return [value for _, value in objects_of(stream, body)], stream.problems


def test_a_line_is_given_out_once_it_is_complete():
    """Pieces of a line wait for its end; the end of the body gives out what is left, once."""
    stream = JsonLines()
    assert list(stream.feed(b'{"a"')) == []
    assert [value for _, value in stream.feed(b':1}\r\n{"b":2}\n{"c"')] == [{"a": 1}, {"b": 2}]
    assert list(stream.feed(b":3}")) == []
    assert [value for _, value in stream.close()] == [{"c": 3}]
    assert list(stream.close()) == []


def test_blank_lines_give_nothing():
    """Some servers keep a connection alive with empty lines."""
    assert objects(b'\n \r\n{"a":1}\n\t\n') == ([{"a": 1}], [])


def test_only_a_line_feed_ends_a_line():
    """U+2028, U+0085 and a carriage return within a line are text or space."""
    assert objects('{"a":"x\u2028y\u0085z"}\r\n'.encode()) == ([{"a": "x\u2028y\u0085z"}], [])


def test_a_byte_order_mark_and_a_broken_character_are_no_secret():
    """The mark is dropped; bytes that are no UTF-8 are named and read as well as they can be."""
    assert objects(b'\xef\xbb\xbf{"a":1}\n') == ([{"a": 1}], [])
    values, problems = objects(b'{"a":"\xff"}\n')
    assert (values, problems) == ([{"a": "\ufffd"}], ["line 1 is not UTF-8"])


def test_a_last_line_without_an_end_counts_if_it_is_whole():
    """A body that ends without a line feed is common; one that ends within an object is cut."""
    assert objects(b'{"a":1}\n{"b":2}') == ([{"a": 1}, {"b": 2}], [])
    values, problems = objects(b'{"a":1}\n{"b":')
    assert values == [{"a": 1}]
    assert problems == ["line 2 is cut: '{\"b\":'"]


def test_what_is_no_object_is_named():
    """Numbers, lists and HTML are no events."""
    values, problems = objects(b'[1]\n<html>\n{"a":1}\n')
    assert values == [{"a": 1}]
    assert problems == ["line 1 is no JSON object: '[1]'", "line 2 is no JSON object: '<html>'"]


@pytest.mark.parametrize(
    ("start", "media_type", "lines"),
    [
        (b'{"a":1}', "application/x-ndjson", True),
        (b'{"a":1}', "application/stream+json", True),
        (b'{"a":1}', "application/jsonl", True),
        (b'{"error":1}', "application/json", False),
        (b'{\n  "error": 1\n}', "application/x-ndjson", False),
        (b"data: {}", "text/event-stream", False),
    ],
)
def test_the_media_type_tells_lines_from_one_object(start, media_type, lines):
    """A plain error under the media type of a stream is one object all the same."""
    assert is_json_lines(start, media_type) is lines


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        (b'{"a":1}\n{"b":2}\n{"c":3}\n\n', b'{"a":1}\n{"c":3}'),
        (b'{"a":1}\r\n{"b":2} \r\n', b'{"a":1}\r\n{"b":2}'),
        (b'{"a":1}\n{"b":2}', b'{"a":1}\n{"b":2}'),
        (b'{"a":1}\n', b'{"a":1}'),
        (b"", b""),
    ],
)
def test_the_ends_of_a_body_are_its_first_and_last_line(body, ends):
    """A glance looks at two lines, at one where there is one."""
    assert ends_of(body) == ends
