"""What a compaction that died, or a sealer that did a step once more, left in a lake: undone, finished or removed.

For one who holds the maintenance lock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS, LakeFile, Partition, all_partitions, file_at
from otel_agent_replay.lake.live_files import CompactionState, pack_in, read_state
from otel_agent_replay.lake.merged_spans import Sources
from otel_agent_replay.lake.row_groups import UnreadableFile
from otel_agent_replay.lake.switch import finish, is_settled, recover

GOVERNED = (SPANS, LOSSES, LABELS)
"""Tables whose folders say which of their files count; payloads count with their spans."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was left as it is, and why."""

    path: str
    why: str


def settle(lake: Path, grace_s: float) -> float:
    """Undo what was begun and not done, and remove what has not counted for `grace_s` seconds.

    Returns in how many seconds the rest may go; 0: nothing is left. Raises OSError.
    """
    latest = 0.0
    for partition, table in _folders(lake):
        with contextlib.suppress(DamagedRecording):  # who plans further work there says so
            state = recover(lake, partition, table)
            if state is None or is_settled(state):
                continue
            left = _left_s(state, grace_s)
            if left > 0:
                latest = max(latest, left)
            else:
                finish(lake, partition, table)
    return latest


def remove_republished(lake: Path, grace_s: float) -> list[Skipped]:
    """Remove files that were merged long ago and are there all the same: a sealer published them once more.

    Returns those that say something new, which readers leave out, too. Folders that were changed less than `grace_s`
    seconds ago are left alone. Raises OSError.
    """
    skipped = []
    for partition, table in _folders(lake):
        with contextlib.suppress(DamagedRecording):
            for file in _republished(partition.folder(lake, table), grace_s):
                if table == SPANS and not _says_nothing_new(lake, file):
                    why = f"{file.path} was merged before and says something else now: readers leave it out"
                    skipped.append(Skipped(str(file.path), why))
                    continue
                file.path.unlink()
                if table == SPANS:
                    file.beside(PAYLOADS).unlink(missing_ok=True)
    return skipped


def _left_s(state: CompactionState, grace_s: float) -> float:
    return min(state.time_ns / 1e9 + grace_s - time.time(), grace_s)  # a clock that was set back must not stop it


def _folders(lake: Path) -> Iterator[tuple[Partition, str]]:
    return ((partition, table) for partition in all_partitions(lake) for table in GOVERNED)


def _republished(folder: Path, grace_s: float) -> list[LakeFile]:
    state = read_state(folder)
    if state is None or _left_s(state, grace_s) > 0:
        return []
    files = (file_at(path) for path in sorted(folder.glob("*.parquet")))
    return [file for file in files if file is not None and pack_in(file.path.name) in state.merged]


def _says_nothing_new(lake: Path, file: LakeFile) -> bool:
    """Whether the lake has all spans of a file that does not count; a trace without a run is named by its segments."""
    try:
        sources = Sources([file])
    except UnreadableFile:
        return False
    try:
        for unit in sources.units:
            if unit.run_id:
                attempts = [
                    part for part in Lake(lake).stored_attempts(unit.run_id) if part.run.attempt == unit.attempt
                ]
                if not sources.span_ids(unit) <= {one.span.span_id for part in attempts for one in part.spans}:
                    return False
    finally:
        sources.close()
    return True
