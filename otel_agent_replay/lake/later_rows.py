"""Attributes and coverage, made when somebody looks into one of them: those of all rows of a run at once.

Many a use of a run looks into none of them, an exact replay for one, and they are two thirds of what there is to read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

from otel_agent_replay.model import AttributeValue, CoverageEntry


class RowAttributes(NamedTuple):
    """The attributes of rows, in order: of their spans, of their calls and of their outcomes."""

    spans: Sequence[Mapping[str, AttributeValue]]
    calls: Sequence[Mapping[str, AttributeValue]]
    outcomes: Sequence[Mapping[str, AttributeValue]]


class RowsRead(NamedTuple):
    """What rows tell, in order: their attributes, and the coverage of the run that a row is the root of."""

    attributes: RowAttributes
    coverage: Sequence[Sequence[CoverageEntry]]


class LaterRows:
    """What rows tell, made by `make` when the first of it is asked for. Safe to share between threads."""

    def __init__(self, make: Callable[[], RowsRead]) -> None:
        self._make: Callable[[], RowsRead] | None = make
        self._made: RowsRead | None = None
        self._lock = threading.Lock()

    def made(self) -> RowsRead:
        """Return it all. Raises DamagedRecording."""
        with self._lock:
            if self._made is None:
                if self._make is None:
                    raise AssertionError("it is made once")
                self._made = self._make()
                self._make = None  # it holds the bytes of a file
            return self._made


class AttributesOfRow(Mapping[str, AttributeValue]):
    """The attributes of one row: whatever is asked of them first reads them. Equal to a mapping that says the same."""

    __slots__ = ("_later", "_own", "_row", "_side")

    def __init__(self, later: LaterRows, side: int, row: int) -> None:
        self._later = later
        self._side = side  # a place in RowAttributes
        self._row = row
        self._own: Mapping[str, AttributeValue] | None = None

    def _found(self) -> Mapping[str, AttributeValue]:
        own = self._own
        if own is None:
            own = self._own = self._later.made().attributes[self._side][self._row]
        return own

    def __getitem__(self, key: str) -> AttributeValue:
        return self._found()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._found()

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return repr(self._found())

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self._found()),)


class CoverageOfRow(Sequence[CoverageEntry]):
    """The coverage of the run that a row is the root of: whatever is asked of it first reads it. Equal to any sequence
    that says the same.
    """

    __slots__ = ("_later", "_row")

    def __init__(self, later: LaterRows, row: int) -> None:
        self._later = later
        self._row = row

    def _found(self) -> Sequence[CoverageEntry]:
        return self._later.made().coverage[self._row]

    @overload
    def __getitem__(self, place: int) -> CoverageEntry: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[CoverageEntry]: ...

    def __getitem__(self, place: int | slice) -> CoverageEntry | Sequence[CoverageEntry]:
        return self._found()[place]

    def __len__(self) -> int:
        return len(self._found())

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._found())

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (tuple(self._found()),)


def of_rows(later: LaterRows, side: str, rows: Sequence[int]) -> list[Mapping[str, AttributeValue]]:
    """Return the attributes of some rows: `side` is a field of RowAttributes."""
    place = RowAttributes._fields.index(side)
    return [AttributesOfRow(later, place, row) for row in rows]
