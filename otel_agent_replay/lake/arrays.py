"""Lists of Python values -> Arrow arrays, a column at a time: the way back of `columns`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from otel_agent_replay.lake import kernels
from otel_agent_replay.wire.text import text_to_wire


class Lists(dict[str, list[Any]]):
    """Columns that are being filled, by name: a value for each of `count` rows, None where none was given."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __missing__(self, name: str) -> list[Any]:
        made = self[name] = [None] * self.count
        return made


def array_of(values: Sequence[Any], kind: pa.DataType) -> Any:
    """Return an array of values, None as null; texts are escaped where UTF-8 cannot hold them (`wire.text`)."""
    if pa.types.is_string(kind):
        return _text_array(values)
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        values = [None if texts is None else [text_to_wire(text) for text in texts] for texts in values]
    return pa.array(values, kind)


def _text_array(values: Sequence[str | None]) -> Any:
    try:
        array = pa.array(values, pa.string())
    except UnicodeEncodeError:  # lone surrogates
        pass
    else:
        if not kernels.any_of(kernels.starts_with(array, "\0")):
            return array
    return pa.array([None if value is None else text_to_wire(value) for value in values], pa.string())


def offsets_of(lengths: Iterable[int]) -> Any:
    """Return the offsets of lists of these lengths that lie side by side; one without members is null."""
    ends = list(accumulate(lengths, initial=0))
    # The offset at which a list begins is null where the list is.
    begins: list[int | None] = [begin if end > begin else None for begin, end in pairwise(ends)]
    return pa.array([*begins, ends[-1]], pa.int32())


def list_array(lists: Sequence[Sized], values: Any) -> Any:
    """Return an array of lists whose members, in order, are the array `values`; an empty list is null."""
    return pa.ListArray.from_arrays(offsets_of(map(len, lists)), values)


def struct_array(columns: dict[str, Any], kind: Any, mask: Any = None) -> Any:
    """Return an array of structs of a type, from arrays or lists by field; a field that is not given is null."""
    (count,) = {len(column) for column in columns.values()}
    arrays = []
    for field in kind:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(column if isinstance(column, pa.Array) else array_of(column, field.type))
    if mask is None:
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    there = kernels.invert(mask).buffers()[1]  # given a mask, `from_arrays` does the same, by `pyarrow.compute`
    return pa.StructArray.from_buffers(kind, count, [there], children=arrays)
