"""Cutting bodies: cuttings are of the body and repeat by seed, the least is least, and no cutting changes an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.protocols import PROTOCOLS, reduce_chunks
from otel_agent_replay.replay.protocol import chunking, pieces, smallest
from tests.support.protocol_bodies import any_stream

BODIES = st.binary(max_size=400) | st.text(max_size=200).map(str.encode)
NUMBERS = st.integers(0, 300)
SEEDS = st.integers(-(2**40), 2**40)


@given(BODIES, NUMBERS, SEEDS)
def test_a_cutting_is_of_the_body_and_repeats(body, number, seed):
    """Cuts rise, lie inside the body, make pieces that are the body, and are the same when they are drawn again."""
    cuts = chunking(body, number, seed)
    assert list(cuts) == sorted(cuts)
    assert all(0 < cut < len(body) for cut in cuts)
    assert b"".join(pieces(body, cuts)) == body
    assert len(pieces(body, cuts)) == len(cuts) + 1
    assert chunking(body, number, seed) == cuts


@given(st.binary(min_size=8, max_size=200), SEEDS)
def test_cuttings_differ_by_number(body, seed):
    """A few dozen cuttings of a body are not all one."""
    assert len({chunking(body, number, seed) for number in range(30)}) > 10


@given(st.sets(st.integers(0, 60), max_size=60), st.sets(st.integers(0, 60), max_size=4))
def test_the_least_cutting_that_fails_is_found(cuts, needed):
    """Where a failure needs certain cuts together, exactly those are left of any cutting that has them."""
    whole = tuple(sorted(cuts | needed))
    assert smallest(whole, lambda some: needed <= set(some)) == tuple(sorted(needed))


@given(st.lists(st.integers(0, 60), max_size=40, unique=True).map(sorted), st.integers(1, 7))
def test_what_is_least_still_fails_and_nothing_of_it_can_go(cuts, enough):
    """Also where many subsets fail, the result fails, and without any one of its cuts it does not."""
    whole = tuple(cuts)

    def fails(some):
        return len([cut for cut in some if cut % 3 == 0]) >= enough

    if fails(whole):
        least = smallest(whole, fails)
        assert fails(least)
        assert not any(fails(least[:at] + least[at + 1 :]) for at in range(len(least)))


@given(any_stream(), NUMBERS, SEEDS)
def test_no_cutting_changes_an_answer(stream, number, seed):
    """A stream reduced piece by piece is the same answer as the whole body, problems included."""
    protocol = PROTOCOLS[stream.name]
    chunks = pieces(stream.body, chunking(stream.body, number, seed))
    assert reduce_chunks(protocol, chunks, "text/event-stream", 200) == protocol.fold(
        stream.body, "text/event-stream", 200
    )


@given(st.sampled_from(sorted(PROTOCOLS)), st.binary(max_size=300), NUMBERS, st.sampled_from([200, 500]))
def test_no_cutting_of_any_bytes_changes_what_is_said_of_them(name, body, number, status):
    """Also bytes that are no answer at all are described the same in every cutting, by every protocol."""
    protocol = PROTOCOLS[name]
    for media_type in ("", "text/event-stream", "application/json", "application/x-ndjson"):
        chunks = pieces(body, chunking(body, number, 1))
        assert reduce_chunks(protocol, chunks, media_type, status) == protocol.fold(body, media_type, status)
