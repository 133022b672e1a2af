"""What runs lost, out of the files of their hour: only the row groups that can tell of them are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.layout import LOSSES, LakeFile, Partition, files_in
from otel_agent_replay.lake.loss_rows import load_loss
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.model import Loss, run_started_ms


def losses_of(lake: Path, partition: Partition, run_ids: Collection[bytes]) -> dict[bytes, list[Loss]]:
    """Return the losses of runs that began in an hour: those written with them, and those that came later.

    Raises DamagedRecording.
    """
    found: dict[bytes, list[Loss]] = defaultdict(list)
    starts = sorted(map(run_started_ms, run_ids))
    for file in files_in(partition.folder(lake, LOSSES)):
        if any(file.first_ms <= started <= file.last_ms for started in starts):
            for row in _rows_of(file, sorted(run_ids)):
                found[row["run_id"]].append(load_loss(row))
    return found


def _rows_of(file: LakeFile, run_ids: list[bytes]) -> list[dict[str, Any]]:
    with damage_named(file.path), pq.ParquetFile(file.path, page_checksum_verification=True) as parquet:
        groups = [group for group in range(parquet.num_row_groups) if _may_tell(parquet, group, run_ids)]
        if not groups:
            return []
        table = parquet.read_row_groups(groups, use_threads=False)
        column = table.column("run_id")
        return kernels.filtered(table, kernels.is_in(column, pa.array(run_ids, column.type))).to_pylist()


def _may_tell(parquet: pq.ParquetFile, group: int, run_ids: list[bytes]) -> bool:
    column = parquet.schema_arrow.get_field_index("run_id")  # no column before it is nested
    statistics: Any = parquet.metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return any(statistics.min <= run_id <= statistics.max for run_id in run_ids)
