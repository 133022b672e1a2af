"""Payloads of several packs -> one pack, each distinct piece once. Owns the numbers, knows nothing of spans.

Pieces keep the order that they had, so that a payload in pieces stays a few ranges. Bytes are compared by their own
SHA-256 and never taken for those that a digest beside them names: an altered payload stays altered, a good one good.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from otel_agent_replay.lake.payload_store import WHOLE_IS_CHEAPER
from otel_agent_replay.lake.row_groups import RowGroups, UnreadableFile
from otel_agent_replay.lake.schema import PAYLOADS

# Smaller than in a sealer's file: what runs repeat lies here once, so a long window gains little, and a run's payloads
# are found among those of thousands.
_ROW_GROUP_BYTES = 2 << 20
_ROW_GROUP_ROWS = 16384
_Range = tuple[int, int]  # first, count


class MergedPack:
    """Takes payloads out of other packs and hands full row groups to `write`."""

    def __init__(self, pack: int, write: Callable[[pa.Table], None]) -> None:
        self._pack = pack
        self._write = write
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._keys: list[bytes] = []  # of each number, what tells its row from others
        self._known: dict[bytes, int] = {}
        self._moved: dict[Path, _Moved] = {}

    def copy(self, source: PackRows, numbers: Iterable[int]) -> dict[int, int]:
        """Take the payloads of these numbers, with the pieces they are made of; return their new numbers by the old.

        Raises UnreadableFile.
        """
        moved = self._moved.setdefault(source.path, _Moved())
        rows = {number: source.row(number) for number in sorted(numbers)}
        recipes = {number: row["pieces"] for number, row in rows.items() if row["data"] is None}
        wanted = [(piece["first"], piece["count"]) for pieces in recipes.values() for piece in pieces or ()]
        wanted += [(number, 1) for number in rows if number not in recipes]
        for first, count in wanted:
            if first < 0 or count < 0 or first + count > source.count:
                raise UnreadableFile(source.path, f"{source.path} has no payloads {first} to {first + count - 1}")
        for number in moved.missing(wanted):
            moved.add(number, self._put(rows.get(number) or source.row(number), moved.last_new(number)))
        found = {number: next(moved.ranges(number, 1))[0] for number in rows if number not in recipes}
        for number, pieces in recipes.items():
            ranges = _joined(one for piece in pieces or () for one in moved.ranges(piece["first"], piece["count"]))
            row = {**rows[number], "pieces": [{"first": first, "count": count} for first, count in ranges]}
            found[number] = self._put(row, None)
        return found

    def _put(self, row: dict[str, Any], follows: int | None) -> int:
        """Return the number of a row, added unless it is there; `follows` is that of the row before it in its pack."""
        key = _key(row)
        if follows is not None and follows + 1 < len(self._keys) and self._keys[follows + 1] == key:
            return follows + 1
        known = self._known.get(key)
        extends = follows is not None and follows + 1 == len(self._keys)
        # A short piece is stored again rather than let it break a range.
        if known is not None and (len(row["data"] or b"") >= WHOLE_IS_CHEAPER or not extends):
            return known
        number = len(self._keys)
        self._keys.append(key)
        self._known[key] = number
        self._rows.append({**row, "pack": self._pack, "number": number})
        self._bytes += len(row["data"] or b"")
        if self._bytes >= _ROW_GROUP_BYTES or len(self._rows) >= _ROW_GROUP_ROWS:
            self.flush()
        return number

    def flush(self) -> None:
        """Hand over what is collected as one row group."""
        if self._rows:
            self._write(pa.Table.from_pylist(self._rows, PAYLOADS))
            self._rows, self._bytes = [], 0


class PackRows:
    """The rows of one pack by number. Raises UnreadableFile where they cannot be read."""

    def __init__(self, path: Path, groups: RowGroups) -> None:
        self.path = path
        self._groups = groups
        groups.facts(path)
        self._starts = [0]
        for rows in groups.row_counts(path):
            self._starts.append(self._starts[-1] + rows)
        self.count = self._starts[-1]

    def row(self, number: int) -> dict[str, Any]:
        """Return a row."""
        if not 0 <= number < self.count:
            raise UnreadableFile(self.path, f"{self.path} has no payload number {number}")
        group = bisect_right(self._starts, number) - 1
        return self._groups.rows(self.path, group)[number - self._starts[group]]


class _Moved:
    """Where the rows of one pack lie in another: stretches of rows that follow each other in both."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._news: list[int] = []

    def add(self, old: int, new: int) -> None:
        """Say where a row lies that was missing."""
        place = bisect_left(self._firsts, old)
        if place and self._ends[place - 1] == old and self._news[place - 1] + old - self._firsts[place - 1] == new:
            self._ends[place - 1] += 1
            return
        self._firsts.insert(place, old)
        self._ends.insert(place, old + 1)
        self._news.insert(place, new)

    def last_new(self, old: int) -> int | None:
        """Return where the row before `old`, which is missing, lies; None where that one is missing too."""
        place = bisect_left(self._firsts, old) - 1
        if place < 0 or self._ends[place] != old:
            return None
        return self._news[place] + old - 1 - self._firsts[place]

    def missing(self, wanted: Iterable[_Range]) -> list[int]:
        """Return those of the wanted rows that were not moved, in order."""
        found: list[int] = []
        end = 0
        for first, count in sorted(wanted):
            at, end_here = max(first, end), first + count
            while at < end_here:
                place = bisect_right(self._firsts, at) - 1
                if place >= 0 and self._ends[place] > at:
                    at = self._ends[place]
                    continue
                until = self._firsts[place + 1] if place + 1 < len(self._firsts) else end_here
                found.extend(range(at, min(until, end_here)))
                at = min(until, end_here)
            end = max(end, end_here)
        return found

    def ranges(self, first: int, count: int) -> Iterator[_Range]:
        """Yield where the rows from `first` on lie; all of them were moved."""
        end = first + count
        while first < end:
            place = bisect_right(self._firsts, first) - 1
            here = min(end, self._ends[place]) - first
            yield self._news[place] + first - self._firsts[place], here
            first += here


def _joined(ranges: Iterable[_Range]) -> list[_Range]:
    found: list[_Range] = []
    for first, count in ranges:
        if found and sum(found[-1]) == first:
            found[-1] = found[-1][0], found[-1][1] + count
        else:
            found.append((first, count))
    return found


def _key(row: dict[str, Any]) -> bytes:
    told = repr((row["role"], row["key_id"], row["pieces"] if row["data"] is None else None)).encode()
    digest = hashlib.sha256(len(told).to_bytes(4, "big") + told)
    if row["data"] is not None:
        digest.update(row["data"])
    return digest.digest()[:16]
