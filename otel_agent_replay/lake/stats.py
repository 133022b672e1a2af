"""What a lake takes: rows, bytes by column and by kind of payload, how often payloads are shared, how files lie.

Footers tell most of it; sizes of payloads are read column by column. Files that cannot be read are named, not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from otel_agent_replay.errors import RecordingError
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS, LakeFile, Partition, all_partitions, files_in
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.settling import Skipped
from otel_agent_replay.lake.writer import FILE_ROWS

WHOLE, IN_PIECES = "whole", "in pieces"
"""What a payload is that is no piece: kept as it was given, or a list of pieces."""

_TABLES = (SPANS, PAYLOADS, LOSSES, LABELS)
_SHARED = ("kind", "request_size", "request_payload", "result_size", "result_payload")


@dataclass(slots=True)
class TableStats:
    """One table: `size` are bytes of its files, `columns` compressed bytes by column; the rest of `size` is footers."""

    files: int = 0
    rows: int = 0
    size: int = 0
    columns: Counter[str] = field(default_factory=Counter)

    @property
    def footers(self) -> int:
        """Bytes of footers: what files take beside their columns."""
        return self.size - sum(self.columns.values())


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """One hour: its files of spans, how many of these are small, and the bytes of all tables."""

    hour: str
    files: int
    small: int
    size: int


@dataclass(slots=True)
class LakeStats:
    """See the module. Sizes are bytes.

    `kinds` are rows and stored bytes of payloads, by the role of a piece (system, tool, state ...), `whole` or `in
    pieces`. `given` are bytes as spans handed them over, by kind of node; `stored` what of them was stored, before
    compression. `mergeable` small files would become `merged_into` by compaction.
    """

    runs: int = 0
    tables: dict[str, TableStats] = field(default_factory=lambda: {table: TableStats() for table in _TABLES})
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    given: Counter[str] = field(default_factory=Counter)
    partitions: list[PartitionStats] = field(default_factory=list)
    mergeable: int = 0
    merged_into: int = 0
    unreadable: list[Skipped] = field(default_factory=list)

    @property
    def stored(self) -> int:
        """Bytes of payloads that are stored."""
        return sum(size for _, size in self.kinds.values())

    @property
    def dedup_ratio(self) -> float | None:
        """How many bytes were given for each that is stored; None where there are none."""
        return sum(self.given.values()) / self.stored if self.stored else None

    @property
    def small_share(self) -> float:
        """The share of the files of spans that are small."""
        files = sum(one.files for one in self.partitions)
        return sum(one.small for one in self.partitions) / files if files else 0.0

    @property
    def advice(self) -> list[str]:
        """What to do, if anything."""
        found = []
        if self.mergeable > self.merged_into:
            found.append(f"{self.mergeable} files would become {self.merged_into}: agent-replay compact")
        if self.unreadable:
            found.append(f"{len(self.unreadable)} files cannot be read: agent-replay doctor --deep")
        return found


def stats_of(lake: Path, *, progress: Callable[[int, int], None] = lambda _done, _of: None) -> LakeStats:
    """Return what a lake takes. `progress` is told how many hours of how many are read. Raises OSError."""
    lake = Path(lake)
    found = LakeStats()
    partitions = all_partitions(lake)
    for place, partition in enumerate(partitions):
        _add_partition(lake, partition, found)
        progress(place + 1, len(partitions))
    planned = compact(lake, dry_run=True)
    found.mergeable, found.merged_into = planned.merged, planned.made
    return found


def _add_partition(lake: Path, partition: Partition, found: LakeStats) -> None:
    small = files = size = 0
    for table in _TABLES:
        try:
            listed = files_in(partition.folder(lake, table))
        except RecordingError as error:
            found.unreadable.append(Skipped(str(partition.folder(lake, table)), str(error)))
            continue
        for file in listed:
            try:
                rows = _add_file(file, table, found)
            except FileNotFoundError:  # merged or deleted meanwhile
                continue
            except RecordingError as error:
                found.unreadable.append(Skipped(str(file.path), str(error)))
                continue
            size += file.path.stat().st_size
            if table == SPANS:
                files += 1
                small += rows < FILE_ROWS // 2
    found.partitions.append(PartitionStats(f"{partition.date} {partition.hour}", files, small, size))


def _add_file(file: LakeFile, table: str, found: LakeStats) -> int:
    with damage_named(file.path):
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    with parquet:
        metadata = parquet.metadata
        file_facts(metadata.metadata, file.path)
        with damage_named(file.path):
            if table == SPANS:
                _add_given(parquet, found)
            elif table == PAYLOADS:
                _add_kinds(parquet, found)
        into = found.tables[table]
        into.files += 1
        into.rows += metadata.num_rows
        into.size += file.path.stat().st_size
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for column in range(group.num_columns):
                chunk = group.column(column)
                into.columns[chunk.path_in_schema.partition(".")[0]] += chunk.total_compressed_size
        return int(metadata.num_rows)


def _add_given(parquet: pq.ParquetFile, found: LakeStats) -> None:
    table = parquet.read(columns=["root", "attempt", *_SHARED])
    first = pc.and_(table.column("root"), pc.equal(table.column("attempt"), pa.scalar(1, pa.int32())))
    found.runs += pc.sum(first).as_py() or 0
    for side in ("request", "result"):
        kept = table.filter(pc.is_valid(table.column(f"{side}_payload"))).group_by("kind")
        for row in kept.aggregate([(f"{side}_size", "sum")]).to_pylist():
            found.given[row["kind"] or "span"] += row[f"{side}_size_sum"] or 0


def _add_kinds(parquet: pq.ParquetFile, found: LakeStats) -> None:
    for group in range(parquet.metadata.num_row_groups):
        table = parquet.read_row_group(group, columns=["role", "data"])
        lengths: Any = pc.binary_length(table.column("data"))
        missing = pc.cast(pc.is_null(lengths), pa.int64())
        sizes = pa.table({"role": table.column("role"), "size": lengths, "missing": missing}).group_by("role")
        for row in sizes.aggregate([("size", "sum"), ("size", "count"), ("missing", "sum")]).to_pylist():
            _add_kind(found, row["role"] or WHOLE, row["size_count"], row["size_sum"] or 0)
            _add_kind(found, IN_PIECES, row["missing_sum"], 0)


def _add_kind(found: LakeStats, kind: str, rows: int, size: int) -> None:
    if rows:
        before = found.kinds.get(kind, (0, 0))
        found.kinds[kind] = before[0] + rows, before[1] + size
