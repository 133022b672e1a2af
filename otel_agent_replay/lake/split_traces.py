"""Traces that became several runs, because parts of them began more than a day apart: told with each of these runs.

A landing looks for the run of a trace in the hours around it, not in all of the lake. What that overlooks is found
here, by all root rows at once, and kept as an anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay.lake.catalog import root_rows
from otel_agent_replay.lake.layout import SPANS, Partition, all_files
from otel_agent_replay.lake.losses_of import losses_of
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import AnomalyCode, Loss, LossReason, run_started_ms

_WHAT = str(AnomalyCode.SPLIT_TRACE)


def tell_split_traces(lake: Path) -> int:
    """Write an anomaly with every imported run whose trace has another one, and return how many were not told before.

    Raises DamagedRecording, UnsupportedFormat, OSError.
    """
    told = [loss for loss in _losses(lake) if not _is_told(lake, loss)]
    if told:
        write_runs(lake, [], segments=(), losses=told)
    return len(told)


def _losses(lake: Path) -> list[Loss]:
    losses = []
    for trace_id, run_ids in _split(lake).items():
        for run_id in run_ids:
            others = ", ".join(other.hex() for other in run_ids if other != run_id)
            detail = f"parts of trace {trace_id.hex()} began more than a day apart: see run {others}"
            time_ns = run_started_ms(run_id) * 1_000_000
            losses.append(Loss(LossReason.DAMAGED, _WHAT, 1, detail, run_id, b"", time_ns))
    return losses


def _split(lake: Path) -> dict[bytes, list[bytes]]:
    """Return the imported runs of each trace that has several, in order."""
    tables = [root_rows(file, ["run_id", "trace_id", "run.mode"]) for file in all_files(lake, SPANS)]
    if not tables:
        return {}
    rows = pa.concat_tables(tables)
    rows = rows.filter(pc.equal(pc.struct_field(rows.column("run"), "mode"), pa.scalar("import")))
    counted = rows.group_by("trace_id").aggregate([("run_id", "count_distinct")])
    several = counted.filter(pc.greater(counted.column("run_id_count_distinct"), pa.scalar(1))).column("trace_id")
    found: dict[bytes, set[bytes]] = defaultdict(set)
    for row in rows.filter(pc.is_in(rows.column("trace_id"), value_set=several.combine_chunks())).to_pylist():
        found[row["trace_id"]].add(row["run_id"])
    return {trace_id: sorted(run_ids) for trace_id, run_ids in found.items()}


def _is_told(lake: Path, loss: Loss) -> bool:
    partition = Partition.of_ms(run_started_ms(loss.run_id))
    there = losses_of(lake, partition, [loss.run_id]).get(loss.run_id, [])
    return any((one.what, one.detail) == (loss.what, loss.detail) for one in there)
