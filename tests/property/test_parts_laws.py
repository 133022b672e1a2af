"""Laws of bodies as parts of earlier ones, and of how much of a growing state is new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.payload import encode
from otel_agent_replay.payload.parts import joined, new_bytes, parts_of

PIECES = st.lists(
    st.sampled_from(
        [b"a", b',"', b'{"role":"user","content":"hello there"}', b"x" * 5_000, b"ab" * 300, b'"tick tick",']
    )
    | st.binary(max_size=60),
    max_size=12,
).map(b"".join)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=60,
)


@given(PIECES, PIECES)
def test_parts_of_any_bytes_make_up_the_body(base, body):
    """Joined in order they are the body, byte for byte, whatever the two are."""
    assert joined(base, parts_of(base, body)) == body


@given(VALUES, VALUES)
def test_parts_of_any_state_make_up_the_state(before, after):
    """Typed JSON of any value comes back byte for byte out of what it shares with another."""
    base, body = encode({"state": before}).data, encode({"state": after}).data
    assert joined(base, parts_of(base, body)) == body


@given(PIECES)
def test_a_body_is_one_copy_of_itself(body):
    """Nothing of it is new, once it is long enough to be copied at all."""
    assert new_bytes(parts_of(body, body)) == (0 if len(body) >= 32 else len(body))


def _item(number: int) -> dict[str, object]:
    return {"role": "user", "content": f"note {number} " + "word " * (number % 30), "cost": number / 7}


@pytest.mark.parametrize("steps", [400, pytest.param(1_000, marks=pytest.mark.soak)])
def test_what_is_new_of_a_growing_state_does_not_grow_with_it(steps):
    """Hundreds of steps of a state with a counter, two growing lists, a growing text and a rolling window."""
    state: dict[str, object] = {"step": 0, "plan": ["look", "pay"], "notes": [], "seen": [], "pad": "", "last": []}
    before = encode(state).data
    new = grown = 0
    for number in range(1, steps + 1):
        item, text = _item(number), f"then I looked at order {number}. "
        state = {
            "step": number,
            "plan": state["plan"],
            "notes": [*state["notes"], item],
            "seen": [*state["seen"], f"order-{number:06}"],
            "pad": text + state["pad"] if number % 2 else state["pad"] + text,
            "last": [*state["last"], item][-20:],
        }
        after = encode(state).data
        parts = parts_of(before, after)
        assert joined(before, parts) == after
        new += new_bytes(parts)
        grown += len(encode([item, item, text, number, f"order-{number:06}"]).data)
        before = after
    assert new <= 1.5 * grown
    assert len(before) > 150 * steps
