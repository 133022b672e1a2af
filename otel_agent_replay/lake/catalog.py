"""What runs a lake holds, and one run out of it. Reads Parquet directly; knows no SQL."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording, RunNotFound
from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.attempt_rows import ROOT_COLUMNS, AttemptRows, attempts_in
from otel_agent_replay.lake.layout import (
    PAYLOADS,
    SPANS,
    LakeFile,
    Partition,
    all_files,
    files_in,
    id_range,
)
from otel_agent_replay.lake.losses_of import losses_of
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.passed_over import PassedOver
from otel_agent_replay.lake.payload_store import PackReader
from otel_agent_replay.lake.run_row import load_run
from otel_agent_replay.lake.run_rows import RunRows
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.trace_index import runs_of_traces
from otel_agent_replay.lake.whole_run import merged_attempts, merged_facts, with_prefix
from otel_agent_replay.model import Loss, RecordedRun, Run, digest_of, run_started_ms

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list: its facts and totals over its attempts. A sum is None when no model call told its part.

    Of a fork only what it recorded itself is counted.
    """

    run: Run
    span_count: int
    step_count: int
    error_count: int
    model_call_count: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    loss_count: int


@dataclass(frozen=True, slots=True)
class StoredAttempt(RecordedRun):
    """One attempt as the lake holds it: what was said of it when it was stored, beside what is read now.

    `manifest_digest` is the stored SHA-256 of its manifest, `checks` the short check of each node by span id,
    `kept` the digests whose bytes were stored, `span_count` what it had.
    """

    manifest_digest: bytes = b""
    checks: Mapping[bytes, bytes] = field(default_factory=dict)
    kept: frozenset[bytes] = frozenset()
    span_count: int = 0


@dataclass(frozen=True, slots=True)
class StoredRun(RecordedRun):
    """A run as the lake holds it, its attempts in `stored`. `origin` is what a fork shares its beginning with."""

    stored: Sequence[StoredAttempt] = ()
    origin: StoredRun | None = None

    @property
    def kept(self) -> frozenset[bytes]:
        """The digests whose bytes were stored with this run."""
        return frozenset().union(*(part.kept for part in self.stored))

    @property
    def manifest_digest(self) -> bytes:
        """The stored SHA-256 of its manifest; of several attempts that of their digests, joined in order."""
        digests = [part.manifest_digest for part in self.stored]
        return digests[0] if len(digests) == 1 else digest_of(b"".join(digests))


