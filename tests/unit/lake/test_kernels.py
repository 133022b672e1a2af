"""Functions called in Arrow's registry are those of `pyarrow.compute`, which need not be imported for them."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from otel_agent_replay.lake import kernels

_NUMBERS = pa.chunked_array([[3, None, 1], [1]])
_TEXTS = pa.array(["\0a", "b", None, "b"])
_MASK = pa.array([True, None, False, True])
_TABLE = pa.table({"number": _NUMBERS, "text": _TEXTS, "about": [{"mode": "x"}, None, {"mode": "y"}, {"mode": "x"}]})


def test_rows_are_chosen_by_a_mask_and_by_their_places():
    """A null in a mask leaves a row out, a null among places gives one of nulls."""
    assert kernels.filtered(_TABLE, _MASK) == _TABLE.filter(_MASK)
    assert kernels.filtered(_TEXTS, _MASK) == _TEXTS.filter(_MASK)
    places = pa.array([2, None, 0])
    assert kernels.taken(_TABLE, places) == _TABLE.take(places)
    assert kernels.taken(_TEXTS, places) == _TEXTS.take(places)


def test_values_are_compared_and_looked_into():
    """Nulls stay nulls in a comparison and are in no set without null."""
    assert kernels.equal(_NUMBERS, pa.scalar(1)) == pc.equal(_NUMBERS, pa.scalar(1))
    wanted = pa.array([1, 2])
    assert kernels.is_in(_NUMBERS, wanted) == pc.is_in(_NUMBERS, value_set=wanted)
    assert kernels.is_valid(_NUMBERS) == pc.is_valid(_NUMBERS)
    assert kernels.is_null(_NUMBERS) == pc.is_null(_NUMBERS)
    assert kernels.starts_with(_TEXTS, "\0") == pc.starts_with(_TEXTS, pattern="\0")
    assert kernels.struct_field(_TABLE.column("about"), "mode") == pc.struct_field(_TABLE.column("about"), "mode")
    assert kernels.dictionary_encode(_TEXTS) == _TEXTS.dictionary_encode()


def test_masks_are_turned_and_summed_up():
    """A null is not true: it spoils "everywhere", and is nothing for "anywhere"."""
    assert kernels.invert(_MASK) == pc.invert(_MASK)
    assert kernels.indices_nonzero(_MASK) == pc.indices_nonzero(_MASK)
    null = pa.nulls(1, pa.bool_())
    for values, anywhere, everywhere in (
        (_MASK, True, False),
        (null, False, False),
        (pa.array([], pa.bool_()), False, False),
        (pa.array([True, True]), True, True),
        (pa.array([True, None]), True, False),
        (pa.array([False]), False, False),
    ):
        assert (kernels.any_of(values), kernels.all_of(values)) == (anywhere, everywhere)


def test_a_type_is_changed_only_where_no_value_is():
    """Another type gives the same values, or an error."""
    assert kernels.as_type(_NUMBERS, pa.int8()) == _NUMBERS.cast(pa.int8())
    assert kernels.as_type(_NUMBERS, pa.int64()) is _NUMBERS
    with pytest.raises(pa.ArrowInvalid):
        kernels.as_type(pa.array([300]), pa.int8())


def test_no_function_needs_the_module_that_is_slow_to_import():
    """All of them work, and `pyarrow.compute` is not there."""
    code = (
        "import sys, pyarrow as pa; from otel_agent_replay.lake import kernels as k\n"
        "n, m, t = pa.array([3, None]), pa.array([True, False]), pa.array(['a', 'b'])\n"
        "k.filtered(pa.table({'n': n}), m); k.taken(n, pa.array([0])); k.as_type(n, pa.int8())\n"
        "k.equal(n, pa.scalar(3)); k.is_in(n, n); k.is_valid(n); k.is_null(n); k.invert(m); k.any_of(m); k.all_of(m)\n"
        "k.indices_nonzero(m); k.dictionary_encode(t); k.starts_with(t, 'a')\n"
        "k.struct_field(pa.array([{'x': 1}]), 'x')\n"
        "print('pyarrow.compute' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
