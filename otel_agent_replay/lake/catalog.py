"""What runs a lake holds, and one run out of it. Reads Parquet directly; knows no SQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording, RunNotFound
from otel_agent_replay.lake.layout import (
    LOSSES,
    PAYLOADS,
    SPANS,
    LakeFile,
    Partition,
    all_files,
    files_in,
)
from otel_agent_replay.lake.loss_rows import load_loss
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.payload_store import PackReader
from otel_agent_replay.lake.rows import load_span
from otel_agent_replay.lake.run_row import load_run
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.model import Loss, RecordedRun, Run, run_started_ms


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list: its facts and totals. A sum is None when no model call told its part."""

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
class StoredRun(RecordedRun):
    """A run as the lake holds it: what was said of it when it was stored, beside what is read now.

    `manifest_digest` is the stored SHA-256 of its manifest, `checks` the short check of each node by span id,
    `kept` the digests whose bytes were stored, `span_count` and `step_count` what it had.
    """

    manifest_digest: bytes = b""
    checks: Mapping[bytes, bytes] = field(default_factory=dict)
    kept: frozenset[bytes] = frozenset()
    span_count: int = 0
    step_count: int = 0


class Lake:
    """A folder of runs. `root` need not exist: it is then a lake without runs."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def runs(
        self, *, since_ns: int | None = None, until_ns: int | None = None, limit: int | None = None
    ) -> list[RunSummary]:
        """Return the runs that began in [since_ns, until_ns), newest first, at most `limit`."""
        found: list[RunSummary] = []
        first_ms = None if since_ns is None else since_ns // 1_000_000
        last_ms = None if until_ns is None else (until_ns - 1) // 1_000_000
        for file in all_files(self.root, SPANS, newest_first=True, first_ms=first_ms, last_ms=last_ms):
            if limit is not None and len(found) >= limit and file.last_ms < _oldest_ms(found, limit):
                continue
            found += [_summary(root) for root in _roots(file, _ROOT_COLUMNS).to_pylist()]
        found = [
            summary
            for summary in found
            if (since_ns is None or summary.run.started_ns >= since_ns)
            and (until_ns is None or summary.run.started_ns < until_ns)
        ]
        found.sort(key=lambda summary: summary.run.run_id, reverse=True)
        return found[:limit]

    def has(self, run_id: bytes) -> bool:
        """Return whether the run is in the lake."""
        return self._locate(run_id) is not None

    def find(self, text: str) -> bytes:
        """Return the id of the run with this run id, trace id or unique prefix of one (hexadecimal).

        Run ids come first: they name the hour they lie in, so that few files are read. Trace ids, which may lie
        anywhere, are looked at when no run id begins so. Raises RunNotFound when there is none or more than one.
        """
        asked = text.strip().lower().replace("-", "")
        if not _is_hex(asked) or not 0 < len(asked) <= 32:
            raise RunNotFound(text)
        lowest, highest = bytes.fromhex(asked.ljust(32, "0")), bytes.fromhex(asked.ljust(32, "f"))
        if lowest == highest and self.has(lowest):
            return lowest
        files = all_files(self.root, SPANS, first_ms=run_started_ms(lowest), last_ms=run_started_ms(highest))
        found = {run_id for file in files for run_id in _roots_between(file, "run_id", lowest, highest)}
        if not found:
            files = all_files(self.root, SPANS)
            found = {run_id for file in files for run_id in _roots_between(file, "trace_id", lowest, highest)}
        if len(found) == 1:
            return found.pop()
        raise RunNotFound(text, sorted(run_id.hex() for run_id in found))

    def load(self, run_id: bytes) -> StoredRun:
        """Return the run, its payloads read when asked for. Raises RunNotFound, DamagedRecording, UnsupportedFormat."""
        found = self._locate(run_id)
        if found is None:
            raise RunNotFound(run_id.hex())
        file, parquet, groups = found
        rows = _rows(file, parquet, groups, run_id)
        root = next((row for row in rows if row["root"]), None)
        if root is None or root["run"] is None:
            raise DamagedRecording(f"{file.path} holds spans of run {run_id.hex()} but not its root")
        numbers = _numbers(rows)
        return StoredRun(
            run=load_run(root),
            spans=tuple(load_span(row) for row in rows),
            payload=_PayloadsOf(file.beside(PAYLOADS), numbers).payload,
            losses=tuple(self._losses(run_id)),
            manifest_digest=root["run"]["manifest_digest"] or b"",
            checks={row["span_id"]: row["entry_check"] for row in rows if row["entry_check"] is not None},
            kept=frozenset(numbers),
            span_count=root["run"]["span_count"],
            step_count=root["run"]["step_count"],
        )

    def siblings(self, run_id: bytes) -> list[bytes]:
        """Return the runs that the same process recorded, this one among them, in the order it began them."""
        process = self.load(run_id).run.process
        if not process:
            return [run_id]
        found = {}
        for file in all_files(self.root, SPANS):
            roots = _roots(file, ["run_id", "run.process", "run.ordinal"])
            ours = roots.filter(pc.equal(pc.struct_field(roots.column("run"), "process"), pa.scalar(process)))
            found.update({root["run_id"]: root["run"]["ordinal"] for root in ours.to_pylist()})
        return sorted(found, key=lambda member: (found[member], member))

    def _locate(self, run_id: bytes) -> tuple[LakeFile, pq.ParquetFile, list[int]] | None:
        started_ms = run_started_ms(run_id)
        for file in files_in(Partition.of_ms(started_ms).folder(self.root, SPANS)):
            if file.first_ms <= started_ms <= file.last_ms:
                parquet = _open(file)
                groups = _groups_with(parquet, run_id)
                if groups and _contains(file, parquet, groups, run_id):
                    return file, parquet, groups
        return None

    def _losses(self, run_id: bytes) -> Iterator[Loss]:
        """Yield the run's losses: those written with it, and those that came later."""
        started_ms = run_started_ms(run_id)
        for file in files_in(Partition.of_ms(started_ms).folder(self.root, LOSSES)):
            if file.first_ms <= started_ms <= file.last_ms:
                for row in pq.read_table(file.path, partitioning=None).to_pylist():
                    if row["run_id"] == run_id:
                        yield load_loss(row)