class Lake:
    """A folder of runs. `root` need not exist: it is then a lake without runs.

    With `passed_over` lists of runs leave files out that cannot be read, and put them there; else they raise.
    """

    def __init__(self, root: Path, passed_over: PassedOver | None = None) -> None:
        self.root = Path(root)
        self.passed_over = passed_over

    def runs(
        self, *, since_ns: int | None = None, until_ns: int | None = None, limit: int | None = None
    ) -> list[RunSummary]:
        """Return the runs that began in [since_ns, until_ns), newest first, at most `limit`."""
        found: dict[bytes, dict[int, dict[str, Any]]] = {}
        first_ms = None if since_ns is None else since_ns // 1_000_000
        last_ms = None if until_ns is None else (until_ns - 1) // 1_000_000
        for file in all_files(self.root, SPANS, newest_first=True, first_ms=first_ms, last_ms=last_ms):
            if limit is not None and len(found) >= limit and file.last_ms < _oldest_ms(found, limit):
                continue
            for root in self._roots(file, ROOT_COLUMNS):
                found.setdefault(root["run_id"], {}).setdefault(root["attempt"], root)
        summaries = [_summary([roots[number] for number in sorted(roots)]) for roots in found.values()]
        summaries = [
            summary
            for summary in summaries
            if (since_ns is None or summary.run.started_ns >= since_ns)
            and (until_ns is None or summary.run.started_ns < until_ns)
        ]
        summaries.sort(key=lambda summary: summary.run.run_id, reverse=True)
        return summaries[:limit]

    def has(self, run_id: bytes) -> bool:
        """Return whether the run is in the lake."""
        return next(self._located(run_id), None) is not None

    def attempts(self, run_id: bytes) -> dict[bytes, int]:
        """Return the numbers of the run's attempts in the lake, by the ids of their root spans."""
        found: dict[bytes, int] = {}
        for file, _ in self._located(run_id):
            roots = root_rows(file, ["run_id", "attempt", "span_id"]).to_pylist()
            found.update({root["span_id"]: root["attempt"] for root in roots if root["run_id"] == run_id})
        return found

    def find(self, text: str) -> bytes:
        """Return the id of the run with this run id, trace id or unique prefix of one (hexadecimal).

        Run ids come first: they name the hour they lie in, so that few files are read. Trace ids, which may lie
        anywhere, are looked at when no run id begins so. Raises RunNotFound when there is none or more than one, and
        DamagedRecording when there is none and it may lie in a file that cannot be read.
        """
        lowest, highest = id_range(text)
        passed_over = PassedOver() if self.passed_over is None else self.passed_over
        whole = Lake(self.root, passed_over)
        found = whole.between("run_id", lowest, highest) or whole.between("trace_id", lowest, highest)
        if len(found) == 1:
            return found.pop()
        if not found and passed_over.files:
            reasons = [*passed_over.files.values()]
            count = f" ({len(reasons)} of its files cannot)" if len(reasons) > 1 else ""
            raise DamagedRecording(f"no run {text!r} in what can be read of this lake{count}. {reasons[0]}")
        raise RunNotFound(text, sorted(run_id.hex() for run_id in found))

    def between(
        self,
        column: str,
        lowest: bytes,
        highest: bytes,
        *,
        first_ms: int | None = None,
        last_ms: int | None = None,
    ) -> set[bytes]:
        """Return the ids of the runs whose `column` (run_id or trace_id) lies in [lowest, highest].

        Of trace ids, with `first_ms` or `last_ms`, only those of runs that began in its hour or later, or earlier.
        """
        if column == "trace_id":
            everywhere = first_ms is None and last_ms is None
            files = all_files(self.root, SPANS, first_ms=first_ms, last_ms=last_ms)
            return runs_of_traces(self.root, files, self._trace_ids_of, lowest, highest, all_of_them=everywhere)
        if lowest == highest:
            return {lowest} if self.has(lowest) else set()
        files = all_files(self.root, SPANS, first_ms=run_started_ms(lowest), last_ms=run_started_ms(highest))
        ids = (root["run_id"] for file in files for root in self._roots(file, ["run_id"]))
        return {run_id for run_id in ids if lowest <= run_id <= highest}

    def forks_in(self, partition: Partition) -> dict[bytes, bytes]:
        """Return the forks among the runs of an hour, each with its origin."""
        found = {}
        for file in files_in(partition.folder(self.root, SPANS)):
            roots = self._roots(file, ["run_id", "run.origin_run_id", "run.fork_step"])
            found.update({root["run_id"]: root["run"]["origin_run_id"] for root in roots if root["run"]["fork_step"]})
        return found

    def count_runs(self, partition: Partition) -> int:
        """Return how many runs began in an hour."""
        files = files_in(partition.folder(self.root, SPANS))
        return len({run_id for file in files for run_id in root_rows(file, ["run_id"]).column("run_id").to_pylist()})

    def load(self, run_id: bytes, *, whole: bool = True) -> StoredRun:
        """Return the run, its payloads read when asked for. Raises RunNotFound, DamagedRecording, UnsupportedFormat.

        A run of several attempts is one run (see `whole_run`). A fork comes with the steps that it shares with its
        origin; with `whole` False, as it recorded itself.
        """
        return self._load(run_id, whole, frozenset())

    def _load(self, run_id: bytes, whole: bool, forks: frozenset[bytes]) -> StoredRun:
        parts = self.stored_attempts(run_id)
        if not parts:
            raise RunNotFound(run_id.hex())
        merged: RecordedRun = merged_attempts(parts)
        origin = None
        if whole and merged.run.is_fork:
            origin_id = merged.run.origin_run_id
            if origin_id not in forks and self.has(origin_id):  # a circle of origins: no writer of ours makes one
                origin = self._load(origin_id, whole, forks | {run_id})
            merged = with_prefix(merged, origin)
        return StoredRun(**_fields_of(merged), stored=tuple(parts), origin=origin)

    def stored_attempts(self, run_id: bytes) -> list[StoredAttempt]:
        """Return the run's attempts in the lake, each by itself, in order of their numbers; [] when there is none.

        What the run lost is told with the first of them.
        """
        found: dict[int, tuple[LakeFile, AttemptRows]] = {}
        for file, of_run in self._located(run_id):
            table, later = of_run.in_two()
            for (_, number), rows in attempts_in(table, file.path, later).items():
                found.setdefault(number, (file, rows))
        if not found:
            return []
        losses = tuple(losses_of(self.root, Partition.of_ms(run_started_ms(run_id)), [run_id])[run_id])
        return [
            stored_attempt(self, *found[number], losses if place == 0 else ())
            for place, number in enumerate(sorted(found))
        ]

    def siblings(self, run_id: bytes) -> list[bytes]:
        """Return the runs that were begun by the same process, this one among them, in the order it began them.

        Raises RunNotFound.
        """
        process = self._process_of(run_id)
        if not process:
            return [run_id]
        found = self.begun_by(process)
        found.setdefault(run_id, 0)  # where its first attempt is not here, a later one stands for it
        return sorted(found, key=lambda member: (found[member], member))

    def begun_by(self, process: str, *, first_attempts: bool = True) -> dict[bytes, int]:
        """Return the runs that a process began, each with its place among them; else also those it went on with."""
        found = {}
        for file in all_files(self.root, SPANS):
            roots = root_rows(file, ["run_id", "attempt", "run.process", "run.ordinal"])
            of_process = kernels.equal(kernels.struct_field(roots.column("run"), "process"), pa.scalar(process))
            ours = kernels.filtered(roots, of_process)
            if first_attempts:
                ours = kernels.filtered(ours, kernels.equal(ours.column("attempt"), pa.scalar(1, pa.int32())))
            found.update({root["run_id"]: root["run"]["ordinal"] for root in ours.to_pylist()})
        return found

    def _roots(self, file: LakeFile, columns: list[str]) -> list[dict[str, Any]]:
        """Return `columns` of the root rows of a file; none of one that is passed over."""
        table = self._read(file, partial(root_rows, file, columns))
        return [] if table is None else table.to_pylist()

    def _trace_ids_of(self, file: LakeFile) -> pa.Table | None:
        """Return the ids in the root rows of a file; None of one that is passed over."""
        return self._read(file, partial(_trace_ids, file))

    def _read(self, file: LakeFile, read: Callable[[], _Read]) -> _Read | None:
        """Return what `read` gives of a file; None of one that is passed over."""
        return read() if self.passed_over is None else self.passed_over.read(file.path, read)

    def _process_of(self, run_id: bytes) -> str:
        """Return the process of the run's first attempt."""
        roots: dict[int, dict[str, Any]] = {}
        for file, _ in self._located(run_id):
            for root in root_rows(file, ["run_id", "attempt", "run.process"]).to_pylist():
                if root["run_id"] == run_id:
                    roots.setdefault(root["attempt"], root)
        if not roots:
            raise RunNotFound(run_id.hex())
        return roots[min(roots)]["run"]["process"] or ""

    def _located(self, run_id: bytes) -> Iterator[tuple[LakeFile, RunRows]]:
        """Yield the files that hold attempts of the run, each with its rows in it."""
        started_ms = run_started_ms(run_id)
        for file in files_in(Partition.of_ms(started_ms).folder(self.root, SPANS)):
            if file.first_ms <= started_ms <= file.last_ms:
                rows = self._read(file, partial(RunRows.find, file.path, run_id))
                if rows is not None:
                    yield file, rows

    def pack_of(self, run_id: bytes, attempt: int, *, but: Path) -> tuple[Path, Mapping[bytes, int]] | None:
        """Return the payloads file of an attempt and the number of each digest; None where it is `but`, or none."""
        for file, of_run in self._located(run_id):
            rows = attempts_in(of_run.table(), file.path).get((run_id, attempt))
            if rows is not None:
                path = file.beside(PAYLOADS)
                return None if path == but else (path, rows.numbers)
        return None


