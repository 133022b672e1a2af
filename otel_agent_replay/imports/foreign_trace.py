"""A trace that another instrumentation emitted -> a run, as far as its attributes go: for comparing, never for replay.

Spans that say, in any of the dialects (`dialects`), that they are a model call, a tool, a search or an agent become
nodes with what they asked and answered; all others stay as they are and are compared by name and status. Their order is
that of causes (a child never begins before its parent), then of time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.errors import CannotJudge, DamagedRecording
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.foreign_nodes import ForeignNodes
from otel_agent_replay.imports.trace_structure import Structure, structure_of
from otel_agent_replay.model import AnomalyCode, Loss, LossReason, RecordedRun, RecordedSpan, Run, RunStatus, Span
from otel_agent_replay.otlp.facts import with_facts

IMPORTED = "import"
"""The mode of a run that another tool recorded: it can be looked at, compared and judged, not run again."""


_LAST_NS = (1 << 63) - 1
"""The last moment that a run can tell; its spans keep what they say."""


class ForeignTrace(NamedTuple):
    """A file as a run; `refused` says in a sentence each which spans could not be read."""

    run: RecordedRun
    refused: Sequence[str]


def read_foreign_trace(path: Path, trace: str = "") -> ForeignTrace:
    """Return the trace in a file of spans, of any format that `imports.files` reads.

    `trace` is the beginning of a trace id in hexadecimal, needed where a file holds several. Raises DamagedRecording
    for a file of no known format or without a span, CannotJudge where it is not clear which trace is meant.
    """
    found = read_spans(path)
    by_trace: dict[str, list[Span]] = {}
    for span in found.spans:
        name = span.trace_id.hex()
        if name.startswith(trace.lower()):
            by_trace.setdefault(name, []).append(span)
    if not by_trace:
        raise DamagedRecording(f"{path} holds no span" + (f" of a trace {trace}" if trace else ""))
    if len(by_trace) > 1:
        raise CannotJudge(f"{path} holds {len(by_trace)} traces: name one as {path}#{min(by_trace)[:8]}")
    (chosen,) = by_trace.values()
    return ForeignTrace(run_of_spans(chosen), [str(anomaly.detail) for anomaly in found.anomalies])


def run_of_spans(spans: Sequence[Span], source: str = "") -> RecordedRun:
    """Return the spans of one trace as a run; see `run_of_structure`."""
    return run_of_structure(structure_of(spans), source)


def run_of_structure(structure: Structure, source: str = "", run_id: bytes = b"") -> RecordedRun:
    """Return a trace as a run, its root span being the run's root; `source` names where it came from.

    Anomalies that say more than that a span came twice are its losses. `run_id` is that of the run when the lake has it
    already, else it is made of the trace id and the time of the root.
    """
    placed = structure.spans
    nodes = ForeignNodes(structure)
    run = _run(structure, nodes, run_id)
    # The root first, since what has no other parent lies under it; below it parents come before their children.
    made = {structure.root: nodes.recorded(structure.root, run.run_id)}
    if nodes.told:
        made |= {index: nodes.recorded(index, run.run_id) for index in range(len(placed)) if index != structure.root}
    else:  # most traces are no agent's
        made |= {index: RecordedSpan(item.span) for index, item in enumerate(placed) if index != structure.root}
    if source:
        made[structure.root] = _with_source(made[structure.root], source)
    spans = [made[index] for index in sorted(made, key=lambda index: placed[index].begin)]
    failed = tuple(
        Loss(LossReason.INTERNAL, "dialect of a span", 1, why, run.run_id, placed[index].span.span_id, run.started_ns)
        for index, why in nodes.failed
    )
    odd = tuple(
        Loss(LossReason.DAMAGED, anomaly.code.value, 1, anomaly.detail, run.run_id, anomaly.span_id, run.started_ns)
        for anomaly in structure.anomalies
        if anomaly.code is not AnomalyCode.DUPLICATE_SPAN
    )
    return RecordedRun(run, tuple(spans), nodes.payloads.get, (*odd, *failed))


def _with_source(root: RecordedSpan, source: str) -> RecordedSpan:
    return replace(root, span=with_facts(root.span, {semconv.IMPORT_SOURCE: source}))


def imported_run_id(trace_id: bytes, started_ns: int) -> bytes:
    """Return the id of the run that a trace of others becomes: the same for the same trace and moment, a UUIDv7."""
    milliseconds = min(max(started_ns, 0) // 1_000_000, (1 << 48) - 1)
    drawn = int.from_bytes(hashlib.sha256(b"imported trace\0" + trace_id).digest()[:10], "big")
    random_a, random_b = drawn >> 68, drawn & (1 << 62) - 1
    return (milliseconds << 80 | 0x7 << 76 | random_a << 64 | 0b10 << 62 | random_b).to_bytes(16, "big")


def _run(structure: Structure, nodes: ForeignNodes, run_id: bytes) -> Run:
    root = structure.spans[structure.root].span
    name = nodes.facts[structure.root].all().get(semconv.AGENT_NAME) or root.name
    service = root.resource.attributes.get(semconv.SERVICE_NAME, "")
    error = root.status_code == 2
    known = (item.span.start_ns for item in structure.spans if item.span.start_ns)
    started_ns = min(root.start_ns or min(known, default=0), _LAST_NS)
    return Run(
        run_id=run_id or imported_run_id(root.trace_id, started_ns),
        trace_id=root.trace_id,
        root_span_id=root.span_id,
        agent=str(name),
        started_ns=started_ns,
        ended_ns=min(root.end_ns, _LAST_NS),
        status=RunStatus.ERROR if error else RunStatus.OK if root.end_ns else RunStatus.PENDING,
        thread_id=nodes.thread_id(),
        subject=nodes.subject(),
        service=str(service),
        mode=IMPORTED,
    )
