"""The event parser: what a line end is, what is counted, what the end of the body leaves."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols import SseEvent, SseParser, events_of
from otel_agent_replay.protocols.sse import may_be_malformed


def data(body: bytes) -> list[str]:
    return [event.data for event in events_of(body)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_of_the_standard_ends_a_line(end):
    """LF, CR and CRLF each end a line, and two of them an event."""
    assert data(b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end) == ["a\nb", "c"]


def test_characters_that_look_like_line_ends_are_text():
    """U+0085, U+2028 and U+2029 stay inside the data; a parser using splitlines would cut there."""
    text = "a\x85b\u2028c\u2029d\x0be"
    assert data(f"data: {text}\n\n".encode()) == [text]


def test_a_carriage_return_at_the_end_of_a_chunk_and_a_line_feed_in_the_next_are_one_line_end():
    """CRLF cut between two chunks is one line end, not a blank line."""
    parser = SseParser()
    events = parser.feed(b"data: a\r") + parser.feed(b"") + parser.feed(b"\ndata: b\r\n\r") + parser.feed(b"\n")
    assert [event.data for event in events] == ["a\nb"]


def test_comments_and_blocks_without_data_are_counted_and_make_no_event():
    """Keep-alives leave no event behind; how many came is known."""
    parser = SseParser()
    events = parser.feed(b": hi\n\nretry: 5\n\nid: 1\n\nevent: ping\n\n: bye\n\n")
    assert (events, parser.comments, parser.dataless) == ([], 2, 3)


def test_an_event_with_empty_data_is_given_out():
    """`data:` alone is an event whose data is empty."""
    assert data(b"data:\n\ndata: \n\ndata\n\n") == ["", "", ""]


def test_fields_of_an_event_are_kept():
    """Type, id and retry arrive with the event; the id stays for later events, the type does not."""
    events = list(events_of(b"event: e\nid: 7\nretry: 30\ndata: a\n\ndata: b\n\n"))
    assert events == [SseEvent("a", "e", "7", 30), SseEvent("b", "message", "7")]


def test_only_one_space_after_the_colon_is_syntax():
    """A second space belongs to the value, and no space is needed."""
    assert data(b"data:a\n\ndata: a\n\ndata:  a\n\n") == ["a", "a", " a"]


def test_the_end_of_the_body_leaves_an_open_event():
    """An event without its blank line is given out on close and marked as not ended."""
    assert list(events_of(b"data: a\n\ndata: b")) == [SseEvent("a"), SseEvent("b", ended=False)]


def test_a_byte_order_mark_is_no_part_of_the_first_field():
    """A body may begin with a UTF-8 byte order mark, also cut in two."""
    assert list(events_of([b"\xef\xbb", b"\xbfdata: a\n\n"])) == [SseEvent("a")]


def test_bytes_that_are_no_utf8_are_marked():
    """Invalid UTF-8 becomes U+FFFD and the event says so."""
    assert list(events_of(b"data: a\xff\n\n")) == [SseEvent("a�", valid=False)]


@pytest.mark.parametrize(
    ("body", "odd"),
    [
        (b'event: a\ndata: {"a": 1}\n\ndata:{"b": 2} \r\n\n: note\n\ndata: [DONE]\n\n', False),
        (b'data: {"a": 1}\n\ndata: {"b": ', False),
        ('data: {"a": "\u00fc"}\n\ndata: {"b": "\u00fc'.encode()[:-1], False),
        (b'data: {"a": 1}\n\ndata: {"b": \n\ndata: [DONE]\n\n', True),
        (b"data: busy}\n\n", True),
        (b'data: {"a": "\xff"}\n\n', True),
    ],
)
def test_data_that_is_visibly_no_object_is_suspected(body, odd):
    """Cut, plain and undecodable data are; good data are not, nor is the line that the end of the body left open."""
    assert may_be_malformed(body) is odd
