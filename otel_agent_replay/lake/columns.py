"""Columns of a table -> lists of Python values, all rows at once. Pure.

A list a column costs a fraction of a mapping a row. Texts come unescaped (`wire.text`); texts that repeat are one
object. A column that is null throughout, or that its file does not have, costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import signature
from itertools import pairwise, repeat
from typing import Any, TypeVar, cast

import pyarrow as pa

from otel_agent_replay.lake import kernels
from otel_agent_replay.wire.text import text_from_wire

_T = TypeVar("_T")

_FEW = 150
"""Of fewer rows, a kernel of Arrow's takes longer to be called than Python to do the same."""


class Columns:
    """The columns of some rows, or the fields of some structs, each made into a list when it is first asked for.

    Every method returns one value a row, in order. What is null is None, or `default` where one is given.
    """

    def __init__(self, of: pa.Table | pa.StructArray) -> None:
        self._of = of
        self._places: dict[str, int] = {}
        self._whole: list[Any] | None = None
        if not isinstance(of, pa.StructArray):
            # By its place: Arrow lists all names anew each time that it is asked for one.
            self._places = {name: at for at, name in enumerate(of.schema.names)}
            batches = of.to_batches()
            if len(batches) == 1 and self._places:  # as nearly always: all columns lie in one piece
                self._whole = batches[0].to_struct_array().flatten()
        self._arrays: dict[str, Any] = {}
        self._made: dict[str, list[Any]] = {}
        self._count = len(of)

    def __len__(self) -> int:
        return self._count

    def array(self, name: str) -> Any:
        """Return the Arrow array of a column in one piece; None when there is nothing but nulls in it."""
        if name not in self._arrays:
            array = self._read(name)
            self._arrays[name] = None if array is None or array.null_count == len(array) else array
        return self._arrays[name]

    def _read(self, name: str) -> Any:
        if isinstance(self._of, pa.StructArray):
            return self._of.field(name)
        if name not in self._places:
            return None
        if self._whole is not None:
            return self._whole[self._places[name]]
        column = self._of.column(self._places[name])
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def values(self, name: str) -> list[Any]:
        """Return the values of a column: texts unescaped, lists of texts as tuples."""
        made = self._made.get(name)
        if made is None:
            array = self.array(name)
            made = self._made[name] = [None] * len(self) if array is None else values_of(array)
        return made

    def filled(self, name: str, default: object) -> Sequence[Any]:
        """Return the values of a column with `default` in place of null."""
        array = self.array(name)
        if array is None:
            return Same(default, len(self))
        values = self.values(name)
        return [default if value is None else value for value in values] if array.null_count else values

    def texts(self, name: str) -> Sequence[str]:
        """Return the texts of a column, null as the empty text."""
        return self.filled(name, "")

    def words(self, name: str, word: Callable[[str], _T]) -> Sequence[_T | None]:
        """Return what `word` makes of the few different texts of a column."""
        array = self.array(name)
        return Same(None, len(self)) if array is None else _coded(array, word)


class Same(Sequence[Any]):
    """A sequence of one value again and again."""

    def __init__(self, value: Any, count: int) -> None:
        self._value = value
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self._value

    def __iter__(self) -> Iterator[Any]:
        return repeat(self._value, self._count)


@cache
def _fields_of(make: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(signature(make).parameters)


def made(make: type[_T], count: int, columns: Mapping[str, Sequence[Any]]) -> list[_T]:
    """Return `count` instances made by `make`, a dataclass or its quicker maker, from one sequence a field."""
    names = _fields_of(cast("Callable[..., Any]", make))
    if columns.keys() != set(names):
        raise TypeError(f"{make.__name__} has the fields {names}, given were {list(columns)}")
    if any(len(column) != count for column in columns.values()):
        raise ValueError(f"columns of {make.__name__} have {[len(column) for column in columns.values()]} rows")
    return list(map(make, *(columns[name] for name in names)))


def values_of(array: Any) -> list[Any]:
    """Return the values of an array: texts unescaped, lists of texts as tuples, null as None."""
    kind = array.type
    if pa.types.is_string(kind):
        return _coded(array, text_from_wire)
    if pa.types.is_list(kind):
        texts = values_of(array.values)
        found: list[Any] = [tuple(texts[first:last]) for first, last in bounds(array)]
        for place in places_where(kernels.is_null(array)):
            found[place] = None
        return found
    if pa.types.is_fixed_size_binary(kind):  # its own conversion takes thirty times as long
        return (
            _cut(array, kind.byte_width)
            if len(array) < _FEW
            else cast("list[Any]", kernels.as_type(array, pa.binary()).to_pylist())
        )
    return cast("list[Any]", array.to_pylist())


def _cut(array: Any, width: int) -> list[bytes | None]:
    """Return the values of an array of few bytes of one width each."""
    count = len(array)
    data = array.buffers()[1].slice(array.offset * width, count * width).to_pybytes()
    found: list[bytes | None] = [data[place : place + width] for place in range(0, count * width, width)]
    if array.null_count:
        for place in places_where(kernels.is_null(array)):
            found[place] = None
    return found


def _coded(array: Any, decode: Callable[[str], _T]) -> list[_T | None]:
    if len(array) < _FEW:
        made: dict[str | None, _T | None] = {None: None}
        texts = array.to_pylist()
        for text in texts:
            if text not in made:
                made[text] = decode(text)
        return [made[text] for text in texts]
    encoded = kernels.dictionary_encode(array)
    known = [decode(text) for text in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_pylist()
    if array.null_count:
        return [None if place is None else known[place] for place in places]
    return list(map(known.__getitem__, places))


def bounds(array: Any) -> Iterable[tuple[int, int]]:
    """Return where each list of an array of lists or maps begins and ends among their values; null is an empty one."""
    ends = array.offsets.to_pylist()
    found = pairwise(ends)
    if not array.null_count:
        return found
    return [bound if there else (0, 0) for bound, there in zip(found, kernels.is_valid(array).to_pylist(), strict=True)]


def places_where(mask: Any) -> list[int]:
    """Return the places at which a boolean array is true."""
    if len(mask) < _FEW:
        return [place for place, is_true in enumerate(mask.to_pylist()) if is_true]
    return cast("list[int]", kernels.indices_nonzero(mask).to_pylist())
