"""Server-sent events: the network's cutting changes nothing, and text that looks like a line end is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.protocols import PROTOCOLS, SseEvent, events_of
from tests.support.protocol_bodies import any_event_stream

LINE_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)
LINES = st.one_of(
    TEXT.map(lambda text: b"data:" + text.encode()),
    TEXT.map(lambda text: b"data: " + text.encode()),
    TEXT.map(lambda text: b": " + text.encode()),
    TEXT.map(lambda text: b"event: " + text.encode()),
    TEXT.map(lambda text: b"id: " + text.encode()),
    st.integers(0, 9999).map(lambda number: b"retry: %d" % number),
    st.binary(max_size=12).filter(lambda raw: b"\r" not in raw and b"\n" not in raw),
    st.just(b""),
    st.just(b""),
)
BODIES = st.lists(st.tuples(LINES, LINE_ENDS), max_size=30).map(lambda lines: b"".join(a + b for a, b in lines))


def cut(body: bytes, draw_points: list[int]) -> list[bytes]:
    edges = [0, *sorted(point % (len(body) + 1) for point in draw_points), len(body)]
    return [body[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@given(BODIES, st.lists(st.integers(0, 10**6), max_size=12))
def test_any_cutting_gives_the_same_events(body, points):
    """Any chunking of any bytes gives the events of the whole body."""
    assert list(events_of(cut(body, points))) == list(events_of(body))


@given(BODIES)
def test_one_byte_at_a_time_gives_the_same_events(body):
    """The finest chunking, which cuts inside every character and line end, changes nothing."""
    assert list(events_of(body[at : at + 1] for at in range(len(body)))) == list(events_of(body))


@given(st.lists(TEXT, min_size=1, max_size=8), LINE_ENDS)
def test_data_comes_back_as_it_was_sent(texts, end):
    """Texts framed as events come back unchanged, U+0085 and U+2028 within them included."""
    body = b"".join(b"data: " + text.encode() + end + end for text in texts)
    if body:
        assert list(events_of(body)) == [SseEvent(data=text) for text in texts]


@given(any_event_stream(), st.lists(st.integers(0, 10**6), max_size=12))
def test_any_cutting_gives_the_same_fold(stream, points):
    """The events of any cutting fold to what the whole body folds to, for every protocol."""
    protocol = PROTOCOLS[stream.name]
    rebuilt = b"".join(
        b"event: " + event.type.encode() + b"\ndata: " + event.data.encode() + b"\n\n"
        for event in events_of(cut(stream.body, points))
    )
    assert protocol.fold(rebuilt, "text/event-stream", 200) == protocol.fold(stream.body, "text/event-stream", 200)
