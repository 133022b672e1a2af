"""A lake of any size out of one recorded hour: the hour again and again, with ids, times and names of its own.

What a sealer would have written is written, through the package's own file writer: every copy has new run, trace and
span ids, later times, its own pack and file name, and manifests that hold. Payloads are the same bytes in each.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lake_corpus import HOUR_MS, RUNS, SPANS_OF_A_RUN, recorded_runs

import otel_agent_replay.lake
from otel_agent_replay.lake.layout import PAYLOADS, SPANS, Partition, all_files, file_name
from otel_agent_replay.lake.manifest import manifest_of
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.schema import PAYLOADS as PAYLOADS_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.schema import file_metadata
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import RecordedRun, run_started_ms

SPANS_OF_A_FILE = RUNS * SPANS_OF_A_RUN
FILES_OF_AN_HOUR = 2
"""As two sealers make them: the runs of one lie between those of the other."""

_STAMP = "corpus.json"
_MANIFESTS = "manifests.parquet"
_HERE = Path(__file__).parent


def lake_of(spans: int, folder: Path) -> Path:
    """Return the lake with that many spans, made when it is not there as this code makes it."""
    copies = max(1, round(spans / SPANS_OF_A_FILE))
    stamp = {"made by": made_by(), "copies": copies}
    lake = folder / f"lake-{short(copies * SPANS_OF_A_FILE)}"
    if not is_stamped(lake, stamp):
        shutil.rmtree(lake, ignore_errors=True)
        hour = hour_in(folder)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_copy, [hour] * copies, [lake] * copies, range(copies), chunksize=4))
        write_stamp(lake, stamp)
    return lake


def hour_in(folder: Path) -> Path:
    """Return the lake of the one recorded hour that all copies are made of."""
    hour = folder / "lake-hour"
    stamp = {"made by": made_by()}
    if not is_stamped(hour, stamp):
        shutil.rmtree(hour, ignore_errors=True)
        runs = list(recorded_runs())
        write_runs(hour, runs, segments=["hour"])
        pq.write_table(pa.Table.from_pylist([_manifest(recorded) for recorded in runs]), hour / _MANIFESTS)
        write_stamp(hour, stamp)
    return hour


def _manifest(recorded: RecordedRun) -> dict[str, bytes]:
    run_id = recorded.run.run_id
    before, found, after = manifest_of(recorded)[0].SerializeToString(deterministic=True).partition(run_id)
    if not found or run_id in after:
        raise ValueError("a manifest names its run in one place")
    return {"run_id": run_id, "trace_id": recorded.run.trace_id, "before": before, "after": after}


def is_stamped(folder: Path, stamp: dict[str, Any]) -> bool:
    """Return whether `folder` was finished with that stamp."""
    path = folder / _STAMP
    return path.exists() and json.loads(path.read_text(encoding="utf-8")) == stamp


def write_stamp(folder: Path, stamp: dict[str, Any]) -> None:
    """Say that `folder` is finished, and how it was made."""
    (folder / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")


def made_by(*more: Path) -> str:
    """Return a digest of the code that makes a lake: this corpus, the package's own writer, and `more` files."""
    lake = Path(otel_agent_replay.lake.__file__).parent
    sources = [_HERE / "lake_corpus.py", _HERE / "lake_copies.py", *more]
    sources += [lake / f"{name}.py" for name in ("schema", "span_table", "span_columns", "node_columns", "run_row")]
    sources += [lake / f"{name}.py" for name in ("promoted", "attributes", "arrays", "writer", "parquet_file")]
    sources += [lake / f"{name}.py" for name in ("payload_store", "layout")]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def short(spans: int) -> str:
    """Return a number of spans in few letters: 0.1m, 10m."""
    return f"{spans / 1e6:g}m"


@dataclass(frozen=True)
class Change:
    """What is different in copy `number`: `later_ms` is added to every time, the masks are laid over ids by XOR."""

    number: int
    later_ms: int
    trace_mask: np.ndarray
    span_mask: np.ndarray
    tail_mask: np.ndarray

    @classmethod
    def of(cls, number: int) -> Change:
        """Return the change of a copy; the same number gives the same."""
        draw = np.random.default_rng([7, number])
        tail = draw.integers(0, 256, 10, dtype=np.uint8)
        tail[0] &= 0x0F  # the version of a UUIDv7 stays
        tail[2] &= 0x3F  # and its variant
        hour, file = divmod(number, FILES_OF_AN_HOUR)
        masks = (draw.integers(0, 256, width, dtype=np.uint8) for width in (16, 8))
        return cls(number, hour * HOUR_MS + file * 1117, *masks, tail)

    def run_ids(self, column: pa.Array) -> pa.Array:
        """Return run ids of the later time."""
        ids = _bytes_of(column, 16)
        starts = np.zeros((len(ids), 8), np.uint8)
        starts[:, 2:] = ids[:, :6]
        later = starts.view(">u8") + np.uint64(self.later_ms)
        changed = np.empty_like(ids)
        changed[:, :6] = later.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
        changed[:, 6:] = ids[:, 6:] ^ self.tail_mask
        return _with_bytes(column, changed)

    def masked(self, column: pa.Array, mask: np.ndarray) -> pa.Array:
        """Return other ids, different where they were and equal where they were."""
        return _with_bytes(column, _bytes_of(column, len(mask)) ^ mask)

    def later(self, column: pa.Array) -> pa.Array:
        """Return nanoseconds of the later time."""
        return pc.add(column, pa.scalar(self.later_ms * 1_000_000, pa.int64()))


