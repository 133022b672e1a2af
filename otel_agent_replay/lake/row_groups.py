"""Row groups of many files, a bounded amount of them in memory. Owns what is kept, not what is read."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording, RecordingError, UnsupportedFormat
from otel_agent_replay.lake.parquet_file import damage_named
from otel_agent_replay.lake.schema import FORMAT_VERSION, FileFacts, file_facts

_OPEN_FILES = 64
_DECODED_GROUPS = 8


class UnreadableFile(RecordingError):
    """A file that cannot take part: `path` names it, the message says why."""

    code = "damaged"

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(why)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.why))


class RowGroups:
    """Reads row groups of files of one table, whose columns are `schema`; keeps `budget` bytes of them.

    Every method raises UnreadableFile for a file that is damaged, is no file of a lake, or has another format.
    """

    def __init__(self, schema: pa.Schema, budget: int) -> None:
        self._schema = schema
        self._budget = budget
        self._held = 0
        self._open: OrderedDict[Path, pq.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[Path, int], pa.Table] = OrderedDict()
        self._rows: OrderedDict[tuple[Path, int], list[dict[str, Any]]] = OrderedDict()

    def facts(self, path: Path) -> FileFacts:
        """Return what a file says of itself."""
        facts = _told(path, self._file(path))
        if facts.format_version != FORMAT_VERSION:
            why = f"{path} has format {facts.format_version}, this version writes {FORMAT_VERSION}"
            raise UnreadableFile(path, f"{why}: `agent-replay upgrade` comes first")
        return facts

    def row_counts(self, path: Path) -> list[int]:
        """Return how many rows each row group of a file has."""
        metadata = self._file(path).metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def columns(self, path: Path, group: int, names: list[str]) -> pa.Table:
        """Return some columns of a row group; they are not kept."""
        with _named(path):
            return self._file(path).read_row_group(group, columns=names, use_threads=False)

    def table(self, path: Path, group: int) -> pa.Table:
        """Return a row group whole."""
        key = path, group
        found = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found
        with _named(path):
            table = self._file(path).read_row_group(group).cast(self._schema).combine_chunks()
        self._groups[key] = table
        self._held += table.nbytes
        while self._held > self._budget and len(self._groups) > 1:
            _, dropped = self._groups.popitem(last=False)
            self._held -= dropped.nbytes
        return table

    def rows(self, path: Path, group: int) -> list[dict[str, Any]]:
        """Return a row group whole as rows: for tables whose rows are looked at one by one."""
        key = path, group
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = self.table(path, group).to_pylist()
            while len(self._rows) > _DECODED_GROUPS:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(key)
        return found

    def _file(self, path: Path) -> pq.ParquetFile:
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        with _named(path):
            opened = pq.ParquetFile(path, page_checksum_verification=True)
        self._open[path] = opened
        while len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return opened

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._open.popitem()[1].close()


def _told(path: Path, parquet: pq.ParquetFile) -> FileFacts:
    try:
        return file_facts(parquet.metadata.metadata, path)
    except UnsupportedFormat as error:
        raise UnreadableFile(path, str(error)) from error


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into UnreadableFile."""
    try:
        with damage_named(path):
            yield
    except FileNotFoundError as error:
        raise UnreadableFile(path, f"{path} is not there") from error
    except DamagedRecording as error:
        raise UnreadableFile(path, str(error)) from error
