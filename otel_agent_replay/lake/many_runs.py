"""Many runs out of a lake at once: each row group is read once for all runs wanted of it. Owns no order of its own.

For one run `catalog.Lake.load` is the way; this is for cohorts, whose runs lie side by side in few files.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.attempt_rows import AttemptRows, attempts_in
from otel_agent_replay.lake.catalog import Lake, open_spans
from otel_agent_replay.lake.layout import PAYLOADS, SPANS, LakeFile, Partition, files_in
from otel_agent_replay.lake.losses_of import losses_of
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.payload_store import PackReader
from otel_agent_replay.lake.run_row import load_run
from otel_agent_replay.lake.whole_run import merged_attempts
from otel_agent_replay.model import Loss, RecordedRun, Run, run_started_ms

_OPEN_PACKS = 6


class ManyRuns:
    """Loads runs of one lake in batches. Not safe to share between threads.

    Payloads are read when asked for, from a few packs that stay open.
    """

    def __init__(self, lake: Path) -> None:
        self._root = Path(lake)
        self._lake = Lake(lake)
        self._packs: OrderedDict[Path, PackReader] = OrderedDict()

    def load(self, run_ids: Iterable[bytes]) -> dict[bytes, RecordedRun]:
        """Return those of the runs that the lake has. Raises DamagedRecording, UnsupportedFormat."""
        by_hour: dict[Partition, set[bytes]] = defaultdict(set)
        for run_id in run_ids:
            by_hour[Partition.of_ms(run_started_ms(run_id))].add(run_id)
        found: dict[bytes, RecordedRun] = {}
        for partition, wanted in by_hour.items():
            found.update(self._of_hour(partition, wanted))
        return found

    def _of_hour(self, partition: Partition, wanted: set[bytes]) -> Iterator[tuple[bytes, RecordedRun]]:
        attempts: dict[bytes, dict[int, RecordedRun]] = defaultdict(dict)
        losses = losses_of(self._root, partition, wanted)
        for file in files_in(partition.folder(self._root, SPANS)):
            here = {run_id for run_id in wanted if file.first_ms <= run_started_ms(run_id) <= file.last_ms}
            for (run_id, number), rows in _attempts_of(file, here).items():
                if number not in attempts[run_id]:
                    attempts[run_id][number] = self._attempt(file, rows)
        for run_id, parts in attempts.items():
            recorded = merged_attempts(_with_losses([parts[number] for number in sorted(parts)], losses[run_id]))
            yield run_id, self._lake.load(run_id) if recorded.run.is_fork else recorded

    def _attempt(self, file: LakeFile, rows: AttemptRows) -> RecordedRun:
        run = load_run(rows.root)
        return RecordedRun(run, rows.spans, self._payloads(run, file.beside(PAYLOADS), rows.numbers))

    def _payloads(self, run: Run, path: Path, numbers: Mapping[bytes, int]) -> Callable[[bytes], bytes | None]:
        def payload(digest: bytes) -> bytes | None:
            nonlocal path, numbers
            if digest not in numbers:
                return None
            pack = self._pack(path)
            if pack is None:
                moved = self._lake.pack_of(run.run_id, run.attempt, but=path)
                if moved is None:
                    return None
                path, numbers = moved  # the run was loaded before a compaction
                pack = self._pack(path)
            return None if pack is None else pack.payload(numbers[digest], digest)

        return payload

    def _pack(self, path: Path) -> PackReader | None:
        reader = self._packs.get(path)
        if reader is None:
            with contextlib.suppress(FileNotFoundError):
                reader = self._packs[path] = PackReader(path)
            while len(self._packs) > _OPEN_PACKS:
                self._packs.popitem(last=False)
        else:
            self._packs.move_to_end(path)
        return reader


def _attempts_of(file: LakeFile, wanted: set[bytes]) -> dict[tuple[bytes, int], AttemptRows]:
    if not wanted:
        return {}
    parquet = open_spans(file)
    groups = _groups_of(parquet, sorted(wanted))
    if not groups:
        return {}
    with damage_named(file.path):
        table = parquet.read_row_groups(groups, use_threads=False)
        column = table.column("run_id")
        table = kernels.filtered(table, kernels.is_in(column, pa.array(sorted(wanted), column.type)))
    return attempts_in(table, file.path)


def _groups_of(parquet: pq.ParquetFile, wanted: Sequence[bytes]) -> list[int]:
    """Return the row groups whose range of run ids takes in any of the wanted, which are sorted."""
    metadata = parquet.metadata
    column = int(parquet.schema_arrow.get_field_index("run_id"))

    def may_hold(group: int) -> bool:
        statistics: Any = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return any(statistics.min <= run_id <= statistics.max for run_id in wanted)

    return [group for group in range(metadata.num_row_groups) if may_hold(group)]


def _with_losses(parts: list[RecordedRun], losses: Sequence[Loss]) -> list[RecordedRun]:
    """Tell what the run lost with its first attempt, as the catalog does."""
    first = parts[0]
    return [RecordedRun(first.run, first.spans, first.payload, tuple(losses)), *parts[1:]]
