"""Recorded runs -> files of the lake. Owns the order of rows and of publication.

Rows lie in order of run, then of place in the run. In a file of several row groups the root rows have row groups
of their own, so that lists of runs read little. The payloads of a pack are published before its spans: a reader
that sees a span finds its payloads.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from otel_agent_replay import semconv
from otel_agent_replay.lake.exchange_column import StoredExchange, store_exchange
from otel_agent_replay.lake.layout import LOSSES, PAYLOADS, SPANS, Partition, file_name
from otel_agent_replay.lake.loss_rows import store_loss
from otel_agent_replay.lake.manifest import entry_checks, manifest_of
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.payload_store import Body, PackWriter
from otel_agent_replay.lake.run_row import run_totals, store_run
from otel_agent_replay.lake.schema import LOSSES as LOSSES_SCHEMA
from otel_agent_replay.lake.schema import PAYLOADS as PAYLOADS_SCHEMA
from otel_agent_replay.lake.schema import SPANS as SPANS_SCHEMA
from otel_agent_replay.lake.schema import file_metadata
from otel_agent_replay.lake.span_table import SpanRow, store_spans
from otel_agent_replay.model import AttributeValue, Kind, Loss, Node, RecordedRun, Span, run_started_ms

ROW_GROUP_ROWS = 4096
ROOT_GROUP_ROWS = 1024
FILE_ROWS = 32 * ROW_GROUP_ROWS
"""To load a run is to read the row groups it lies in, with its root's: they are small, and so is a file's footer."""


def write_runs(
    lake: Path, runs: Sequence[RecordedRun], *, segments: Sequence[str], losses: Sequence[Loss] = ()
) -> list[Path]:
    """Write attempts at runs and return the spans files made; each file is published whole or not at all.

    `segments` are the ids of the journal segments they come from. `losses` are those of no run, and those that came
    after their run was written. A run with an empty id is a trace without a run. Writing the same runs again replaces
    the same files. A later attempt lies in the hour that its run began in. Raises ValueError for a run without its root
    span.
    """
    partitions: dict[Partition, list[RecordedRun]] = defaultdict(list)
    for recorded in runs:
        partitions[Partition.of_ms(_started_ms(recorded))].append(recorded)
    paths = []
    for partition, members in sorted(partitions.items(), key=lambda item: (item[0].date, item[0].hour)):
        for batch in _batches(sorted(members, key=_order)):
            files = _PackFiles(lake, partition, batch, segments)
            paths.append(files.write(batch))
    _write_losses(lake, losses, segments)
    return paths


def _started_ms(recorded: RecordedRun) -> int:
    run = recorded.run
    return run_started_ms(run.run_id) if run.run_id else run.started_ns // 1_000_000


def _order(recorded: RecordedRun) -> tuple[bytes, int, bytes]:
    return recorded.run.run_id, recorded.run.attempt, recorded.run.trace_id


def _batches(runs: list[RecordedRun]) -> Iterator[list[RecordedRun]]:
    batch: list[RecordedRun] = []
    rows = 0
    for recorded in runs:
        if batch and rows + len(recorded.spans) > FILE_ROWS:
            yield batch
            batch, rows = [], 0
        batch.append(recorded)
        rows += len(recorded.spans)
    yield batch


class _PackFiles:
    """The spans, payloads and losses files of one pack."""

    def __init__(self, lake: Path, partition: Partition, runs: list[RecordedRun], segments: Sequence[str]) -> None:
        self._pack = _pack_number(runs, segments)
        starts = [_started_ms(recorded) for recorded in runs]
        name = file_name(min(starts), max(starts), self._pack)
        metadata = file_metadata(segments=segments, quirks=[quirk for run in runs for quirk in run.run.quirks])
        self._spans_path = partition.folder(lake, SPANS) / name
        self._outputs = [
            ParquetOutput(partition.folder(lake, table) / name, schema, metadata)
            for table, schema in ((PAYLOADS, PAYLOADS_SCHEMA), (LOSSES, LOSSES_SCHEMA), (SPANS, SPANS_SCHEMA))
        ]
        self._payloads, self._losses, self._spans = self._outputs
        self._bodies = PackWriter(self._pack, self._payloads.write)
        self._rows: list[SpanRow] = []
        self._roots: list[SpanRow] = []
        self._roots_apart = sum(len(recorded.spans) for recorded in runs) > ROW_GROUP_ROWS

    def write(self, runs: list[RecordedRun]) -> Path:
        """Write every run, publish, and return the path of the spans file."""
        with ExitStack() as stack:
            for output in self._outputs:
                stack.enter_context(output)
            losses: list[Loss] = []
            for recorded in runs:
                self._add(recorded)
                losses += recorded.losses
            self._flush(self._rows, ROW_GROUP_ROWS, last=True)
            self._flush(self._roots, ROOT_GROUP_ROWS, last=True)
            self._bodies.flush()
            if losses:
                self._losses.write(loss_table(losses))
            for output in self._outputs:
                output.publish()
        return self._spans_path

    def _add(self, recorded: RecordedRun) -> None:
        run = recorded.run
        numbers = self._bodies.add_run(_bodies(recorded)) | self._bodies.add_states(_states(recorded))
        exchanges = {
            place: store_exchange(item.node.call, item.node.outcome)
            for place, item in enumerate(recorded.spans)
            if item.node is not None
        }
        roots: set[int] = set()
        facts: dict[str, Any] | None = None
        checks: dict[int, bytes] = {}
        if run.run_id:
            roots = {place for place, span in enumerate(recorded.spans) if span.span.span_id == run.root_span_id}
            if not roots:
                raise ValueError(f"run {run.run_id.hex()} has no root span among its {len(recorded.spans)} spans")
            facts, checks = _facts_and_checks(recorded, recorded.spans[min(roots)].span, exchanges)
        first = min(roots, default=-1)
        for place, item in enumerate(recorded.spans):
            is_root = place in roots
            of_run = facts if place == first else None
            exchange = exchanges[place].column if place in exchanges else None
            row = SpanRow(
                item.span, item.node, run, place, is_root, of_run, self._pack, numbers, checks.get(place), exchange
            )
            (self._roots if is_root and self._roots_apart else self._rows).append(row)
        self._flush(self._rows, ROW_GROUP_ROWS)

    def _flush(self, rows: list[SpanRow], size: int, *, last: bool = False) -> None:
        done = 0
        while len(rows) - done >= (1 if last else size):
            self._spans.write(store_spans(rows[done : done + size]))
            done += size
        del rows[:done]


def _facts_and_checks(
    recorded: RecordedRun, root: Span, exchanges: Mapping[int, StoredExchange]
) -> tuple[dict[str, Any], dict[int, bytes]]:
    """Return the `run` struct of an attempt, and the check of each of its nodes by its place among the spans."""
    manifest, digest = manifest_of(recorded, [exchange.digest for exchange in exchanges.values()])
    facts = store_run(recorded.run, root) | run_totals(recorded) | {"manifest_digest": digest}
    sequences = {place: span.node.sequence for place, span in enumerate(recorded.spans) if span.node is not None}
    return facts, dict(zip(sorted(sequences, key=sequences.__getitem__), entry_checks(manifest), strict=True))


def _pack_number(runs: list[RecordedRun], segments: Sequence[str]) -> int:
    # A trace without a run may come in parts, at different times: there the segments belong to the name.
    apart = b"" if all(run.run.run_id for run in runs) else "\0".join(segments).encode()
    return pack_number(map(_identity, runs), apart)


def pack_number(identities: Iterable[bytes], apart: bytes = b"") -> int:
    """Return the number of the pack of attempts, each given by run id, trace id and, from the second on, its number.

    From the ids alone: sealing the same runs again after a crash replaces the files instead of adding to them.
    """
    digest = hashlib.sha256(b"".join(identities) + apart).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _identity(recorded: RecordedRun) -> bytes:
    run = recorded.run
    later = run.attempt.to_bytes(4, "big") if run.attempt > 1 else b""
    return run.run_id + run.trace_id + later


def _bodies(recorded: RecordedRun) -> Iterator[Body]:
    for span in recorded.spans:
        node = span.node
        if node is None:
            continue
        if node.call is not None and node.kind is not Kind.CHECKPOINT:
            data = recorded.bytes_of(node.call.request)
            if data is not None:
                yield Body(node.call.request.digest, data, _protocol(node, span.span.attributes))
        if node.outcome is not None and node.outcome.result is not None:
            data = recorded.bytes_of(node.outcome.result)
            if data is not None:
                yield Body(node.outcome.result.digest, data)


def _states(recorded: RecordedRun) -> Iterator[Body]:
    for node in recorded.nodes:
        if node.kind is Kind.CHECKPOINT and node.call is not None:
            data = recorded.bytes_of(node.call.request)
            if data is not None:
                yield Body(node.call.request.digest, data)


def _protocol(node: Node, attributes: Mapping[str, AttributeValue]) -> str:
    if node.kind is not Kind.MODEL or node.call is None:
        return ""
    name = node.call.attributes.get(semconv.PROTOCOL) or attributes.get(semconv.PROTOCOL)
    return name if isinstance(name, str) else ""


def _write_losses(lake: Path, losses: Sequence[Loss], segments: Sequence[str]) -> None:
    partitions: dict[Partition, list[Loss]] = defaultdict(list)
    for loss in losses:
        partitions[Partition.of_ms(_moment_of(loss))].append(loss)
    for partition, members in sorted(partitions.items(), key=lambda item: (item[0].date, item[0].hour)):
        table = loss_table(members)
        moments = [_moment_of(loss) for loss in members]
        told = repr([tuple(segments), table.to_pylist()]).encode()
        pack = int.from_bytes(hashlib.sha256(told).digest()[:8], "big") >> 1
        target = partition.folder(lake, LOSSES) / file_name(min(moments), max(moments), pack)
        with ParquetOutput(target, LOSSES_SCHEMA, file_metadata(segments=segments, quirks=())) as output:
            output.write(table)
            output.publish()


def _moment_of(loss: Loss) -> int:
    """Return what places a loss, in Unix milliseconds: it lies where its run does, also when it came after it."""
    return run_started_ms(loss.run_id) if len(loss.run_id) == 16 else loss.time_ns // 1_000_000


def loss_table(losses: Sequence[Loss]) -> pa.Table:
    """Return the rows of losses, in order."""
    return pa.Table.from_pylist([store_loss(loss) for loss in losses], LOSSES_SCHEMA)