def _bytes_of(column: pa.Array, width: int) -> np.ndarray:
    return np.frombuffer(b"".join(column.drop_null().to_pylist()), np.uint8).reshape(-1, width)


def _with_bytes(column: pa.Array, changed: np.ndarray) -> pa.Array:
    values = iter(np.ascontiguousarray(changed).view(f"V{changed.shape[1]}").ravel().tolist())
    if not column.null_count:
        return pa.array(values, column.type)
    return pa.array([next(values) if valid else None for valid in column.is_valid().to_pylist()], column.type)


@dataclass(frozen=True)
class _Hour:
    """The recorded hour in memory: row groups of both tables; of each run its ids and its manifest around the run id."""

    spans: list[pa.Table]
    payloads: list[pa.Table]
    runs: pa.Table


@cache
def _hour(folder: Path) -> _Hour:
    (file,) = all_files(folder, SPANS)
    return _Hour(
        list(_row_groups(file.path, SPANS_SCHEMA)),
        list(_row_groups(file.beside(PAYLOADS), PAYLOADS_SCHEMA)),
        pq.read_table(folder / _MANIFESTS),
    )


def _row_groups(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    parquet = pq.ParquetFile(path)
    for group in range(parquet.num_row_groups):
        yield parquet.read_row_group(group).cast(schema).combine_chunks()


def _copy(hour_lake: Path, lake: Path, number: int) -> None:
    hour = _hour(hour_lake)
    change = Change.of(number)
    runs = hour.runs.combine_chunks()
    run_ids = change.run_ids(runs.column("run_id").chunk(0)).to_pylist()
    trace_ids = change.masked(runs.column("trace_id").chunk(0), change.trace_mask).to_pylist()
    named = b"".join(run + trace for run, trace in zip(run_ids, trace_ids, strict=True))
    pack = int.from_bytes(hashlib.sha256(named).digest()[:8], "big") >> 1
    digests = {
        old["run_id"]: hashlib.sha256(old["before"] + new + old["after"]).digest()
        for old, new in zip(runs.to_pylist(), run_ids, strict=True)
    }
    starts = [run_started_ms(run) for run in run_ids]
    partition = Partition.of_ms(starts[0])
    name = file_name(min(starts), max(starts), pack)
    metadata = file_metadata(segments=[f"copy-{number}"], quirks=())
    with ParquetOutput(partition.folder(lake, PAYLOADS) / name, PAYLOADS_SCHEMA, metadata) as output:
        for group in hour.payloads:
            output.write(_set(group, pack=pa.repeat(pa.scalar(pack, pa.int64()), len(group))))
        output.publish()
    with ParquetOutput(partition.folder(lake, SPANS) / name, SPANS_SCHEMA, metadata) as output:
        for group in hour.spans:
            output.write(_changed(group, change, pack, digests))
        output.publish()


def _changed(group: pa.Table, change: Change, pack: int, digests: dict[bytes, bytes]) -> pa.Table:
    column = {name: group.column(name).chunk(0) for name in group.column_names}
    packs = pc.if_else(column["pack"].is_valid(), pa.scalar(pack, pa.int64()), pa.scalar(None, pa.int64()))
    return _set(
        group,
        run_id=change.run_ids(column["run_id"]),
        trace_id=change.masked(column["trace_id"], change.trace_mask),
        span_id=change.masked(column["span_id"], change.span_mask),
        parent_span_id=change.masked(column["parent_span_id"], change.span_mask),
        start_ns=change.later(column["start_ns"]),
        end_ns=change.later(column["end_ns"]),
        pack=packs,
        run=_changed_run(column["run"], column["run_id"], change, digests),
    )


def _changed_run(run: pa.StructArray, run_ids: pa.Array, change: Change, digests: dict[bytes, bytes]) -> pa.StructArray:
    valid = run.is_valid().to_pylist()
    if not any(valid):
        return run
    fields = {field.name: run.field(field.name) for field in run.type}
    fields["started_ns"], fields["ended_ns"] = change.later(fields["started_ns"]), change.later(fields["ended_ns"])
    fields["manifest_digest"] = pa.array(
        [digests[run_id] if known else None for run_id, known in zip(run_ids.to_pylist(), valid, strict=True)],
        pa.binary(32),
    )
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(run.type), mask=pc.invert(run.is_valid()))


def _set(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, column in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table
