"""Files of an older format -> the current one: a file at a time, each replaced whole or not at all.

A column that a later format added is null in what was written before: that is all there is between format 0 (what was
recorded before format 1 was released) and format 1. A column that this version does not know is never dropped: such a
file is left as it is, and so is one that needs a newer reader. How a run was recorded stays in its own row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording, MaintenanceError, UnsupportedFormat
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS, all_files
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.parquet_file import ParquetOutput, damage_named, leaf_paths
from otel_agent_replay.lake.schema import FORMAT_VERSION, READER_VERSION, FileFacts, file_metadata, stated_facts
from otel_agent_replay.lake.schema import LABELS as LABELS_SCHEMA
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import PAYLOADS as PAYLOADS_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.settling import Skipped
from otel_agent_replay.model import KNOWN_QUIRKS

# A reader that sees new spans finds its new payloads.
_SCHEMAS = {PAYLOADS: PAYLOADS_SCHEMA, LOSSES: LOSSES_SCHEMA, LABELS: LABELS_SCHEMA, SPANS: SPANS_SCHEMA}


@dataclass(slots=True)
class UpgradeReport:
    """What an upgrade did, or with `dry_run` would do: `upgraded` of `files` files.

    `left` are files that it could not bring to the current format, and why; `unknown_quirks` names of what recordings
    ask of a replayer and this version does not know: they can be looked at, not replayed.
    """

    dry_run: bool
    files: int = 0
    upgraded: int = 0
    left: list[Skipped] = field(default_factory=list)
    unknown_quirks: set[str] = field(default_factory=set)


def upgrade(
    lake: Path,
    *,
    dry_run: bool = False,
    wait_s: float = 30.0,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> UpgradeReport:
    """Bring every file of a lake to the current format. Killed at any moment, each file is the old one or the new.

    Raises MaintenanceError when another works on the lake for longer than `wait_s` seconds, or it cannot be written.
    """
    lake = Path(lake)
    report = UpgradeReport(dry_run)
    if dry_run or not lake.is_dir():
        _upgrade(lake, report, progress)
        return report
    with maintenance_lock(lake, wait_s):
        try:
            _upgrade(lake, report, progress)
        except OSError as error:
            raise MaintenanceError(
                f"{lake} could not be upgraded further: {error}. {report.upgraded} files are of format "
                f"{FORMAT_VERSION} now, the others as they were; make room or let it be written, and run it again"
            ) from error
    return report


def _upgrade(lake: Path, report: UpgradeReport, progress: Callable[[int, int], None]) -> None:
    listed = [(file.path, schema) for table, schema in _SCHEMAS.items() for file in all_files(lake, table)]
    report.files = len(listed)
    for place, (path, schema) in enumerate(listed):
        try:
            facts = _facts(path)
            report.unknown_quirks |= set(facts.quirks) - KNOWN_QUIRKS
            if facts.reader_version > READER_VERSION:
                why = f"{path} needs a reader of version {facts.reader_version}: upgrade otel-agent-replay itself"
                report.left.append(Skipped(str(path), why))
            elif facts.format_version < FORMAT_VERSION:
                _check_columns(path, schema)
                if not report.dry_run:
                    _rewrite(path, schema, facts)
                report.upgraded += 1
        except (DamagedRecording, UnsupportedFormat) as error:
            report.left.append(Skipped(str(path), str(error)))
        progress(place + 1, len(listed))


def _facts(path: Path) -> FileFacts:
    with damage_named(path):
        metadata = pq.read_metadata(path).metadata
    return stated_facts(metadata, path)


def _check_columns(path: Path, schema: pa.Schema) -> None:
    with _reading(path) as parquet:
        there = {parquet.schema.column(number).path for number in range(len(parquet.schema.names))}
    unknown = sorted(there - set(leaf_paths(schema)))
    if unknown:
        raise UnsupportedFormat(f"{path} has columns that this version does not know: {', '.join(unknown)}")


def _rewrite(path: Path, schema: pa.Schema, facts: FileFacts) -> None:
    metadata = file_metadata(segments=facts.segments, quirks=facts.quirks)
    with ParquetOutput(path, schema, metadata) as output:
        with _reading(path) as parquet:
            groups = parquet.num_row_groups
        for group in range(groups):
            with _reading(path) as parquet:
                rows = parquet.read_row_group(group).to_pylist()
            output.write(pa.Table.from_pylist(rows, schema))
        if not groups:
            output.write(schema.empty_table())
        output.publish()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[pq.ParquetFile]:
    with damage_named(path), pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        yield parquet
