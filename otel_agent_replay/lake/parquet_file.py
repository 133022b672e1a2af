"""One Parquet file: encodings of every column, publication whole or not at all, and what a broken one is called."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.layout import publish, temporary_beside

_COMPRESSION_LEVEL = 9
"""zstd from this level on keeps a window of several MB: a body that repeats an earlier one costs next to nothing."""

_LEVEL_OF_SHORT_VALUES = 3
_LONG_VALUES = frozenset({"text", "data", "nested", "exchange", "value", "element", "detail", "note"})
"""Last parts of the names of leaves whose values may be long; of all others a higher level makes nothing of more."""

_PAGE_BYTES = 64 << 20  # one page a row group: a page is also where the window ends

_DELTA = frozenset(
    {
        "position",
        "start_ns",
        "end_ns",
        "sequence",
        "end_sequence",
        "step",
        "request_payload",
        "result_payload",
        "number",
        "pieces.list.element.first",
        "pieces.list.element.count",
        "reads.list.element.integer",
        "reads.list.element.sequence",
        "time_ns",
    }
)
_SPLIT = frozenset({"reads.list.element.number"})
_PLAIN = frozenset(
    {
        "span_id",
        "parent_span_id",
        "request_digest",
        "result_digest",
        "exchange",
        "data",
        "path",
        "entry_check",
        # Values of many attributes lie in one column: zstd finds what repeats, a dictionary would hold all the rest.
        "attributes.key_value.value.text",
        "attributes.key_value.value.integer",
        "attributes.key_value.value.number",
    }
)
_PREFIX_DELTA = frozenset({"path"})

_READ_AT_ONCE = 1 << 20
"""Bytes of a file up to which it is read whole when it is opened."""

_SMALL, _SHORT = 256, 512
"""Bytes of a leaf in a file of one row group: below `_SMALL` zstd makes it larger, below `_SHORT` a dictionary does.

