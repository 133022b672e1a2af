"""Spans files of one partition -> the same rows in order of run, in few files. Owns which rows belong together.

What one file holds of one attempt at a run is a *unit* (of a trace without a run: its spans). Units are listed first,
from the key columns alone, and then streamed in order: in memory are some row groups and a few words a unit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay.lake.layout import PAYLOADS, LakeFile
from otel_agent_replay.lake.merged_payloads import MergedPack, PackRows
from otel_agent_replay.lake.row_groups import RowGroups, UnreadableFile
from otel_agent_replay.lake.schema import PAYLOADS as PAYLOADS_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.model import run_started_ms

_SPANS_BUDGET = 192 << 20
_PAYLOADS_BUDGET = 128 << 20
_KEYS = ["run_id", "attempt", "trace_id", "span_id"]
_NUMBERS = ("request_payload", "result_payload")
_BATCH_ROWS = 4096


@dataclass(slots=True)
class Unit:
    """Rows that stay together: `places` are (row group, first row, how many) in the file `source`."""

    run_id: bytes
    attempt: int
    trace_id: bytes
    source: LakeFile
    places: list[tuple[int, int, int]] = field(default_factory=list)
    rows: int = 0

    @property
    def order(self) -> tuple[bytes, int, bytes, str]:
        """What units are sorted by."""
        return self.run_id, self.attempt, self.trace_id, self.source.path.name


@dataclass(slots=True)
class Output:
    """One new file: its units in order."""

    units: list[Unit] = field(default_factory=list)
    rows: int = 0

    @property
    def starts(self) -> tuple[int, int]:
        """The first and the last start of a run (Unix milliseconds); of traces without a run as their file says."""
        firsts, lasts = [], []
        for unit in self.units:
            started = run_started_ms(unit.run_id) if unit.run_id else None
            firsts.append(unit.source.first_ms if started is None else started)
            lasts.append(unit.source.last_ms if started is None else started)
        return min(firsts), max(lasts)


class Sources:
    """The spans files that are merged, with their payloads. Raises UnreadableFile for one that cannot take part."""

    def __init__(self, files: Sequence[LakeFile]) -> None:
        self.spans = RowGroups(SPANS_SCHEMA, _SPANS_BUDGET)
        self._payloads = RowGroups(PAYLOADS_SCHEMA, _PAYLOADS_BUDGET)
        self._packs: dict[Path, PackRows] = {}
        self.facts = {file.path: self.spans.facts(file.path) for file in files}
        self.units = sorted(_distinct(self, [unit for file in files for unit in self._units(file)]), key=_order)

    def _units(self, file: LakeFile) -> Iterable[Unit]:
        found: dict[tuple[bytes, int, bytes], Unit] = {}
        for group in range(len(self.spans.row_counts(file.path))):
            table = self.spans.columns(file.path, group, _KEYS[:3])
            keys = zip(*(table.column(name).to_pylist() for name in _KEYS[:3]), strict=True)
            at = 0
            for (run_id, attempt, trace_id), rows in itertools.groupby(keys):
                count = len(list(rows))
                key = (run_id, attempt or 1, b"") if run_id else (b"", 0, trace_id)
                unit = found.setdefault(key, Unit(key[0], key[1], key[2], file))
                unit.places.append((group, at, count))
                unit.rows += count
                at += count
        return found.values()

    def pack_of(self, file: LakeFile) -> PackRows:
        """Return the payloads of a spans file."""
        path = file.beside(PAYLOADS)
        if path not in self._packs:
            self._packs[path] = PackRows(path, self._payloads)
        return self._packs[path]

    def table_of(self, unit: Unit) -> pa.Table:
        """Return the rows of a unit, in order of their position."""
        parts = [self.spans.table(unit.source.path, group).slice(at, count) for group, at, count in unit.places]
        if len(parts) == 1:
            return parts[0]
        whole = pa.concat_tables(parts)
        return whole.take(pc.sort_indices(whole.column("position")))

    def span_ids(self, unit: Unit) -> set[bytes]:
        """Return the ids of a unit's spans."""
        found: set[bytes] = set()
        for group, at, count in unit.places:
            table = self.spans.columns(unit.source.path, group, ["span_id"])
            found.update(one or b"" for one in table.column("span_id").slice(at, count).to_pylist())
        return found

    def close(self) -> None:
        """Close every file."""
        self.spans.close()
        self._payloads.close()


