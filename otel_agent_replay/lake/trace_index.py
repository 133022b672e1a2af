"""Which runs belong to a trace, without a look into every file: an index of the lake's root rows by trace id.

A trace id does not say when its run began, so it may lie in any hour. The index is a file beside the tables,
`index/traces.arrow`: trace ids in order, their runs, and the files that they lie in. It can be lost at any time: files
that it does not know are read, and once there are many of them it is written anew, where the lake can be written.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay.lake.layout import LakeFile, temporary_beside

Read = Callable[[LakeFile], pa.Table]
"""Returns `run_id` and `trace_id` of the root rows of a file."""

_FILES = b"files"
_UNKNOWN_FILES = 16
"""So many files more, and the index is written anew."""

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
    found = {run_id for run_id, name in index.between(lowest, highest) if name in asked}
    unknown = [file for name, file in asked.items() if name not in index.known]
    tables = [read(file) for file in unknown]
    for table in tables:
        ids: list[list[Any]] = [table.column(name).to_pylist() for name in ("trace_id", "run_id")]
        found.update(run_id for trace_id, run_id in zip(*ids, strict=True) if lowest <= trace_id <= highest)
    if all_of_them and len(unknown) >= _UNKNOWN_FILES:
        with contextlib.suppress(OSError):  # read-only, full: the next one reads these files again
            index.with_files(list(map(_name, unknown)), tables, asked).write(path)
    return found


def _name(file: LakeFile) -> str:
    hour = file.path.parent
    return f"{hour.parent.name}/{hour.name}/{file.path.name}"


class _Index:
    """Rows in order of trace id, and the names of the files that they number."""

    def __init__(self, names: Sequence[str], rows: Any) -> None:
        self._names = names
        self._rows = rows
        self.known = frozenset(names)

    @classmethod
    def load(cls, path: Path) -> _Index:
        """Return the index as it is; one that is not there, or not whole, knows nothing."""
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            names = json.loads(reader.schema.metadata[_FILES])
            return cls(names, reader.get_batch(0))
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return cls([], _SCHEMA.empty_table())

    def between(self, lowest: bytes, highest: bytes) -> Iterable[tuple[bytes, str]]:
        """Yield the run and the file of each row whose trace id lies in [lowest, highest]."""
        trace_ids = self._rows.column("trace_id")
        places = range(len(trace_ids))
        first = bisect_left(places, lowest, key=lambda place: trace_ids[place].as_py())
        end = bisect_right(places, highest, lo=first, key=lambda place: trace_ids[place].as_py())
        rows = self._rows.slice(first, end - first)
        for run_id, number in zip(rows.column("run_id").to_pylist(), rows.column("file").to_pylist(), strict=True):
            yield run_id, self._names[number]

    def with_files(self, names: Sequence[str], tables: Sequence[pa.Table], there: Iterable[str]) -> _Index:
        """Return the index with more files, without those that are not `there` any more."""
        rows = pa.Table.from_batches([self._rows]) if isinstance(self._rows, pa.RecordBatch) else self._rows
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
        return _Index([*(self._names[number] for number in numbers), *names], whole)

    def write(self, path: Path) -> None:
        """Put it in the place of the one that is there. Raises OSError."""
        schema = _SCHEMA.with_metadata({_FILES: json.dumps(list(self._names))})
        temporary = temporary_beside(path)
        try:
            with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                writer.write_table(self._rows.cast(schema))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
