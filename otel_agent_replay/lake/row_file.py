"""Rows that are made already -> a file of the lake. Owns no columns: `span_table` and `writer` say what lies where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from otel_agent_replay.lake.layout import LOSSES, SPANS, Partition, file_name
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.schema import file_metadata
from otel_agent_replay.lake.writer import loss_table, pack_number
from otel_agent_replay.model import Loss


@dataclass(frozen=True, slots=True)
class RowFile:
    """Which runs lie in a file: their hour, ids (see `writer.pack_number`), and begins in Unix milliseconds."""

    partition: Partition
    identities: Sequence[bytes]
    first_ms: int
    last_ms: int


def write_rows(
    lake: Path, file: RowFile, groups: Iterable[pa.Table], *, losses: Sequence[Loss], segments: Sequence[str]
) -> Path:
    """Write the rows of whole first attempts at runs, without payloads, and return the file's path.

    `groups` are its row groups, `losses` those of its runs. Each file is published whole or not at all, that of losses
    first; the same runs again replace the same files. Raises OSError.
    """
    name = file_name(file.first_ms, file.last_ms, pack_number(file.identities))
    metadata = file_metadata(segments=segments, quirks=())
    path = file.partition.folder(lake, SPANS) / name
    with (
        ParquetOutput(file.partition.folder(lake, LOSSES) / name, LOSSES_SCHEMA, metadata) as lost,
        ParquetOutput(path, SPANS_SCHEMA, metadata) as output,
    ):
        for group in groups:
            output.write(group)
        if losses:
            lost.write(loss_table(losses))
        lost.publish()
        output.publish()
    return path
