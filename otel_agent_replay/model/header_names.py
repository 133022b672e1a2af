"""Some headers, picked by their names in any case, at the cost of a look-up in C for each of a message's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import itemgetter

_MOST_REMEMBERED = 2_048
_name_of = itemgetter(0)


class HeaderNames:
    """The names of some headers.

    >>> list(HeaderNames(["content-type"]).of([("Content-Type", "text/plain"), ("Date", "today")]))
    [('Content-Type', 'text/plain')]
    """

    __slots__ = ("_has",)

    def __init__(self, names: Iterable[str]) -> None:
        self._has = _Known(frozenset(names)).__getitem__

    def of(self, headers: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Return those of `headers` that bear one of the names, in order."""
        return compress(headers, map(self._has, map(_name_of, headers)))


class _Known(dict[str, bool]):
    """Whether a name, as a peer spelled it, is one of `names` (lower case). Peers spell few."""

    __slots__ = ("_names",)

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, name: str) -> bool:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[name] = name.lower() in self._names
        return found