def _order(unit: Unit) -> tuple[bytes, int, bytes, str]:
    return unit.order


def _distinct(sources: Sources, units: list[Unit]) -> Iterator[Unit]:
    """Leave out a unit whose spans another file has all of: what was published twice is there once.

    Raises UnreadableFile for a file that says otherwise of an attempt than another does: readers take what comes first
    in order of name, and in one file both would be taken.
    """
    by_run: dict[tuple[bytes, int], list[Unit]] = {}
    for unit in units:
        if unit.run_id:
            by_run.setdefault((unit.run_id, unit.attempt), []).append(unit)
        else:
            yield unit
    for same in by_run.values():
        first, *others = sorted(same, key=lambda one: (-one.rows, one.order))
        ids = sources.span_ids(first) if others else set()
        for other in others:
            if not sources.span_ids(other) <= ids:
                path = other.source.path
                what = f"attempt {other.attempt} of run {other.run_id.hex()}"
                raise UnreadableFile(path, f"{path} has other spans of {what} than {first.source.path.name}")
        yield first


def outputs_of(units: Sequence[Unit], most_rows: int) -> list[Output]:
    """Return units cut into files of at most `most_rows` rows; all attempts at a run lie in one."""
    found: list[Output] = []
    for _, members in itertools.groupby(units, key=lambda unit: unit.run_id or unit.trace_id):
        together = list(members)
        rows = sum(unit.rows for unit in together)
        if not found or found[-1].rows + rows > most_rows:
            found.append(Output())
        found[-1].units += together
        found[-1].rows += rows
    return found


def merged_tables(
    sources: Sources, output: Output, pack: int, merged: MergedPack, *, roots_apart: bool
) -> Iterator[tuple[bool, pa.Table]]:
    """Yield the rows of a new file in order, some thousands at a time; their payloads go to `merged`.

    With `roots_apart` root rows come in tables of their own, for which the first of the pair is True.
    """
    rows, roots = _Batch(pack), _Batch(pack)
    for unit in output.units:
        table = sources.table_of(unit)
        new = _renumbered(sources, unit, table, merged)
        first = 0
        if roots_apart and table.column("root")[0].as_py():  # positions begin with the root
            roots.add(table, new, 0, 1)
            first = 1
        rows.add(table, new, first, len(table))
        for batch in (rows, roots):
            if batch.rows >= _BATCH_ROWS:
                yield batch is roots, batch.taken()
    for batch in (rows, roots):
        if batch.rows:
            yield batch is roots, batch.taken()


class _Batch:
    """Slices of units with the new numbers of their payloads, on their way into one table."""

    def __init__(self, pack: int) -> None:
        self._pack = pack
        self._tables: list[pa.Table] = []
        self._numbers: dict[str, list[int | None]] = {name: [] for name in _NUMBERS}
        self.rows = 0

    def add(self, table: pa.Table, numbers: dict[str, list[int | None]], first: int, end: int) -> None:
        self._tables.append(table.slice(first, end - first))
        for name in _NUMBERS:
            self._numbers[name] += numbers[name][first:end]
        self.rows += end - first

    def taken(self) -> pa.Table:
        """Return the rows, and begin anew."""
        pairs = zip(*self._numbers.values(), strict=True)
        packs = [None if request is None and result is None else self._pack for request, result in pairs]
        whole = _with(pa.concat_tables(self._tables), {"pack": packs, **self._numbers})
        self._tables, self._numbers, self.rows = [], {name: [] for name in _NUMBERS}, 0
        return whole


def _renumbered(sources: Sources, unit: Unit, table: pa.Table, merged: MergedPack) -> dict[str, list[int | None]]:
    old = {name: table.column(name).to_pylist() for name in _NUMBERS}
    wanted = {number for column in old.values() for number in column if number is not None}
    if not wanted:
        return old
    new = merged.copy(sources.pack_of(unit.source), wanted)
    return {name: [None if one is None else new[one] for one in column] for name, column in old.items()}


def _with(table: pa.Table, columns: dict[str, list[Any]]) -> pa.Table:
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))
    return table
