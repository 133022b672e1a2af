"""Laws of the pieces that a run's states are stored in: exact bytes, each stored once, few ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.lake.payload_store import Body, PackWriter
from otel_agent_replay.lake.state_pieces import LONGEST, StatePieces, cut, ranges_of
from otel_agent_replay.model import digest_of
from otel_agent_replay.payload import encode

PARTS = st.lists(
    st.sampled_from([b"a", b',"', b'{"role":"user","content":"hello"}', b"x" * 5_000, b"ab" * 300, b'"tick tick",'])
    | st.binary(max_size=60),
    max_size=9,
).map(b"".join)


def stored(states):
    """The rows of a pack that holds `states`, and the number of each."""
    rows = []
    writer = PackWriter(1, lambda table: rows.extend(table.to_pylist()))
    numbers = writer.add_states(Body(digest_of(state), state) for state in states)
    writer.flush()
    return rows, numbers


def read(rows, number):
    row = rows[number]
    if row["pieces"] is None:
        return row["data"]
    numbers = [n for found in row["pieces"] for n in range(found["first"], found["first"] + found["count"])]
    return b"".join(rows[n]["data"] for n in numbers)


@given(st.lists(PARTS, max_size=9))
def test_each_state_is_its_pieces_joined(states):
    """Whatever the states of a run are, each comes back byte for byte."""
    rows, numbers = stored(states)
    assert [read(rows, numbers[digest_of(state)]) for state in states] == states


@given(PARTS)
def test_pieces_of_a_cut_tile_what_was_cut(data):
    """No byte is lost or twice there, and no piece is longer than it may be."""
    assert b"".join(cut(data)) == data
    assert all(0 < len(piece) <= LONGEST for piece in cut(data))


@given(st.lists(st.integers(0, 20)))
def test_ranges_are_the_numbers_in_their_order(numbers):
    """Two ranges never follow each other without a gap."""
    ranges = ranges_of(iter(numbers))
    assert [number for first, count in ranges for number in range(first, first + count)] == numbers
    assert all(count > 0 for _, count in ranges)
    assert all(sum(before) != after[0] for before, after in zip(ranges, ranges[1:], strict=False))


def _states(steps):
    state = {"step": 0, "plan": ["look", "pay"], "notes": [], "seen": [], "pad": "", "last": []}
    new = 0
    for number in range(1, steps + 1):
        item = {"role": "user", "content": f"note {number} " + "word " * (number % 30), "cost": number / 7}
        text, order = f"then I looked at order {number}. ", f"order-{number:06}"
        state = {
            "step": number,
            "plan": state["plan"],
            "notes": [*state["notes"], item],
            "seen": [*state["seen"], order],
            "pad": state["pad"] + text,
            "last": [*state["last"], item][-20:],
        }
        new += len(encode([item, item, text, number, order]).data)
        yield encode(state).data, new


@pytest.mark.parametrize("steps", [400, pytest.param(1_000, marks=pytest.mark.soak)])
def test_what_is_stored_of_a_growing_state_is_what_was_new(steps):
    """Hundreds of states with a counter, two growing lists, a growing text and a window: each byte at most twice."""
    sizes = {}
    states = []
    for place, (state, new) in enumerate(_states(steps), 1):
        states.append(state)
        if place in (steps // 4, steps):
            rows, _ = stored(states)
            held = sum(len(row["data"] or b"") for row in rows)
            assert held <= 2 * new
            ranges = max(len(row["pieces"]) for row in rows if row["pieces"] is not None)
            sizes[place] = held, ranges
    assert sizes[steps][0] <= 4.5 * sizes[steps // 4][0]
    assert sizes[steps][1] <= 60  # the window's items and the counters lie between each other


def test_two_agents_side_by_side_are_each_cut_along_their_own_states():
    """States that take turns share with the one before the last, and cost what was new of each."""
    states, new = [], 0
    for place, (state, told) in enumerate(_states(200)):
        states += [state, state.replace(b"note", b"memo").replace(b"word", b"mark") + b" " * (place % 2)]
        new = told
    rows, _ = stored(states)
    assert sum(len(row["data"] or b"") for row in rows) <= 4 * new


def test_what_two_runs_share_of_a_first_state_is_stored_once():
    """A long context that each run's first state holds lies in the pack one time."""
    context = [f"paragraph {number} of the handbook: " + "say it " * 40 for number in range(100)]
    rows = []
    writer = PackWriter(1, lambda table: rows.extend(table.to_pylist()))
    for run in range(3):
        data = encode({"question": "why? " * run, "context": context}).data
        writer.add_states([Body(digest_of(data), data)])
    writer.flush()
    assert sum(len(row["data"] or b"") for row in rows) <= 1.4 * len(data)


def test_states_are_taken_one_at_a_time():
    """Only a few of them are in memory together."""
    alive = []

    class Watched(bytes):
        def __del__(self):
            alive.remove(id(self))

    def states():
        for state, _ in _states(60):
            watched = Watched(state)
            alive.append(id(watched))
            yield Body(digest_of(watched), watched)
            assert len(alive) <= 6

    taken = StatePieces()
    for body in states():
        taken.add(body.digest, body.data)
    pieces, ranges = taken.laid_out()
    assert len(list(ranges)) == 60
    assert pieces
