"""Every file, digest and reference of a lake looked at; what can be repaired told from what cannot.

Repairing never deletes anything that was recorded: it ends what a compaction or an upgrade began, removes what a writer
that died left half written, and puts aside what nobody can read and others can do without.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording, RecordingError
from otel_agent_replay.lake.attempt_rows import attempts_in
from otel_agent_replay.lake.catalog import Lake, stored_attempt
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
    file_at,
    files_in,
)
from otel_agent_replay.lake.live_files import STATE_FILE, pack_in, read_state
from otel_agent_replay.lake.maintenance import STAGING, maintenance_lock
from otel_agent_replay.lake.merged_spans import Sources, Unit
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.row_groups import UnreadableFile
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.settling import GOVERNED, remove_republished, settle
from otel_agent_replay.lake.switch import is_settled
from otel_agent_replay.lake.verify import verify_attempt
from otel_agent_replay.model import Word, run_started_ms

_SAME = 16

STALE_S = 600.0
"""How long a file in the making is left to whoever makes it."""


class Trouble(Word):
    """What is wrong, or lies about."""

    DAMAGED = "damaged"  # a file, page, digest or reference does not hold
    MISSING = "missing"  # something that was stored is not there
    MISPLACED = "misplaced"  # it is there, and lookups do not find it
    TWICE = "twice"  # two files have the same attempt at a run
    LEFT_OVER = "left over"  # of a writer or compaction that died; nothing recorded depends on it
    FOREIGN = "foreign"  # not a file of a lake; nobody reads it


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: `what` in a sentence, `path` where. `repair` says what `--repair` does; "": it cannot."""

    trouble: Trouble
    path: str
    what: str
    repair: str = ""


