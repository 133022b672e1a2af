"""The rows of one run in a spans file: whether there are any, and they themselves.

Owns how little is read: the row groups whose statistics let the run in, and of these no column that holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.parquet_file import STATISTICS, column_of, damage_named, opened
from otel_agent_replay.lake.schema import file_facts

_RUN_ID = "run_id"
_WORTH_THREADS = 1 << 20
"""Bytes of row groups, unpacked: of fewer, handing columns to other threads takes longer than reading them."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """Where the rows of a run lie in the file at `path`: in the row groups `groups`, which an open reader has."""

    path: Path
    run_id: bytes
    groups: list[int]
    reader: pq.ParquetReader

    @classmethod
    def find(cls, path: Path, run_id: bytes) -> RunRows | None:
        """Return the rows of the run in the spans file at `path`; None where it has none.

        Raises DamagedRecording, UnsupportedFormat, FileNotFoundError.
        """
        reader = opened(path)
        metadata = reader.metadata
        file_facts(metadata.metadata, path)
        groups, sure = _groups_of(metadata, run_id)
        rows = cls(path, run_id, groups, reader)
        return rows if sure or (groups and rows._are_there()) else None

    def table(self) -> pa.Table:
        """Return the rows, in columns. Those that are null throughout may be left out. Raises DamagedRecording."""
        metadata = self.reader.metadata
        size = sum(metadata.row_group(group).total_byte_size for group in self.groups)
        with damage_named(self.path):
            table = self.reader.read_row_groups(
                self.groups, column_indices=_telling(metadata), use_threads=size >= _WORTH_THREADS
            )
            column = table.column(_RUN_ID)
            is_of_run = kernels.equal(column, pa.scalar(self.run_id, column.type))
            return table if kernels.all_of(is_of_run) else kernels.filtered(table, is_of_run)

    def _are_there(self) -> bool:
        with damage_named(self.path):
            place = _place_of_run_id(self.reader.metadata)
            column = self.reader.read_row_groups(self.groups, column_indices=[place], use_threads=False).column(0)
        return kernels.any_of(kernels.equal(column, pa.scalar(self.run_id, column.type)))


def _groups_of(metadata: pq.FileMetaData, run_id: bytes) -> tuple[list[int], bool]:
    """Return the row groups whose range of run ids takes in `run_id`, and whether one of them surely holds it."""
    groups, sure = [], False
    column = _place_of_run_id(metadata)
    for group in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(group).column(column).statistics
        if statistics is None:
            groups.append(group)
        elif statistics.has_min_max and (lowest := statistics.min) <= run_id <= (highest := statistics.max):
            groups.append(group)
            sure = sure or run_id in (lowest, highest)
    return groups, sure


def _place_of_run_id(metadata: pq.FileMetaData) -> int:
    if not metadata.num_row_groups:
        return 0
    leaves = metadata.row_group(0)
    places = range(metadata.num_columns)  # it is the first, and telling the names of all takes as long as reading some
    return next((place for place in places if leaves.column(place).path_in_schema == _RUN_ID), 0)


def _telling(metadata: pq.FileMetaData) -> list[int] | None:
    """Return the leaves of the columns that hold something; None for all.

    A file of one row group tells which of its columns hold nothing (see `parquet_file`).
    """
    if metadata.num_row_groups != 1:
        return None
    group = metadata.row_group(0)
    leaves = [group.column(place) for place in range(metadata.num_columns)]
    empty = list(map(_is_empty, leaves))
    if sum(leaf.is_stats_set for leaf in leaves) - sum(empty) > len(STATISTICS):
        return None  # by another writer, which says the same of lists that are there and empty
    found: list[int] = []
    for holds_nothing, members in groupby(range(len(leaves)), key=empty.__getitem__):
        places = list(members)
        found += _of_cut_columns(leaves, places) if holds_nothing else places
    return None if len(found) == len(leaves) else found


def _is_empty(leaf: pq.ColumnChunkMetaData) -> bool:
    if not leaf.is_stats_set:
        return False
    statistics: Any = leaf.statistics
    return bool(statistics.has_null_count and statistics.null_count == leaf.num_values)


def _of_cut_columns(leaves: Sequence[pq.ColumnChunkMetaData], places: list[int]) -> list[int]:
    """Return those of the `places` in a row whose column has leaves before or behind them: it is read whole."""
    first, last = places[0], places[-1]
    beside = {column_of(leaves[place]) for place in (first - 1, last + 1) if 0 <= place < len(leaves)}
    if beside.isdisjoint((column_of(leaves[first]), column_of(leaves[last]))):
        return []
    return [place for place in places if column_of(leaves[place]) in beside]
