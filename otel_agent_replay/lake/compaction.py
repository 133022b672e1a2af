"""Many small files of a partition -> few large ones, while others read and write the lake.

Says which files are merged, and does it partition by partition: new files are made under `compaction/`, which no
reader looks into, and then switched to (`switch`). A compaction that died at any point is undone or finished by the
next one. One works on a lake at a time (`maintenance_lock`); sealers are not kept out.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_agent_replay.errors import DamagedRecording, MaintenanceError, UnsupportedFormat
from otel_agent_replay.lake.layout import (
    LABELS,
    LOSSES,
    PAYLOADS,
    SPANS,
    TABLES,
    LakeFile,
    Partition,
    all_partitions,
    beside,
    files_in,
)
from otel_agent_replay.lake.maintenance import STAGING, maintenance_lock
from otel_agent_replay.lake.merging import merge_rows, merge_spans
from otel_agent_replay.lake.row_groups import RowGroups, UnreadableFile
from otel_agent_replay.lake.schema import LABELS as LABELS_SCHEMA
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.settling import GOVERNED, Skipped, remove_republished, settle
from otel_agent_replay.lake.split_traces import tell_split_traces
from otel_agent_replay.lake.switch import switch
from otel_agent_replay.lake.writer import FILE_ROWS

GRACE_S = 60.0
"""How long files that were replaced stay, for readers that began before; a query of hours may want more."""

_PATIENCE_S = 60.0
_SCHEMAS = {SPANS: SPANS_SCHEMA, LOSSES: LOSSES_SCHEMA, LABELS: LABELS_SCHEMA}


@dataclass(slots=True)
class CompactionReport:
    """What a compaction did, or with `dry_run` would do.

    Files and bytes are of the whole lake, before and after; `merged` files were replaced by `made` ones, in
    `partitions` hours. Of a dry run the bytes after are not known. `split_traces` are runs of which it was found that
    their trace has another run.
    """

    dry_run: bool
    partitions: int = 0
    merged: int = 0
    made: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int | None = None
    skipped: list[Skipped] = field(default_factory=list)
    split_traces: int = 0


@dataclass(frozen=True, slots=True)
class _Task:
    """Files of one table and hour that become fewer."""

    partition: Partition
    table: str
    files: Sequence[LakeFile]
    rows: int


def compact(
    lake: Path,
    *,
    dry_run: bool = False,
    grace_s: float = GRACE_S,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> CompactionReport:
    """Merge the small files of each hour. Readers see every run once all the while; sealers may write.

    Files that were replaced are removed `grace_s` seconds later, and this waits for that. `progress` is told how many
    files of how many are merged. Raises MaintenanceError when the lake is worked on by another, or cannot be written
    (full disk, no permission): then every run is where it was, or where it was merged to.
    """
    lake = Path(lake)
    report = CompactionReport(dry_run)
    report.files_before, report.bytes_before = _size_of(lake)
    if dry_run:
        tasks = _planned(lake, report)
        _count(report, tasks)
        report.files_after = report.files_before - report.merged + report.made
        return report
    if not lake.is_dir():
        report.bytes_after = 0
        return report
    try:
        with maintenance_lock(lake, _PATIENCE_S):
            shutil.rmtree(lake / STAGING, ignore_errors=True)  # of one that died
            settle(lake, grace_s)
            report.skipped += remove_republished(lake, grace_s)
        tasks = _planned(lake, report)
        total, done = sum(len(task.files) for task in tasks), 0
        hours = set()
        for task in tasks:
            with maintenance_lock(lake, _PATIENCE_S):  # for each by itself: whoever completes a run waits no longer
                if _merge(lake, task, report):
                    hours.add(task.partition)
                shutil.rmtree(lake / STAGING, ignore_errors=True)
            done += len(task.files)
            progress(done, total)
        report.partitions = len(hours)
        _settled(lake, grace_s)
        with maintenance_lock(lake, _PATIENCE_S):
            _tell_split_traces(lake, report)
    except OSError as error:
        shutil.rmtree(lake / STAGING, ignore_errors=True)
        raise MaintenanceError(
            f"{lake} could not be compacted further: {error}. Every run is where it was, or in the files that it was "
            "merged into; make room or let it be written, and run it again"
        ) from error
    report.files_after, report.bytes_after = _size_of(lake)
    return report


def _tell_split_traces(lake: Path, report: CompactionReport) -> None:
    try:
        report.split_traces = tell_split_traces(lake)
    except (DamagedRecording, UnsupportedFormat) as error:
        if not report.skipped:  # else the file was named already
            report.skipped.append(Skipped(str(lake / SPANS), f"traces in several runs were not looked for: {error}"))


def _settled(lake: Path, grace_s: float) -> None:
    """Wait until what was replaced may go, and remove it."""
    while True:
        with maintenance_lock(lake, _PATIENCE_S):
            left = settle(lake, grace_s)
        if not left:
            return
        time.sleep(left)


def _planned(lake: Path, report: CompactionReport) -> list[_Task]:
    tasks = []
    for partition in all_partitions(lake):
        for table in GOVERNED:
            try:
                files = files_in(partition.folder(lake, table))
            except DamagedRecording as error:
                report.skipped.append(Skipped(str(partition.folder(lake, table)), str(error)))
                continue
            if len(files) > 1:
                tasks += _tasks_of(partition, table, files, report)
    return tasks


def _tasks_of(partition: Partition, table: str, files: Sequence[LakeFile], report: CompactionReport) -> list[_Task]:
    """Return what of a folder becomes fewer files: the small ones, those that are less than half full.

    Two of them fit in one, so at most one small file is left. Spans are streamed; of the others no more are taken
    together than may be in memory.
    """
    small: list[tuple[LakeFile, int]] = []
    groups = RowGroups(_SCHEMAS[table], 0)
    for file in files:
        try:
            groups.facts(file.path)
            rows = sum(groups.row_counts(file.path))
        except UnreadableFile as error:
            report.skipped.append(Skipped(str(error.path), error.why))
            continue
        if rows < FILE_ROWS // 2:
            small.append((file, rows))
    groups.close()
    tasks: list[_Task] = []
    together: list[LakeFile] = []
    total = 0
    for file, rows in small:
        if table != SPANS and total + rows > FILE_ROWS:
            tasks.append(_Task(partition, table, together, total))
            together, total = [], 0
        together.append(file)
        total += rows
    tasks.append(_Task(partition, table, together, total))
    return [task for task in tasks if len(task.files) > 1]


def _count(report: CompactionReport, tasks: Sequence[_Task]) -> None:
    """Say what a compaction would do. A file of spans counts with its payloads, as files do."""
    report.partitions = len({task.partition for task in tasks})
    for task in tasks:
        made = max(1, -(-task.rows // FILE_ROWS))
        payloads = sum(file.beside(PAYLOADS).exists() for file in task.files) if task.table == SPANS else 0
        report.merged += len(task.files) + payloads
        report.made += made + (made if payloads else 0)


def _merge(lake: Path, task: _Task, report: CompactionReport) -> bool:
    """Merge the files of a task but for those that cannot be read, which are said. Returns whether any were."""
    there = {file.path for file in files_in(task.partition.folder(lake, task.table))}
    files = [file for file in task.files if file.path in there]  # others were merged or deleted since it was planned
    while len(files) > 1:
        shutil.rmtree(lake / STAGING, ignore_errors=True)
        try:
            if task.table == SPANS:
                staged = merge_spans(files, lake / STAGING, task.partition)
            else:
                schema = _SCHEMAS[task.table]
                staged = [merge_rows(files, lake / STAGING, task.partition, task.table, schema)]
        except UnreadableFile as error:
            report.skipped.append(Skipped(str(error.path), error.why))
            files = [file for file in files if error.path not in (file.path, file.beside(PAYLOADS))]
            continue
        report.merged += _number_of(file.path for file in files)
        report.made += _number_of(staged)
        switch(lake, task.partition, task.table, staged, [file.path.name for file in files])
        return True
    return False


def _number_of(paths: Iterable[Path]) -> int:
    """Return how many files these are, with the payloads of spans."""
    listed = list(paths)
    beside_them = (beside(path, PAYLOADS) for path in listed if path.parents[2].name == SPANS)
    return len(listed) + sum(path.exists() for path in beside_them)


def _size_of(lake: Path) -> tuple[int, int]:
    """Return the number of files in a lake's tables and their bytes."""
    files = size = 0
    for table in TABLES:
        for path in (lake / table).glob("*/*/*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                size += path.stat().st_size
                files += 1
    return files, size
