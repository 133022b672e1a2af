"""The rows of one run in a spans file: whether there are any, and they themselves.

Owns how little is read: the row groups whose statistics let the run in, and of these no column that holds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.parquet_file import STATISTICS, bytes_of, damage_named, reader_of
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.span_leaves import BESIDE_COLUMNS, SpanLeaves, leaves_of

_RUN_ID = "run_id"
_WORTH_THREADS = 1 << 20
"""Bytes of row groups, unpacked: of fewer, handing columns to other threads takes longer than reading them."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """Where the rows of a run lie in the file at `path`: in the row groups `groups`, which an open reader has.

    `metadata` and `leaves` are those of the file. `alone` tells that no other rows lie in these row groups; `data` is
    the whole file where it is a small one.
    """

    path: Path
    run_id: bytes
    groups: list[int]
    reader: pq.ParquetReader
    metadata: pq.FileMetaData
    leaves: SpanLeaves
    alone: bool = False
    data: bytes | None = None

    @classmethod
    def find(cls, path: Path, run_id: bytes) -> RunRows | None:
        """Return the rows of the run in the spans file at `path`; None where it has none.

        Raises DamagedRecording, UnsupportedFormat, FileNotFoundError.
        """
        data = bytes_of(path)
        reader = reader_of(path, data)
        metadata = reader.metadata
        file_facts(metadata.metadata, path)
        leaves = leaves_of(metadata)
        groups, sure, alone = _groups_of(metadata, leaves, run_id)
        rows = cls(path, run_id, groups, reader, metadata, leaves, alone, data)
        return rows if sure or (groups and rows._are_there()) else None

    def table(self) -> pa.Table:
        """Return the rows, in the columns that a run is made of. Raises DamagedRecording.

        Columns that are null throughout may be left out.
        """
        return self._of(_telling(self.metadata, self.leaves.by_column)[0])

    def in_two(self) -> tuple[pa.Table, RowsLater | None]:
        """Return the same without what attributes and the coverage of a run are made of, and this to be read later;
        None where all is read.

        Read later is what lies in the bytes at hand: neither the file, which a compaction may replace, nor the reader,
        which takes ten times the memory, is held for it.
        """
        if self.data is None or not self.alone:
            return self.table(), None
        now, told = _telling(self.metadata, self.leaves.now)
        later = self.leaves.later
        if told:
            beside = {name: later[name] for name in BESIDE_COLUMNS}
            hollow = beside.keys() - _telling(self.metadata, beside)[0].keys()
            later = {name: places for name, places in later.items() if name not in hollow}
        return self._of(now), RowsLater(self.path, self.data, self.groups, later, told)

    def _of(self, places: Mapping[str, Sequence[int]]) -> pa.Table:
        size = sum(self.metadata.row_group(group).total_byte_size for group in self.groups)
        with damage_named(self.path):
            table = _read(self.reader, self.groups, places, use_threads=size >= _WORTH_THREADS)
            if self.alone:
                return table
            column = table.column(_RUN_ID)
            is_of_run = kernels.equal(column, pa.scalar(self.run_id, column.type))
            return table if kernels.all_of(is_of_run) else kernels.filtered(table, is_of_run)

    def _are_there(self) -> bool:
        with damage_named(self.path):
            place = [self.leaves.run_id]
            column = self.reader.read_row_groups(self.groups, column_indices=place, use_threads=False).column(0)
        return kernels.any_of(kernels.equal(column, pa.scalar(self.run_id, column.type)))


def _groups_of(metadata: pq.FileMetaData, leaves: SpanLeaves, run_id: bytes) -> tuple[list[int], bool, bool]:
    """Return the row groups whose range of run ids takes in `run_id`, whether one of them surely holds it, and whether
    surely none of them holds anything else.
    """
    groups, sure, alone = [], False, True
    for group in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(group).column(leaves.run_id).statistics
        if statistics is None:
            groups.append(group)
            alone = False
        elif statistics.has_min_max and (lowest := statistics.min) <= run_id <= (highest := statistics.max):
            groups.append(group)
            sure = sure or run_id in (lowest, highest)
            alone = alone and lowest == highest and statistics.has_null_count and not statistics.null_count
    return groups, sure, alone


@dataclass(frozen=True, slots=True)
class RowsLater:
    """Columns of rows that were not read yet, by name: they lie in the bytes of the file that was at `path`.

    Some may hold nothing; `told` says that the file tells of which this is true.
    """

    path: Path
    data: bytes
    groups: list[int]
    columns: Mapping[str, Sequence[int]]
    told: bool

    def table(self) -> pa.Table:
        """Return the columns. Those that hold nothing may be left out. Raises DamagedRecording."""
        reader = reader_of(self.path, self.data)
        places = _telling(reader.metadata, self.columns)[0] if self.told else self.columns
        with damage_named(self.path):
            return _read(reader, self.groups, places, use_threads=False)


def _read(
    reader: pq.ParquetReader, groups: list[int], places: Mapping[str, Sequence[int]], *, use_threads: bool
) -> pa.Table:
    return reader.read_row_groups(groups, column_indices=[*chain(*places.values())], use_threads=use_threads)


def _telling(
    metadata: pq.FileMetaData, columns: Mapping[str, Sequence[int]]
) -> tuple[Mapping[str, Sequence[int]], bool]:
    """Return the leaves of `columns` without those that hold nothing, and whether the file tells which these are.

    A file of one row group does (see `parquet_file`).
    """
    if metadata.num_row_groups != 1:
        return columns, False
    group = metadata.row_group(0)
    found: dict[str, Sequence[int]] = {}
    told = 0
    for name, places in columns.items():
        leaf = group.column(places[0])  # what is said of a column is said of all its leaves
        if leaf.is_stats_set:
            statistics: Any = leaf.statistics
            if statistics.has_null_count and statistics.null_count == leaf.num_values:
                continue
            told += 1
        found[name] = places
    # More are told of by another writer, which says the same of lists that are there and empty.
    return (found, True) if told <= len(STATISTICS) else (columns, False)