@dataclass(slots=True)
class Checkup:
    """What was looked at, and what was found; `repaired` are findings that are no longer so."""

    files: int = 0
    attempts: int = 0
    spans: int = 0
    payloads: int = 0
    findings: list[Finding] = field(default_factory=list)
    repaired: list[Finding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether all that was recorded is there and holds."""
        return all(one.trouble in (Trouble.LEFT_OVER, Trouble.FOREIGN) for one in self.findings)


def check_lake(lake: Path, *, progress: Callable[[int, int], None] = lambda _done, _of: None) -> Checkup:
    """Look at every file of a lake; `progress` is told how many hours of how many are done. Raises OSError."""
    lake = Path(lake)
    found = Checkup()
    found.findings += left_overs(lake)
    partitions = all_partitions(lake)
    for place, partition in enumerate(partitions):
        _Hour(lake, partition, found).check()
        progress(place + 1, len(partitions))
    return found


def left_overs(lake: Path) -> Iterator[Finding]:
    """Yield what writers and compactions that died left."""
    for table in TABLES:
        for path in sorted((lake / table).glob("*/*/.*")):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and time.time() - path.stat().st_mtime > STALE_S:
                    yield Finding(Trouble.LEFT_OVER, str(path), "a file that was never finished", "remove it")
    if (lake / STAGING).exists():
        yield Finding(Trouble.LEFT_OVER, str(lake / STAGING), "what a compaction was making", "remove it")
    for partition in all_partitions(lake):
        for table in GOVERNED:
            folder = partition.folder(lake, table)
            with contextlib.suppress(DamagedRecording):  # found with the files
                state = read_state(folder)
                if state is not None and not is_settled(state):
                    yield Finding(Trouble.LEFT_OVER, str(folder), f"a compaction that was {state.phase}", "end it")
                for path in sorted(folder.glob("*.parquet")) if state is not None else ():
                    if state is not None and pack_in(path.name) in state.merged:
                        what = "a file that was merged and published once more; readers leave it out"
                        yield Finding(Trouble.LEFT_OVER, str(path), what, "remove it where the lake has all of it")


def repair_lake(lake: Path, found: Checkup) -> Checkup:
    """Repair what can be repaired, and return what is found then. Raises MaintenanceError, OSError."""
    lake = Path(lake)
    with maintenance_lock(lake):
        for one in found.findings:
            if one.trouble is Trouble.LEFT_OVER and Path(one.path).name.startswith("."):
                Path(one.path).unlink(missing_ok=True)
        shutil.rmtree(lake / STAGING, ignore_errors=True)
        settle(lake, 0.0)
        remove_republished(lake, 0.0)
    after = check_lake(lake)
    there = {(one.trouble, one.path) for one in after.findings}
    after.repaired = [one for one in found.findings if (one.trouble, one.path) not in there]
    return after


class _Hour:
    """The files of one partition. What one file or run has wrong keeps no other from being looked at."""

    def __init__(self, lake: Path, partition: Partition, found: Checkup) -> None:
        self._lake = lake
        self._catalog = Lake(lake)
        self._partition = partition
        self._found = found
        self._homes: dict[tuple[bytes, int], Path] = {}

    def check(self) -> None:
        """Look at all of them."""
        spans = self._listed(SPANS)
        for file in spans:
            self._check_spans(file)
        for table in (LOSSES, LABELS):
            for file in self._listed(table):
                self._found.files += 1
                with self._noted(file.path):
                    _read_all(file.path)
        named = {file.path.name for file in spans}
        for file in self._listed(PAYLOADS):
            self._found.files += 1
            if file.path.name not in named and not beside(file.path, SPANS).exists():
                what = "payloads that no spans file names: left by a sealer that died, which another does again"
                self._note(Trouble.LEFT_OVER, file.path, what)
        self._look_for_foreign()

    def _listed(self, table: str) -> list[LakeFile]:
        folder = self._partition.folder(self._lake, table)
        try:
            return files_in(folder)
        except DamagedRecording as error:
            self._note(Trouble.DAMAGED, folder / STATE_FILE, str(error))
            return []

    def _look_for_foreign(self) -> None:
        for table in TABLES:
            for path in sorted(self._partition.folder(self._lake, table).glob("[!.]*")):
                if path.name != STATE_FILE and file_at(path) is None:
                    self._note(Trouble.FOREIGN, path, "not a file of a lake: nobody reads it")

    def _check_spans(self, file: LakeFile) -> None:
        self._found.files += 1
        with self._noted(file.path):
            sources = Sources([file])
            try:
                for unit in sources.units:
                    with self._noted(file.path):
                        self._check_unit(file, unit, sources)
            finally:
                sources.close()

    def _check_unit(self, file: LakeFile, unit: Unit, sources: Sources) -> None:
        table = sources.table_of(unit)
        table = table.take(pa.array(range(len(table))))  # what turns columns into spans reads them from their beginning
        self._found.spans += len(table)
        if not unit.run_id:
            return
        self._found.attempts += 1
        run = f"attempt {unit.attempt} of run {unit.run_id.hex()}"
        started_ms = run_started_ms(unit.run_id)
        if Partition.of_ms(started_ms) != self._partition or not file.first_ms <= started_ms <= file.last_ms:
            self._note(Trouble.MISPLACED, file.path, f"{run} began in another hour than its file says")
        home = self._homes.setdefault((unit.run_id, unit.attempt), file.path)
        if home != file.path:
            self._note(Trouble.TWICE, file.path, f"{run} lies in {home.name} too; agent-replay compact makes one of it")
        rows = attempts_in(table, file.path)[unit.run_id, unit.attempt]
        attempt = stored_attempt(self._catalog, file, rows, ())
        self._found.payloads += len(attempt.kept)
        for finding in verify_attempt(attempt):
            trouble = Trouble.MISSING if str(finding.kind) == "missing" else Trouble.DAMAGED
            where = "" if finding.step is None else f" at step {finding.step}"
            self._note(
                trouble, file.path, f"{run}: {finding.what}{where} {finding.kind}. {finding.detail}".rstrip(". ")
            )

    @contextlib.contextmanager
    def _noted(self, path: Path) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            pass  # merged or deleted meanwhile
        except UnreadableFile as error:
            self._note(Trouble.DAMAGED, error.path, error.why)
        except RecordingError as error:
            self._note(Trouble.DAMAGED, path, str(error))

    def _note(self, trouble: Trouble, path: Path, what: str) -> None:
        finding = Finding(trouble, str(path), what)
        if finding not in self._found.findings[-_SAME:]:  # a page may be asked for by many runs
            self._found.findings.append(finding)


def _read_all(path: Path) -> None:
    with damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        file_facts(parquet.metadata.metadata, path)
        for group in range(parquet.num_row_groups):
            parquet.read_row_group(group)
