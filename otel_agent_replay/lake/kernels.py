"""Arrow's compute functions, called by their names in its registry.

Not by way of `pyarrow.compute`, nor of what imports it (`Table.filter`, `Array.cast`, `is_valid`, `take`,
`dictionary_encode`, `pyarrow.dataset`): at its import that module writes a Python function with a docstring for each of
three hundred functions, which takes 60 ms of every process that reads a small lake. `call_function` and the classes of
options are what it exports too; here they are taken from where they are made. Functions have the names and defaults
that they have there.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import pyarrow as pa

try:
    from pyarrow import _compute as arrow
except ImportError:  # its name is Arrow's own affair
    import pyarrow.compute as arrow  # type: ignore[no-redef]

_Rows = TypeVar("_Rows")


def filtered(values: _Rows, mask: Any) -> _Rows:
    """Return the rows of a table, or members of an array, for which `mask` is true; null counts as false."""
    return cast("_Rows", arrow.call_function("filter", [values, mask]))


def taken(values: Any, places: Any) -> Any:
    """Return the rows of a table, or members of an array, at `places`; null where a place is null."""
    return arrow.call_function("take", [values, places])


def as_type(values: Any, kind: pa.DataType) -> Any:
    """Return the array with another type. Raises ArrowInvalid where a value would change."""
    return values if values.type == kind else arrow.call_function("cast", [values], arrow.CastOptions.safe(kind))


def equal(values: Any, other: Any) -> Any:
    """Return where values are equal; null where one of them is null."""
    return arrow.call_function("equal", [values, other])


def is_in(values: Any, value_set: Any) -> Any:
    """Return where values are among those of `value_set`."""
    return arrow.call_function("is_in", [values], arrow.SetLookupOptions(value_set))


def is_valid(values: Any) -> Any:
    """Return where values are not null."""
    return arrow.call_function("is_valid", [values])


def is_null(values: Any) -> Any:
    """Return where values are null."""
    return arrow.call_function("is_null", [values])


def invert(mask: Any) -> Any:
    """Return the opposite of a mask."""
    return arrow.call_function("invert", [mask])


def any_of(mask: Any) -> bool:
    """Return whether a mask is true anywhere; null counts as false."""
    return arrow.call_function("any", [mask]).as_py() is True


def all_of(mask: Any) -> bool:
    """Return whether a mask is true everywhere; null counts as false, and nothing is not true."""
    return arrow.call_function("all", [mask], arrow.ScalarAggregateOptions(skip_nulls=False)).as_py() is True


def dictionary_encode(values: Any) -> Any:
    """Return the array as indices into its distinct values."""
    return arrow.call_function("dictionary_encode", [values])


def indices_nonzero(mask: Any) -> Any:
    """Return the places where a mask is true."""
    return arrow.call_function("indices_nonzero", [mask])


def starts_with(texts: Any, begin: str) -> Any:
    """Return where texts begin with `begin`."""
    return arrow.call_function("starts_with", [texts], arrow.MatchSubstringOptions(begin))


def struct_field(values: Any, name: str) -> Any:
    """Return a field of structs."""
    return arrow.call_function("struct_field", [values], arrow.StructFieldOptions(name))
