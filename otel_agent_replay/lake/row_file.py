"""Rows that are made already -> a file of the lake. Owns no columns: `span_table` and `writer` say what lies where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from otel_agent_replay.lake.layout import SPANS, Partition, file_name
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.schema import file_metadata
from otel_agent_replay.lake.writer import pack_number


@dataclass(frozen=True, slots=True)
class RowFile:
    """Which runs lie in a file: their hour, ids (see `writer.pack_number`), and begins in Unix milliseconds."""

    partition: Partition
    identities: Sequence[bytes]
    first_ms: int
    last_ms: int


def write_rows(lake: Path, file: RowFile, groups: Iterable[pa.Table], *, segments: Sequence[str]) -> Path:
    """Write the rows of whole first attempts at runs, without payloads or losses, and return the file's path.

    `groups` are its row groups. The file is published whole or not at all; the same runs again replace the same file.
    Raises OSError.
    """
    name = file_name(file.first_ms, file.last_ms, pack_number(file.identities))
    path = file.partition.folder(lake, SPANS) / name
    with ParquetOutput(path, SPANS_SCHEMA, file_metadata(segments=segments, quirks=())) as output:
        for group in groups:
            output.write(group)
        output.publish()
    return path
