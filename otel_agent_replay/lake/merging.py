"""Files of one partition -> fewer that say the same, under another folder. Owns names, row groups and metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay.lake.layout import PAYLOADS, SPANS, LakeFile, Partition, file_name
from otel_agent_replay.lake.merged_payloads import MergedPack
from otel_agent_replay.lake.merged_spans import Output, Sources, merged_tables, outputs_of
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.row_groups import RowGroups
from otel_agent_replay.lake.schema import PAYLOADS as PAYLOADS_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.schema import FileFacts, file_metadata
from otel_agent_replay.lake.writer import FILE_ROWS, ROOT_GROUP_ROWS, ROW_GROUP_ROWS

_ROWS_BUDGET = 64 << 20


def merge_spans(files: Sequence[LakeFile], staging: Path, partition: Partition) -> list[Path]:
    """Write the rows of spans files, and the payloads they name, in order of run; return the new spans files.

    Raises UnreadableFile for a file that cannot take part, OSError.
    """
    sources = Sources(files)
    try:
        metadata = metadata_of(sources.facts.values())
        made = []
        for place, output in enumerate(outputs_of(sources.units, FILE_ROWS)):
            pack = _pack_number(files, place)
            name = file_name(*output.starts, pack)
            targets = (partition.folder(staging, PAYLOADS) / name, partition.folder(staging, SPANS) / name)
            made.append(write_merged(sources, output, pack, targets, metadata))
        return made
    finally:
        sources.close()


def write_merged(
    sources: Sources, output: Output, pack: int, targets: tuple[Path, Path], metadata: dict[str, str]
) -> Path:
    """Write one new file and its payloads into `targets` (payloads, spans); return the path of the spans."""
    with ExitStack() as stack:
        payloads = stack.enter_context(ParquetOutput(targets[0], PAYLOADS_SCHEMA, metadata))
        spans = stack.enter_context(ParquetOutput(targets[1], SPANS_SCHEMA, metadata))
        merged = MergedPack(pack, payloads.write)
        rows = _Collected(spans, ROW_GROUP_ROWS)
        roots = _Collected(spans, ROOT_GROUP_ROWS)
        apart = output.rows > ROW_GROUP_ROWS  # as in files that a sealer makes
        for is_root, table in merged_tables(sources, output, pack, merged, roots_apart=apart):
            (roots if is_root else rows).add(table)
        rows.flush()
        roots.flush()
        merged.flush()
        payloads.publish()
        spans.publish()
    return targets[1]


def merge_rows(files: Sequence[LakeFile], staging: Path, partition: Partition, table: str, schema: pa.Schema) -> Path:
    """Write the rows of files that name runs (losses, labels) in order of run; return the new file. Raises as above."""
    groups = RowGroups(schema, _ROWS_BUDGET)
    try:
        metadata = metadata_of([groups.facts(file.path) for file in files])
        parts = [groups.table(file.path, group) for file in files for group in range(len(groups.row_counts(file.path)))]
        whole = pa.concat_tables(parts)
        whole = whole.take(pc.sort_indices(whole, sort_keys=[("run_id", "ascending"), ("time_ns", "ascending")]))
        starts = min(file.first_ms for file in files), max(file.last_ms for file in files)
        target = partition.folder(staging, table) / file_name(*starts, _pack_number(files, 0))
        with ParquetOutput(target, schema, metadata) as output:
            for first in range(0, max(len(whole), 1), ROOT_GROUP_ROWS):
                output.write(whole.slice(first, ROOT_GROUP_ROWS))
            output.publish()
        return target
    finally:
        groups.close()


class _Collected:
    """Rows on their way into row groups of `size`."""

    def __init__(self, output: ParquetOutput, size: int) -> None:
        self._output = output
        self._size = size
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += len(table)
        while self._rows >= self._size:
            whole = pa.concat_tables(self._tables)
            self._output.write(whole.slice(0, self._size).combine_chunks())
            self._tables, self._rows = [whole.slice(self._size)], len(whole) - self._size

    def flush(self) -> None:
        if self._rows:
            self._output.write(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._rows = [], 0


def metadata_of(facts: Iterable[FileFacts]) -> dict[str, str]:
    """Return what a file says of itself that is made of others."""
    told = list(facts)
    segments = sorted({segment for one in told for segment in one.segments})
    return file_metadata(segments=segments, quirks=_all(one.quirks for one in told))


def _all(parts: Iterable[Sequence[str]]) -> Iterator[str]:
    return (one for part in parts for one in part)


def _pack_number(files: Sequence[LakeFile], place: int) -> int:
    """Return a number that the same files give again, and no others."""
    packs = b"".join(sorted(file.pack.to_bytes(8, "big") for file in files))
    digest = hashlib.sha256(b"merged" + packs + place.to_bytes(4, "big")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
