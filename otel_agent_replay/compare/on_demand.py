"""A list that is made when somebody first looks at it: most of a comparison is never looked at by who counts many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class OnDemand(Sequence[_T], Generic[_T]):
    """The items that `make` returns, made once. Equal to any sequence of equal items; pickled as a list.

    >>> OnDemand(lambda: [1, 2]) == [1, 2]
    True
    """

    __slots__ = ("_made", "_make")
    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __init__(self, make: Callable[[], Sequence[_T]]) -> None:
        self._make: Callable[[], Sequence[_T]] | None = make
        self._made: Sequence[_T] = ()

    def _items(self) -> Sequence[_T]:
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # and with it all that the items were made of
        return self._made

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        return self._items()[index]

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[_T]:
        return iter(self._items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self._items()) == list(other)

    def __repr__(self) -> str:
        return repr(list(self._items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self._items()),)
