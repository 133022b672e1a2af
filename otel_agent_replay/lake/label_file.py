"""Labels -> files of the lake, and back. A label lies in the hour of its run, so that it goes when its run goes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.attributes import store_value
from otel_agent_replay.lake.layout import LABELS, Partition, all_files, file_name, files_in
from otel_agent_replay.lake.parquet_file import ParquetOutput, damage_named
from otel_agent_replay.lake.schema import LABELS as LABELS_SCHEMA
from otel_agent_replay.lake.schema import file_facts, file_metadata
from otel_agent_replay.model import Label, run_started_ms
from otel_agent_replay.wire.text import text_to_wire as store_text


def write_labels(lake: Path, labels: Sequence[Label]) -> list[Path]:
    """Write labels and return the files made, one an hour of runs. What was recorded is not touched.

    Writing the same labels again replaces the same files.
    """
    partitions: dict[Partition, list[Label]] = defaultdict(list)
    for label in labels:
        partitions[Partition.of_ms(run_started_ms(label.run_id))].append(label)
    return [_write(lake, partition, members) for partition, members in partitions.items()]


def labels_not_there(lake: Path, labels: Sequence[Label]) -> list[Label]:
    """Return those of the labels that the lake does not have, each once. Raises DamagedRecording, UnsupportedFormat."""
    there: set[str] = set()
    for partition in {Partition.of_ms(run_started_ms(label.run_id)) for label in labels}:
        for file in files_in(partition.folder(lake, LABELS)):
            there.update(map(repr, _read(file.path).to_pylist()))
    missing = {}
    for label, row in zip(labels, _table(labels).to_pylist(), strict=True):
        if repr(row) not in there:
            missing[repr(row)] = label
    return list(missing.values())


def _write(lake: Path, partition: Partition, labels: Sequence[Label]) -> Path:
    table = _table(labels)
    pack = int.from_bytes(hashlib.sha256(repr(table.to_pylist()).encode()).digest()[:8], "big") >> 1
    starts = [run_started_ms(label.run_id) for label in labels]
    target = partition.folder(lake, LABELS) / file_name(min(starts), max(starts), pack)
    with ParquetOutput(target, LABELS_SCHEMA, file_metadata(segments=(), quirks=())) as output:
        output.write(table)
        output.publish()
    return target


def _read(path: Path) -> pa.Table:
    with damage_named(path):
        table = pq.read_table(path, partitioning=None)
    file_facts(table.schema.metadata, path)
    return table


def _table(labels: Sequence[Label]) -> pa.Table:
    return pa.Table.from_pylist([_row(label) for label in labels], LABELS_SCHEMA)


def _row(label: Label) -> dict[str, object]:
    return {
        "run_id": label.run_id,
        "who": store_text(label.who),
        "time_ns": label.time_ns,
        "span_id": label.span_id or None,
        "name": store_text(label.name),
        "value": store_value(label.value),
        "note": store_text(label.note) or None,
    }


def runs_labelled(lake: Path, name: str) -> set[bytes]:
    """Return the runs whose latest label `name` is anything but false. Raises DamagedRecording, UnsupportedFormat."""
    latest: dict[bytes, tuple[int, bool]] = {}
    for file in all_files(Path(lake), LABELS):
        table = _read(file.path)
        for row in kernels.filtered(
            table, kernels.equal(table.column("name"), pa.scalar(store_text(name)))
        ).to_pylist():
            told = row["time_ns"] or 0, row["value"] is None or row["value"]["boolean"] is not False
            latest[row["run_id"]] = max(latest.get(row["run_id"], told), told)
    return {run_id for run_id, (_, stands) in latest.items() if stands}
