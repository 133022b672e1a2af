"""Where things lie in a lake: folders, partitions, file names, and how a file is published whole or not at all.

    journal/*.log                                   see export
    spans/date=YYYY-MM-DD/hour=HH/*.parquet         payloads/, losses/ and labels/ likewise

Date and hour are the start of the run in UTC, read from the run id, so a run lies wholly in one partition and
its id alone names it. A file is named `FIRST-LAST-PACK.parquet`: the run starts of its first and last run (Unix
milliseconds, hexadecimal) and its pack, the number that binds the spans file to the payloads file beside it. A
listing is therefore enough to leave out most files. Knows nothing of columns.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from otel_agent_replay.errors import RunNotFound
from otel_agent_replay.lake.live_files import live_names, sync

SPANS = "spans"
PAYLOADS = "payloads"
LOSSES = "losses"
LABELS = "labels"
TABLES = (SPANS, PAYLOADS, LOSSES, LABELS)

_NAME = re.compile(r"([0-9a-f]{12})-([0-9a-f]{12})-([0-9a-f]{16})\.parquet")
_PARTITION = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=([01]\d|2[0-3])")
_TEMPORARY_PREFIX = "."  # globs of readers (`*.parquet` under a shell, DuckDB, Spark) skip such names


@dataclass(frozen=True, slots=True)
class Partition:
    """One hour of runs: `date` as YYYY-MM-DD, `hour` as HH, UTC."""

    date: str
    hour: str

    @classmethod
    def of_ms(cls, unix_ms: int) -> Partition:
        """Return the partition of a moment in Unix milliseconds."""
        # The year 9999 is the last that a date can name; a broken clock must not make a run unstorable.
        return _partition(min(max(unix_ms, 0), 253_402_300_799_999) // _HOUR_MS)

    @property
    def end_ns(self) -> int:
        """When its hour is over, in Unix nanoseconds."""
        begin = datetime.fromisoformat(f"{self.date}T{self.hour}:00:00+00:00")
        return (int(begin.timestamp()) + 3600) * 1_000_000_000

    def folder(self, lake: Path, table: str) -> Path:
        """Return the folder of this partition in `table` (one of TABLES)."""
        return lake.joinpath(table, f"date={self.date}", f"hour={self.hour}")  # one step: each makes a path anew


_HOUR_MS = 3_600_000


@lru_cache(maxsize=64)
def _partition(hour: int) -> Partition:
    """Return the partition of an hour, counted from the first of 1970: all runs of one day have few of them."""
    moment = datetime.fromtimestamp(hour * _HOUR_MS // 1000, tz=timezone.utc)
    return Partition(f"{moment.year:04}-{moment.month:02}-{moment.day:02}", f"{moment.hour:02}")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A published file: `first_ms` and `last_ms` are the run starts it spans, `pack` its number."""

    path: Path
    first_ms: int
    last_ms: int
    pack: int

    def beside(self, table: str) -> Path:
        """Return the path of the file of the same pack in another table."""
        return beside(self.path, table)


def beside(path: Path, table: str) -> Path:
    """Return the path of the same name and partition in another table."""
    *lake, _, date, hour, name = path.parts
    return Path(*lake, table, date, hour, name)


def file_name(first_ms: int, last_ms: int, pack: int) -> str:
    """Return the name of a file; see the module docstring."""
    return f"{first_ms:012x}-{last_ms:012x}-{pack:016x}.parquet"


def files_in(folder: Path) -> list[LakeFile]:
    """Return the published files of one partition folder, by name; [] when there is no such folder.

    Files that a compaction has replaced are left out, and those that it has not finished. Raises DamagedRecording when
    which these are cannot be read.
    """
    found = (file_at(folder / name) for name in live_names(folder))
    return [file for file in found if file is not None]


def file_at(path: Path) -> LakeFile | None:
    """Return what a path's name says; None where it is no name of a published file."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    first, last, pack = match.groups()
    return LakeFile(path, int(first, 16), int(last, 16), int(pack, 16))


def all_partitions(lake: Path) -> list[Partition]:
    """Return the partitions that any table has a folder of, in order of time."""
    found = set()
    for table in TABLES:
        for date in _folders(lake / table, "date=", newest_first=False):
            for hour in _folders(date, "hour=", newest_first=False):
                match = _PARTITION.fullmatch(f"{date.name}/{hour.name}")
                if match is not None:
                    found.add(Partition(*match.groups()))
    return sorted(found, key=lambda partition: (partition.date, partition.hour))


def all_files(
    lake: Path,
    table: str,
    *,
    newest_first: bool = False,
    first_ms: int | None = None,
    last_ms: int | None = None,
) -> Iterator[LakeFile]:
    """Yield the published files of a table, partition by partition in order of time.

    Given `first_ms` or `last_ms`, only those that can hold a run which began in [first_ms, last_ms]; folders of other
    hours are not listed.
    """
    first = "" if first_ms is None else _place(first_ms)
    last = _AFTER_ALL if last_ms is None else _place(last_ms)
    for date in _folders(lake / table, "date=", newest_first):
        if first[: len(date.name)] <= date.name <= last[: len(date.name)]:
            for hour in _folders(date, "hour=", newest_first):
                if first <= f"{date.name}/{hour.name}" <= last:
                    files = files_in(hour)
                    for file in reversed(files) if newest_first else files:
                        if (first_ms is None or file.last_ms >= first_ms) and (
                            last_ms is None or file.first_ms <= last_ms
                        ):
                            yield file


_AFTER_ALL = "~"  # sorts behind every folder


def _place(unix_ms: int) -> str:
    partition = Partition.of_ms(unix_ms)
    return f"date={partition.date}/hour={partition.hour}"


def _folders(parent: Path, prefix: str, newest_first: bool) -> list[Path]:
    try:
        names = sorted((entry.name for entry in parent.iterdir()), reverse=newest_first)
    except FileNotFoundError:
        return []
    return [parent / name for name in names if name.startswith(prefix)]


def id_range(text: str) -> tuple[bytes, bytes]:
    """Return the lowest and the highest 16 bytes whose hexadecimal form begins with `text`. Raises RunNotFound."""
    asked = text.strip().lower().replace("-", "")
    if not 0 < len(asked) <= 32 or not all(digit in "0123456789abcdef" for digit in asked):
        raise RunNotFound(text)
    return bytes.fromhex(asked.ljust(32, "0")), bytes.fromhex(asked.ljust(32, "f"))


def temporary_beside(target: Path) -> Path:
    """Return a fresh path on the same filesystem as `target`, whose folder is made; no listing shows it as a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.parent / f"{_TEMPORARY_PREFIX}{target.name}.{uuid.uuid4().hex}.tmp"


def publish(temporary: Path, target: Path) -> None:
    """Make a finished file visible as `target`, durably and at once: a reader sees the whole file or none."""
    sync(temporary)
    temporary.replace(target)
    # The rename itself must survive a power cut before a journal segment may be removed.
    sync(target.parent)


def remove_unfinished(lake: Path) -> None:
    """Remove what a writer that died left half written. Only for one who knows that nobody writes the lake now."""
    for table in TABLES:
        for path in (lake / table).rglob(f"{_TEMPORARY_PREFIX}*.tmp"):
            path.unlink(missing_ok=True)