Reading each of them costs more than all its values do, and a run has some hundred such leaves.
"""

_DENSE = frozenset({"span_id", "path", "request_digest", "result_digest", "run.manifest_digest"})
_SMALL_DENSE = 4096
"""The same of leaves in which hardly anything repeats, or where the encoding has taken out what does: zstd wins next to
nothing there, and to set it up for reading takes longer than everything else that a small leaf needs.
"""

STATISTICS = ["run_id", "root", "start_ns", "number"]
"""What prunes row groups. Statistics of other columns would only make the footer longer, but for those of columns that
hold nothing in a file of one row group: a reader leaves these out.
"""


NEXT_STEP = (
    "put a copy of the file back if there is one, or move it out of the lake, which is then without what lies in it; "
    "`agent-replay doctor --deep` says what else is damaged, and --repair mends what can be"
)
"""What somebody can do about a file of a lake that cannot be read."""


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a broken file into DamagedRecording that names it; a file that is gone stays that."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedRecording(f"{path} cannot be read: {error}\n{NEXT_STEP}") from error


def opened(path: Path) -> pq.ParquetReader:
    """Open a file to be read by the places of its leaves. Raises DamagedRecording, FileNotFoundError."""
    return reader_of(path, bytes_of(path))


def bytes_of(path: Path) -> bytes | None:
    """Return what a small file holds; None of a larger one. Raises DamagedRecording, FileNotFoundError."""
    with damage_named(path), path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return file.read(size) if size <= _READ_AT_ONCE else None


def reader_of(path: Path, data: bytes | None) -> pq.ParquetReader:
    """Open a file of which `bytes_of` gave `data`. Raises DamagedRecording, FileNotFoundError.

    Not as a ParquetFile: that lists the names of all columns first, which takes as long as reading a small run.
    """
    global _last_footer
    reader = pq.ParquetReader()
    if data is None:
        with damage_named(path):
            reader.open(str(path), page_checksum_verification=True)
        return reader
    footer, known = _footer_of(data), _last_footer
    said = known[1] if known is not None and known[0] == footer else None
    with damage_named(path):  # not by Arrow's threads, which are waited for
        reader.open(pa.BufferReader(data), metadata=said, pre_buffer=False, page_checksum_verification=True)
    if said is None and len(footer) >= _LONG_FOOTER:
        _last_footer = footer, reader.metadata
    return reader


_LONG_FOOTER = 4096
_last_footer: tuple[bytes, pq.FileMetaData] | None = None
"""The last long footer of a small file, and what it says: to read that of a spans file takes as long as reading a small
run out of it, and who looks for a run, loads it and looks into its attributes opens its file three times.
"""


def _footer_of(data: bytes) -> bytes:
    """Return the footer of a Parquet file with its length and the magic number; of what is none, its end."""
    return data[-(int.from_bytes(data[-8:-4], "little") + 8) :]


def places_of_columns(metadata: pq.FileMetaData) -> dict[str, list[int]]:
    """Return the places of the leaves of each column; nothing of a file without rows."""
    places: dict[str, list[int]] = {}
    if metadata.num_row_groups:
        first = metadata.row_group(0)
        for place in range(metadata.num_columns):
            places.setdefault(column_of(first.column(place)), []).append(place)
    return places


def column_of(leaf: pq.ColumnChunkMetaData) -> str:
    """Return the name of the column that a leaf belongs to."""
    return leaf.path_in_schema.partition(".")[0]


class ParquetOutput:
    """Writes row groups to a temporary file and publishes it as `target`; nothing is left when it is not published."""

    def __init__(self, target: Path, schema: pa.Schema, metadata: Mapping[str, str]) -> None:
        self._target = target
        self._schema = schema
        self._metadata = metadata
        self._temporary = temporary_beside(target)
        self._writer: pq.ParquetWriter | None = None
        self._first: pa.Table | None = None  # held until it is known whether others follow

    def write(self, table: pa.Table) -> None:
        """Append one row group."""
        if self._writer is None and self._first is None:
            self._first = table
        else:
            self._append(table, self._begun(alone=False))

    def publish(self) -> Path | None:
        """Finish the file and make it visible; None when nothing was written."""
        if self._writer is None and self._first is None:
            return None
        self._begun(alone=True).add_key_value_metadata(dict(self._metadata))
        self._close()
        publish(self._temporary, self._target)
        return self._target

    def _begun(self, *, alone: bool) -> pq.ParquetWriter:
        """Return the writer, the first row group written; `alone` tells that no other follows it."""
        if self._writer is None:
            if self._first is None:
                raise AssertionError("a file begins with its first row group")
            self._writer = _writer(self._temporary, self._schema, self._first, alone=alone)
            self._append(self._first, self._writer)
            self._first = None
        return self._writer

    @staticmethod
    def _append(table: pa.Table, writer: pq.ParquetWriter) -> None:
        writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> ParquetOutput:  # noqa: PYI034 - typing has no Self before Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()
        self._temporary.unlink(missing_ok=True)


def _writer(path: Path, schema: pa.Schema, first: pa.Table, *, alone: bool) -> pq.ParquetWriter:
    leaves = [column for field in schema for column in _leaves(field, "")]
    sizes = _leaf_sizes(first) if alone else {}
    # Most columns of most files are null throughout: an empty dictionary in each would be a tenth of a small file.
    empty = _empty_leaves(first)
    plain = _PLAIN.union(empty, [leaf for leaf, size in sizes.items() if size < _SHORT])
    small = {leaf for leaf, size in sizes.items() if size < (_SMALL_DENSE if leaf in _DENSE else _SMALL)}
    encodings = {}
    for leaf in leaves:
        if leaf in _DELTA:
            encodings[leaf] = "DELTA_BINARY_PACKED"
        elif leaf in _SPLIT:
            encodings[leaf] = "BYTE_STREAM_SPLIT"
        elif leaf in _PREFIX_DELTA:
            encodings[leaf] = "DELTA_BYTE_ARRAY"
    options: dict[str, Any] = {"use_dictionary": [leaf for leaf in leaves if leaf not in plain.union(encodings)]}
    return pq.ParquetWriter(
        path,
        pa.schema([field.remove_metadata() for field in schema]),
        compression={leaf: "none" if leaf in small else "zstd" for leaf in leaves},
        compression_level={
            leaf: _COMPRESSION_LEVEL if leaf.rpartition(".")[2] in _LONG_VALUES else _LEVEL_OF_SHORT_VALUES
            for leaf in leaves
            if leaf not in small
        },
        column_encoding=encodings,
        write_statistics=[leaf for leaf in leaves if leaf in STATISTICS or (alone and leaf in empty)],
        data_page_size=_PAGE_BYTES,
        write_page_checksum=True,
        store_schema=False,
        **options,
    )


def _empty_leaves(table: pa.Table) -> set[str]:
    """Return the leaves of the columns of `table` that hold nothing but nulls."""
    return {
        leaf
        for field, column in zip(table.schema, table.columns, strict=True)
        if column.null_count == len(column)
        for leaf in _leaves(field, "")
    }


def _leaf_sizes(table: pa.Table) -> dict[str, int]:
    """Return about how many bytes each leaf column of `table` takes in memory."""
    sizes: dict[str, int] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        leaves = _leaves(field, "")
        for chunk in column.chunks:
            for leaf, size in zip(leaves, _sizes_of(chunk), strict=True):
                sizes[leaf] = sizes.get(leaf, 0) + size
    return sizes


def _sizes_of(array: Any) -> list[int]:
    """Return the bytes of each leaf of an array, in the order of `_leaves`."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [size for place in range(kind.num_fields) for size in _sizes_of(array.field(place))]
    if pa.types.is_map(kind):
        return _sizes_of(array.keys) + _sizes_of(array.items)
    if pa.types.is_list(kind):
        return _sizes_of(array.values)
    return [array.nbytes]


def leaf_paths(schema: pa.Schema) -> list[str]:
    """Return the Parquet paths of all leaf columns of a schema."""
    return [leaf for field in schema for leaf in _leaves(field, "")]


def _leaves(field: pa.Field[Any], prefix: str) -> list[str]:
    """Return the Parquet paths of a field's leaf columns."""
    path = prefix + field.name
    kind = field.type
    if pa.types.is_struct(kind):
        return [leaf for child in kind for leaf in _leaves(child, f"{path}.")]
    if pa.types.is_map(kind):
        key, value = kind.key_field.with_name("key"), kind.item_field.with_name("value")
        return _leaves(key, f"{path}.key_value.") + _leaves(value, f"{path}.key_value.")
    if pa.types.is_list(kind):
        return _leaves(kind.value_field.with_name("element"), f"{path}.list.")
    return [path]
