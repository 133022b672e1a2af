"""Runs in the place of what the lake has of them: more of their spans came. Other runs of the same files stay.

The new rows are written beside, joined with the rows that stay, and switched to at one moment (`switch`), so that every
reader sees either what was there or all of it, whatever dies in between.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import MaintenanceError
from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.layout import LOSSES, PAYLOADS, SPANS, LakeFile, Partition, file_at, file_name, files_in
from otel_agent_replay.lake.live_files import DONE, write_state
from otel_agent_replay.lake.maintenance import STAGING, maintenance_lock
from otel_agent_replay.lake.merged_spans import Sources, Unit, outputs_of
from otel_agent_replay.lake.merging import metadata_of, write_merged
from otel_agent_replay.lake.parquet_file import ParquetOutput, damage_named
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import file_metadata
from otel_agent_replay.lake.switch import finish, recover, switch
from otel_agent_replay.lake.writer import FILE_ROWS, write_runs
from otel_agent_replay.model import RecordedRun, run_started_ms

WAIT_S = 180.0
"""How long another who works on the lake as a whole is waited for: a compaction waits for its readers in turn."""

GRACE_S = 60.0
"""How long files that were replaced stay, for readers that began before."""

_TRY_AGAIN_S = 0.2


def replace_runs(
    lake: Path, runs: Sequence[RecordedRun], *, segments: Sequence[str] = (), wait_s: float = WAIT_S
) -> None:
    """Let attempts at runs count instead of those of the same run and number that the lake has.

    Raises MaintenanceError when something else works on the lake all the time, UnreadableFile, OSError: then what was
    there still counts.
    """
    by_partition: dict[Partition, list[RecordedRun]] = defaultdict(list)
    for recorded in runs:
        by_partition[Partition.of_ms(run_started_ms(recorded.run.run_id))].append(recorded)
    with ExitStack() as stack:
        _lock(lake, wait_s, stack)
        stack.callback(shutil.rmtree, lake / STAGING, ignore_errors=True)
        for partition, members in by_partition.items():
            _Replacing(lake, partition, members).replace(segments)


def _lock(lake: Path, wait_s: float, stack: ExitStack) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            stack.enter_context(maintenance_lock(lake))
            return
        except MaintenanceError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_TRY_AGAIN_S)


class _Replacing:
    """The runs of one hour that take the place of what is there."""

    def __init__(self, lake: Path, partition: Partition, runs: Sequence[RecordedRun]) -> None:
        self._lake = lake
        self._partition = partition
        self._runs = runs
        self._keys = {(recorded.run.run_id, recorded.run.attempt) for recorded in runs}
        self._run_ids = pa.array(sorted({run_id for run_id, _ in self._keys}), pa.binary(16))
        self._staging = lake / STAGING

    def replace(self, segments: Sequence[str]) -> None:
        """Write them, and switch to them."""
        shutil.rmtree(self._staging, ignore_errors=True)
        new = self._staging / "new"
        made = [file for file in map(file_at, write_runs(new, self._runs, segments=segments)) if file is not None]
        self._switch_spans(made)
        losses = files_in(self._partition.folder(new, LOSSES))
        self._switch_losses(losses, segments)

    def _switch_spans(self, made: Sequence[LakeFile]) -> None:
        old = self._holding(SPANS)
        sources, added = Sources(old), Sources(made)
        try:
            units = [unit for unit in sources.units if (unit.run_id, unit.attempt) not in self._keys]
            units = sorted([*units, *added.units], key=_order)
            metadata = metadata_of([*sources.facts.values(), *added.facts.values()])
            salt = _packs([*old, *made]) + repr([unit.rows for unit in added.units]).encode()
            staged = []
            for place, output in enumerate(outputs_of(units, FILE_ROWS)):
                pack = _number(salt + place.to_bytes(4, "big"))
                name = file_name(*output.starts, pack)
                targets = tuple(self._partition.folder(self._staging, table) / name for table in (PAYLOADS, SPANS))
                staged.append(write_merged(sources, output, pack, (targets[0], targets[1]), metadata))
        finally:
            sources.close()
            added.close()
        self._switch(SPANS, staged, old)

    def _switch_losses(self, made: Sequence[LakeFile], segments: Sequence[str]) -> None:
        old = self._holding(LOSSES)
        if not old and not made:
            return
        tables = [kernels.filtered(table, kernels.invert(self._is_ours(table))) for table in map(_losses_in, old)]
        whole = pa.concat_tables([*tables, *map(_losses_in, made)])
        staged = []
        if len(whole):
            files = [*old, *made]
            starts = min(file.first_ms for file in files), max(file.last_ms for file in files)
            name = file_name(*starts, _number(_packs(files) + repr(whole.to_pylist()).encode()))
            target = self._partition.folder(self._staging, LOSSES) / name
            with ParquetOutput(target, LOSSES_SCHEMA, file_metadata(segments=segments, quirks=())) as output:
                output.write(whole)
                output.publish()
            staged.append(target)
        self._switch(LOSSES, staged, old)

    def _switch(self, table: str, staged: Sequence[Path], old: Sequence[LakeFile]) -> None:
        """Be done with the switch before, then do this one.

        What the one before replaced is removed, or left to the next compaction while somebody may be reading it.
        """
        folder = self._partition.folder(self._lake, table)
        folder.mkdir(parents=True, exist_ok=True)
        state = recover(self._lake, self._partition, table)
        if state is not None and state.phase == DONE:
            if time.time() - state.time_ns / 1e9 >= GRACE_S:
                finish(self._lake, self._partition, table)
            else:
                write_state(folder, state.finished(time.time_ns()))
        switch(self._lake, self._partition, table, staged, [file.path.name for file in old])

    def _holding(self, table: str) -> list[LakeFile]:
        """Return the files of the hour that hold any of the runs."""
        starts = [run_started_ms(run_id) for run_id, _ in self._keys]
        return [
            file
            for file in files_in(self._partition.folder(self._lake, table))
            if any(file.first_ms <= start <= file.last_ms for start in starts) and self._is_in(file)
        ]

    def _is_in(self, file: LakeFile) -> bool:
        with damage_named(file.path):
            table = pq.read_table(file.path, columns=["run_id"], partitioning=None, use_threads=False)
        return kernels.any_of(self._is_ours(table))

    def _is_ours(self, table: pa.Table) -> Any:
        return kernels.is_in(kernels.as_type(table.column("run_id"), pa.binary(16)), self._run_ids)


def _order(unit: Unit) -> tuple[bytes, int, bytes, str]:
    return unit.order


def _losses_in(file: LakeFile) -> pa.Table:
    with damage_named(file.path):
        return pq.read_table(file.path, partitioning=None, use_threads=False).cast(LOSSES_SCHEMA)


def _packs(files: Collection[LakeFile]) -> bytes:
    return b"".join(sorted(file.pack.to_bytes(8, "big") for file in files))


def _number(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"completed" + content).digest()[:8], "big") >> 1