class _PayloadsOf:
    """The bytes of one run's payloads, read when asked for; the file is opened by the first that asks."""

    def __init__(self, lake: Lake, attempt: tuple[bytes, int], path: Path, numbers: Mapping[bytes, int]) -> None:
        self._lake = lake
        self._attempt = attempt
        self._path = path
        self._numbers = numbers
        self._reader: PackReader | None = None
        self._lock = threading.Lock()

    def payload(self, digest: bytes) -> bytes | None:
        """Return the bytes of a digest; None when they were not kept or their file is gone."""
        if digest not in self._numbers:
            return None
        reader = self._reader
        if reader is None:
            with self._lock:
                reader = self._reader = self._reader or self._open()
        # Its number is looked up only now: it is another one where a compaction made the file that was opened.
        return None if reader is None else reader.payload(self._numbers[digest], digest)

    def _open(self) -> PackReader | None:
        with contextlib.suppress(FileNotFoundError):
            return PackReader(self._path)
        moved = self._lake.pack_of(*self._attempt, but=self._path)  # the run was loaded before a compaction
        if moved is None:
            return None
        self._path, self._numbers = moved
        with contextlib.suppress(FileNotFoundError):
            return PackReader(self._path)
        return None


def stored_attempt(lake: Lake, file: LakeFile, rows: AttemptRows, losses: Sequence[Loss]) -> StoredAttempt:
    """Return an attempt from its rows in a file; its payloads are read when asked for."""
    facts = rows.root["run"]
    run = load_run(rows.root, rows.coverage)
    return StoredAttempt(
        run=run,
        spans=rows.spans,
        payload=_PayloadsOf(lake, (run.run_id, run.attempt), file.beside(PAYLOADS), rows.numbers).payload,
        losses=losses,
        manifest_digest=facts["manifest_digest"] or b"",
        checks=rows.checks,
        kept=frozenset(rows.numbers),
        span_count=facts["span_count"],
    )