class _PayloadsOf:
    """The bytes of one run's payloads, read when asked for; the file is opened by the first that asks."""

    def __init__(self, path: Path, numbers: dict[bytes, int]) -> None:
        self._path = path
        self._numbers = numbers
        self._reader: PackReader | None = None
        self._lock = threading.Lock()

    def payload(self, digest: bytes) -> bytes | None:
        """Return the bytes of a digest; None when they were not kept or their file is gone."""
        number = self._numbers.get(digest)
        if number is None:
            return None
        with self._lock:
            if self._reader is None:
                try:
                    self._reader = PackReader(self._path)
                except FileNotFoundError:
                    return None
        return self._reader.payload(number, digest)


_ROOT_COLUMNS = ["run_id", "trace_id", "span_id", "agent", "run"]


def _open(file: LakeFile) -> pq.ParquetFile:
    with damage_named(file.path):
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    file_facts(parquet.metadata.metadata, file.path)
    return parquet


def _column_index(parquet: pq.ParquetFile, name: str) -> int:
    return int(parquet.schema_arrow.get_field_index(name))  # `run_id` and `root` come before any nested column


def _groups_with(parquet: pq.ParquetFile, run_id: bytes) -> list[int]:
    """Return the row groups whose range of run ids takes in `run_id`."""
    metadata = parquet.metadata
    column = _column_index(parquet, "run_id")
    groups = []
    for group in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(group).column(column).statistics
        if statistics is None or (statistics.has_min_max and statistics.min <= run_id <= statistics.max):
            groups.append(group)
    return groups


def _contains(file: LakeFile, parquet: pq.ParquetFile, groups: list[int], run_id: bytes) -> bool:
    with damage_named(file.path):
        column = parquet.read_row_groups(groups, columns=["run_id"], use_threads=False).column("run_id")
    return bool(pc.any(pc.equal(column, pa.scalar(run_id, column.type))).as_py())


def _rows(file: LakeFile, parquet: pq.ParquetFile, groups: list[int], run_id: bytes) -> list[dict[str, Any]]:
    with damage_named(file.path):
        table = parquet.read_row_groups(groups)
        column = table.column("run_id")
        table = table.filter(pc.equal(column, pa.scalar(run_id, column.type)))
        rows: list[dict[str, Any]] = table.to_pylist()
    rows.sort(key=lambda row: row["position"])
    return rows


def _numbers(rows: Sequence[dict[str, Any]]) -> dict[bytes, int]:
    return {
        row[f"{side}_digest"]: row[f"{side}_payload"]
        for row in rows
        for side in ("request", "result")
        if row[f"{side}_payload"] is not None
    }


def _roots(file: LakeFile, columns: list[str]) -> pa.Table:
    """Return `columns` of the root rows of a file."""
    parquet = _open(file)
    metadata = parquet.metadata
    column = _column_index(parquet, "root")
    groups = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or statistics.max:
            groups.append(group)
    with damage_named(file.path):
        table = parquet.read_row_groups(groups, columns=["root", *columns], use_threads=False)
        return table.filter(table.column("root"))


def _roots_between(file: LakeFile, column: str, lowest: bytes, highest: bytes) -> list[bytes]:
    """Return the run ids of the root rows whose `column` lies between two values of its length."""
    roots = _roots(file, sorted({"run_id", column}))
    values = roots.column(column)
    between = pc.and_(
        pc.greater_equal(values, pa.scalar(lowest, values.type)), pc.less_equal(values, pa.scalar(highest, values.type))
    )
    found: list[Any] = roots.column("run_id").filter(between).to_pylist()
    return found


def _summary(root: dict[str, Any]) -> RunSummary:
    facts = root["run"]
    names = [column.name for column in fields(RunSummary) if column.name != "run"]
    return RunSummary(load_run(root), **{name: facts[name] for name in names})


def _oldest_ms(found: list[RunSummary], limit: int) -> int:
    newest = sorted((run_started_ms(summary.run.run_id) for summary in found), reverse=True)
    return newest[limit - 1]


def _is_hex(text: str) -> bool:
    return all(digit in "0123456789abcdef" for digit in text)
