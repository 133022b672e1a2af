"""Laws of the typed codec."""

from __future__ import annotations

import json
import math
from typing import Any

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_agent_replay.errors import CodecError
from otel_agent_replay.payload import decode, decode_call, encode, encode_call
from tests.property import strategies as own


def same(left: Any, right: Any) -> bool:
    """Equal, with equal classes all the way down, and dicts in the same order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, dict):
        entries, others = list(left.items()), list(right.items())
        return len(entries) == len(others) and all(same(a, c) and same(b, d) for (a, b), (c, d) in zip(entries, others))
    if isinstance(left, (list, tuple)) or type(left).__name__ == "deque":
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return left == right and {(type(item), item) for item in left} == {(type(item), item) for item in right}
    if isinstance(left, (own.Point, own.Tree, own.Slotted)):
        return all(same(getattr(left, name), getattr(right, name)) for name in type(left).__dataclass_fields__)
    if isinstance(left, pydantic.BaseModel):
        return same(vars(left), vars(right)) and left.model_fields_set == right.model_fields_set
    return bool(left == right)


@given(own.values())
def test_decoding_gives_the_encoded_value_back(value):
    """decode(encode(x)) is x, classes and order of keys included."""
    encoded = encode(value)
    assert encoded.round_trips, encoded.notes
    assert same(decode(encoded.data), value)


_NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**18, -(10**19)]),
    st.floats(allow_nan=False, allow_infinity=False),
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(st.characters(codec=None))),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)


@given(_JSON)
@example(-(10**19))
@example({"id": 12345678901234567890123})
@example(["\ud800", 1e-7, -0.0])
def test_json_that_others_wrote_is_read_exactly(value):
    """No integer is rounded, no text refused, whoever wrote them: it is what the standard library reads."""
    text = json.dumps(value)  # a lone surrogate is an escape there
    assert same(decode(text.encode()), json.loads(text))


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a":-Infinity}', "", "{", "[1,]", "'a'", "01", "1 2", "\ufeff1"]
)
def test_what_is_no_json_is_refused(text):
    """Words for numbers that JSON does not have, and what is torn, are errors."""
    with pytest.raises(CodecError):
        decode(text.encode())


@given(own.values())
def test_encoding_is_stable(value):
    """A decoded value encodes to the same bytes again."""
    data = encode(value).data
    assert encode(decode(data)).data == data


@given(st.lists(own.values(5), max_size=3).map(tuple), st.dictionaries(st.text(max_size=5), own.values(5), max_size=3))
def test_calls_come_back(args, kwargs):
    """decode_call(encode_call(args, kwargs)) is (args, kwargs)."""
    encoded = encode_call(args, kwargs)
    got_args, got_kwargs = decode_call(encoded.data)
    assert same(got_args, args)
    assert same(got_kwargs, dict(kwargs))


@given(own.values(5), st.lists(own.values(5), max_size=3))
def test_self_is_left_out(first, rest):
    """`skip_self` encodes as if the first argument were not there."""
    assert encode_call((first, *rest), {}, skip_self=True) == encode_call(tuple(rest), {})


@given(own.json_values())
def test_json_stays_json(value):
    """What JSON holds exactly is written as plain JSON, with no tag."""
    import json

    encoded = encode(value)
    if b'"$type"' not in encoded.data:
        assert json.loads(encoded.data) == value


@given(st.lists(own.HASHABLE, max_size=8))
def test_sets_have_one_form(members):
    """Equal sets have equal bytes, in whatever order they were filled."""
    members = list(set(members))
    assert encode(set(members)).data == encode({*reversed(members)}).data


@given(st.binary(max_size=60))
def test_foreign_bytes_are_an_error_of_the_codec(data):
    """Bytes that are no typed JSON raise CodecError and nothing else."""
    try:
        decode(data)
    except CodecError:
        pass


TAGS = ["int", "float", "complex", "text", "bytes", "decimal", "uuid", "path", "datetime", "time", "date", "timezone"]
TAGS += ["dict", "tuple", "set", "deque", "range", "enum", "dataclass", "pydantic", "namedtuple", "class", "exception"]
TAGS += [
    "subclass",
    "ndarray",
    "numpy_scalar",
    "namespace",
    "text_only",
    "zoneinfo",
    "defaultdict",
    "slice",
    "nonsense",
]


@given(
    st.sampled_from(TAGS),
    st.dictionaries(
        st.sampled_from(
            ["value", "text", "base64", "items", "class", "fields", "args", "base", "dtype", "shape", "name"]
        ),
        own.json_values(4) | st.sampled_from(["builtins:int", "os:path", "subprocess:Popen", "nowhere:Thing"]),
        max_size=4,
    ),
)
def test_forged_tags_do_no_harm(tag, fields):
    """A tag with any fields gives a value or CodecError."""
    import json

    try:
        decode(json.dumps({"$type": tag, **fields}).encode())
    except CodecError as error:
        assert str(error)


@pytest.mark.parametrize("number", [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf])
def test_floats_are_exact(number):
    """Every float comes back bit for bit."""
    back = decode(encode(number).data)
    assert same(back, number)
    assert math.copysign(1, back) == math.copysign(1, number)