_FIELDS = [column.name for column in fields(RecordedRun)]


def _fields_of(recorded: RecordedRun) -> dict[str, Any]:
    return {name: getattr(recorded, name) for name in _FIELDS}


def open_spans(file: LakeFile) -> pq.ParquetFile:
    """Open a spans file. Raises DamagedRecording, UnsupportedFormat."""
    with damage_named(file.path):
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    file_facts(parquet.metadata.metadata, file.path)
    return parquet


def _column_index(parquet: pq.ParquetFile, name: str) -> int:
    return int(parquet.schema_arrow.get_field_index(name))  # `run_id` and `root` come before any nested column


def root_rows(file: LakeFile, columns: list[str]) -> pa.Table:
    """Return `columns` of the root rows of a file. Raises DamagedRecording, UnsupportedFormat."""
    parquet = open_spans(file)
    metadata = parquet.metadata
    column = _column_index(parquet, "root")
    groups = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or statistics.max:
            groups.append(group)
    with damage_named(file.path):
        table = parquet.read_row_groups(groups, columns=["root", *columns], use_threads=False)
        return kernels.filtered(table, table.column("root"))


def _trace_ids(file: LakeFile) -> pa.Table:
    return root_rows(file, ["run_id", "trace_id"])


def _summary(roots: Sequence[dict[str, Any]]) -> RunSummary:
    """Return the summary of a run from the root rows of its attempts, in order."""
    run = merged_facts([load_run(root) for root in roots])
    told = [root["run"] for root in roots]
    totals = {name: _total([facts[name] for facts in told]) for name in _TOTALS}
    if len(told) > 1:  # a call that was in flight when an attempt ended was made again under the same step
        last = max(facts["last_step"] or 0 for facts in told)
        totals["step_count"] = last - max(run.fork_step - 1, 0)
    return RunSummary(run, **totals)


_TOTALS = [column.name for column in fields(RunSummary) if column.name != "run"]


def _total(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _oldest_ms(found: Iterable[bytes], limit: int) -> int:
    newest = sorted(map(run_started_ms, found), reverse=True)
    return newest[limit - 1]
