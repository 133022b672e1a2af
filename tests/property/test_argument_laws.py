"""The quick form of a call's arguments is the codec's own."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from otel_agent_replay.payload.arguments import PlainArguments
from otel_agent_replay.payload.codec import encode

_NAMES = ("order_id", "cents", "größe", "last")
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**63) - 2, -(2**63) + 2),
    st.integers(2**63 - 3, 2**63 + 1),
    st.floats(),
    st.text(st.characters(codec=None)),
)
_values = st.one_of(_scalars, st.lists(st.integers(), max_size=2), st.binary(max_size=3))


@given(st.lists(_values, max_size=6), st.dictionaries(st.sampled_from((*_NAMES, "other")), _values))
@example(["\ud800"], {})
@example([1], {"order_id": 2})
@example([], {"last": 1, "cents": -0.0})
def test_plain_arguments_are_written_as_the_codec_writes_them(given_values, named):
    """What the shortcut writes is what `encode` makes of the same arguments by name, byte for byte."""
    data = PlainArguments(_NAMES).encoded(tuple(given_values), named)
    if data is None:
        return
    encoded = encode({**dict(zip(_NAMES, given_values, strict=False)), **named})
    assert (data, encoded.round_trips, encoded.notes) == (encoded.data, True, ())


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text("aé\n")), max_size=4))
def test_plain_arguments_take_the_shortcut(values):
    """Texts, small integers, booleans and None are never left to the slow path."""
    assert PlainArguments(_NAMES).encoded(tuple(values), {}) is not None
