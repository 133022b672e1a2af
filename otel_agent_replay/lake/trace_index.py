"""Which runs belong to a trace, without a look into every file: an index of the lake's root rows by trace id.

A trace id does not say when its run began, so it may lie in any hour. The index is a file beside the tables,
`index/traces.arrow`: trace ids in order, their runs, and the files that they lie in, in blocks. It can be lost at any
time: files that it does not know are read, and once there are many of them it is written anew, where the lake can be
written. What is read of it is proved by checksums first, its list of blocks and each block: one that is torn or altered
is not believed, and is written anew.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from otel_agent_replay.lake.layout import LakeFile, temporary_beside

Read = Callable[[LakeFile], "pa.Table | None"]
"""Returns `run_id` and `trace_id` of the root rows of a file; None of one that is passed over."""

_TOLD, _CHECK = b"told", b"check"
"""Metadata of the file: JSON, the names of the files and what is known of each block; and its CRC-32, in decimal."""

_UNKNOWN_FILES = 16
"""So many files more, and the index is written anew."""

_BLOCK_ROWS = 4096

_FIELDS: list[pa.Field[Any]] = [
    pa.field("trace_id", pa.binary()),
    pa.field("run_id", pa.binary(16)),
    pa.field("file", pa.int32()),
]
_SCHEMA = pa.schema(_FIELDS)


def runs_of_traces(
    lake: Path, files: Iterable[LakeFile], read: Read, lowest: bytes, highest: bytes, *, all_of_them: bool
) -> set[bytes]:
    """Return the runs in `files` whose trace ids lie in [lowest, highest].

    `all_of_them` says that these are all files of the lake: only then is the index written. Raises what `read` raises.
    """
    asked = {_name(file): file for file in files}
    path = lake / "index" / "traces.arrow"
    index = _Index.load(path)
    try:
        found = {run_id for run_id, name in index.between(lowest, highest) if name in asked}
    except _Damaged:
        index, found = _Index.empty(damaged=True), set()
    tables = {name: read(file) for name, file in asked.items() if name not in index.known}
    unknown = {name: table for name, table in tables.items() if table is not None}
    for table in unknown.values():
        ids: list[list[Any]] = [table.column(name).to_pylist() for name in ("trace_id", "run_id")]
        found.update(run_id for trace_id, run_id in zip(*ids, strict=True) if lowest <= trace_id <= highest)
    if all_of_them and (len(unknown) >= _UNKNOWN_FILES or index.damaged):
        with contextlib.suppress(OSError):  # read-only, full: the next one reads these files again
            try:
                index.with_files(list(unknown), list(unknown.values()), asked).write(path)
            except _Damaged:
                path.unlink(missing_ok=True)  # in what was not asked for: the next one begins with nothing
    return found


def _name(file: LakeFile) -> str:
    hour = file.path.parent
    return f"{hour.parent.name}/{hour.name}/{file.path.name}"


class _Damaged(Exception):
    """The index is not what was written."""


class _Block(NamedTuple):
    """What is known of rows in order of trace id: the first of these, and the CRC-32 of all."""

    first: str
    check: int


class _Index:
    """Rows in order of trace id, and the names of the files that they number.

    `batches` gives a block by its number; `damaged` tells that there is a file which is no index.
    """

    def __init__(
        self,
        names: Sequence[str],
        blocks: Sequence[_Block],
        batches: Callable[[int], pa.RecordBatch],
        *,
        damaged: bool = False,
    ) -> None:
        self._names = names
        self._blocks = blocks
        self._batches = batches
        self.known = frozenset(names)
        self.damaged = damaged

    @classmethod
    def empty(cls, *, damaged: bool) -> _Index:
        """Return an index that knows nothing."""
        return cls([], [], _SCHEMA.empty_table().to_batches().__getitem__, damaged=damaged)

    @classmethod
    def load(cls, path: Path) -> _Index:
        """Return the index as it is; one that is not there, or not whole, knows nothing."""
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            metadata = reader.schema.metadata or {}
            told = metadata[_TOLD]
            if zlib.crc32(told) != int(metadata[_CHECK]) or not reader.schema.equals(_SCHEMA):
                return cls.empty(damaged=True)
            document = json.loads(told)
            blocks = [_Block(*block) for block in document["blocks"]]
            return cls(document["files"], blocks, reader.get_batch)
        except FileNotFoundError:
            return cls.empty(damaged=False)
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return cls.empty(damaged=True)

    def between(self, lowest: bytes, highest: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield the run and the file of each row whose trace id lies in [lowest, highest]. Raises _Damaged."""
        firsts = [block.first for block in self._blocks]
        for number in range(max(bisect_left(firsts, lowest.hex()) - 1, 0), bisect_right(firsts, highest.hex())):
            rows = self._rows(number)
            trace_ids = rows.column("trace_id")
            places = range(len(trace_ids))
            first = bisect_left(places, lowest, key=lambda place: trace_ids[place].as_py())
            end = bisect_right(places, highest, lo=first, key=lambda place: trace_ids[place].as_py())
            found = rows.slice(first, end - first)
            ids: list[list[Any]] = [found.column(name).to_pylist() for name in ("run_id", "file")]
            for run_id, file in zip(*ids, strict=True):
                yield run_id, self._names[file]

    def _rows(self, number: int) -> pa.RecordBatch:
        """Return a block, proved. Raises _Damaged."""
        try:
            batch = self._batches(number)
            batch.validate(full=True)  # else what is altered may lead out of the file
        except (OSError, pa.ArrowException, IndexError) as error:
            raise _Damaged from error
        if _check(batch) != self._blocks[number].check:
            raise _Damaged
        return batch

    def with_files(self, names: Sequence[str], tables: Sequence[pa.Table], there: Iterable[str]) -> _Index:
        """Return the index with more files, without those that are not `there` any more. Raises _Damaged."""
        import pyarrow.compute as pc  # takes 60 ms: see `kernels`

        rows = pa.Table.from_batches([self._rows(number) for number in range(len(self._blocks))], _SCHEMA)
        live = set(there)
        numbers = [number for number, name in enumerate(self._names) if name in live]
        file = pc.index_in(rows.column("file"), value_set=pa.array(numbers, pa.int32()))
        kept = rows.set_column(2, "file", file).filter(file.is_valid())
        more = [
            pa.table(
                {
                    "trace_id": table.column("trace_id"),
                    "run_id": table.column("run_id"),
                    "file": pa.repeat(pa.scalar(number, pa.int32()), len(table)),
                }
            ).cast(_SCHEMA)
            for number, table in enumerate(tables, start=len(numbers))
        ]
        whole = pa.concat_tables([kept, *more]).sort_by("trace_id").combine_chunks()
        batches = whole.to_batches(max_chunksize=_BLOCK_ROWS)
        blocks = [_Block(batch.column("trace_id")[0].as_py().hex(), _check(batch)) for batch in batches]
        return _Index([*(self._names[number] for number in numbers), *names], blocks, batches.__getitem__)

    def write(self, path: Path) -> None:
        """Put it in the place of the one that is there. Raises OSError."""
        told = json.dumps({"files": list(self._names), "blocks": self._blocks}).encode()
        schema = _SCHEMA.with_metadata({_TOLD: told, _CHECK: str(zlib.crc32(told))})
        temporary = temporary_beside(path)
        try:
            with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for number in range(len(self._blocks)):
                    writer.write_batch(self._batches(number).replace_schema_metadata(schema.metadata))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _check(batch: pa.RecordBatch) -> int:
    return zlib.crc32(batch.replace_schema_metadata(None).serialize())
