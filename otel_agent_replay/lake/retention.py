"""Deleting what is old: whole hours of a lake, spans and payloads alike.

An hour that holds the origin of a fork which is kept stays too, for the fork has only its own steps, and so does one
with a run that somebody needs. While a file that stays cannot be read every hour stays: a fork in it may have come from
any. Every other rule is age: the hour in which a run began. Owns which hours go; that nobody writes them meanwhile is
the caller's business.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from otel_agent_replay.errors import RecordingError
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS, Partition, all_partitions
from otel_agent_replay.lake.passed_over import PassedOver
from otel_agent_replay.model import run_started_ms

_IN_ORDER = (SPANS, LOSSES, LABELS, PAYLOADS)
"""A row never points at a payload that is gone: rows go first, also when the deletion is cut short."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An old hour that stays, and why: `run_id` lies in it, which `needed_by` (the id of a fork, or words) needs."""

    partition: Partition
    run_id: bytes
    needed_by: str


@dataclass(slots=True)
class RetentionReport:
    """What was deleted, or with `dry_run` would be: hours, the runs that began in them, files and bytes.

    `kept` are old hours that stay, each for a run that is needed. `unreadable` are files that stay and cannot be read,
    each with the reason: which runs the forks in them came from is not known, and so the old hours in `in_doubt` stay.
    An unreadable file of an hour that goes is counted; the runs in it are not.
    """

    dry_run: bool
    partitions: list[Partition] = field(default_factory=list)
    runs: int = 0
    files: int = 0
    size: int = 0
    kept: list[Kept] = field(default_factory=list)
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    in_doubt: list[Partition] = field(default_factory=list)


def retain(
    lake: Path, since_ns: int, *, dry_run: bool = False, needed: Mapping[bytes, str] = MappingProxyType({})
) -> RetentionReport:
    """Delete the hours of a lake that were over before `since_ns` (Unix nanoseconds).

    `needed` are runs that must stay, with all of their hour, and what for. A spans file that stays and cannot be read
    keeps all that is old, until it is whole again, out of the lake, or as old itself. Raises UnsupportedFormat, with
    nothing deleted, when a file that is kept is of a newer version; OSError when the lake cannot be written.
    """
    lake = Path(lake)
    passed_over = PassedOver()
    catalog = Lake(lake, passed_over)
    partitions = all_partitions(lake)
    old = {partition for partition in partitions if partition.end_ns <= since_ns}
    report = RetentionReport(dry_run)
    report.kept = _kept(catalog, old, [one for one in partitions if one not in old], needed)
    report.unreadable = passed_over.files
    old -= {kept.partition for kept in report.kept}
    going = [partition for partition in partitions if partition in old]
    if report.unreadable:
        report.in_doubt = going
        return report
    report.partitions = going
    for partition in report.partitions:
        _count(Lake(lake), partition, report)
        if not dry_run:
            _delete(lake, partition)
    return report


def _kept(
    catalog: Lake, old: Collection[Partition], young: Iterable[Partition], needed: Mapping[bytes, str]
) -> list[Kept]:
    waiting = sorted(needed.items())
    for partition in young:
        waiting += [(origin, fork.hex()) for fork, origin in catalog.forks_in(partition).items()]
    kept: dict[Partition, Kept] = {}
    while waiting:
        run_id, needed_by = waiting.pop(0)
        partition = Partition.of_ms(run_started_ms(run_id))
        if partition in old and partition not in kept:
            kept[partition] = Kept(partition, run_id, needed_by)
            waiting += [(origin, fork.hex()) for fork, origin in catalog.forks_in(partition).items()]
    return sorted(kept.values(), key=lambda one: (one.partition.date, one.partition.hour))


def _count(catalog: Lake, partition: Partition, report: RetentionReport) -> None:
    with contextlib.suppress(RecordingError):  # what cannot be read goes all the same: it is old
        report.runs += catalog.count_runs(partition)
    for table in _IN_ORDER:
        for path in partition.folder(catalog.root, table).glob("*"):
            report.files += 1
            report.size += path.stat().st_size


def _delete(lake: Path, partition: Partition) -> None:
    for table in _IN_ORDER:
        folder = partition.folder(lake, table)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        with contextlib.suppress(OSError):  # another hour of that day is still there
            folder.parent.rmdir()
