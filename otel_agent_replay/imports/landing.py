"""Spans from anywhere -> runs in the lake: grouped, counted once, what is wrong with them named, written whole.

A trace of others becomes one run; runs of ours, sent with all that was recorded of them, become themselves again. What
lands later completes what is there; what lands twice doubles nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.foreign_trace import run_of_structure
from otel_agent_replay.imports.trace_structure import Structure, structure_of
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Anomaly, AnomalyCode, RecordedRun, Span
from otel_agent_replay.otlp.parts import PartJoiner
from otel_agent_replay.otlp.runs import AttemptKey, OwnSpan, is_own, own_span, run_of_parts
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.payload.span_redaction import redacted


@dataclass(slots=True)
class LandedTrace:
    """One trace that landed: the run it became. Ids are bytes; `roots` and `orphans` are spans of what landed now."""

    trace_id: bytes
    run_id: bytes
    span_count: int
    roots: Sequence[bytes] = ()
    orphans: Sequence[bytes] = ()
    max_depth: int = 0


@dataclass(slots=True)
class Landed:
    """What one landing did. `span_count` counts the spans that are kept, copies once."""

    span_count: int = 0
    traces: list[LandedTrace] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def land(
    lake: Path,
    spans: Iterable[Span],
    *,
    source: str,
    redaction: Redaction | None = None,
    segments: Sequence[str] = (),
) -> Landed:
    """Write spans into a lake as runs and return what came of them.

    `source` names where they came from in anomalies and in the run. `redaction` is applied to spans of others before
    anything is written (None: it was applied before). `segments` are the journal segments they come from. Takes memory
    for all that one call gets. Raises OSError when the lake cannot be written.
    """
    arrived = _Arrived()
    for span in spans:
        arrived.add(span, redaction)
    arrived.end()
    landed = Landed(anomalies=arrived.anomalies)
    runs: list[RecordedRun] = []
    for trace_id, members in arrived.traces.items():
        structure = structure_of(members)
        recorded = run_of_structure(structure, source)
        runs.append(recorded)
        _tell_trace(landed, trace_id, structure, recorded)
    for parts in arrived.attempts.values():
        recorded = run_of_parts(parts)
        runs.append(recorded)
        landed.span_count += len(recorded.spans)
        landed.traces.append(LandedTrace(recorded.run.trace_id, recorded.run.run_id, len(recorded.spans)))
    if runs:
        landed.files += write_runs(lake, runs, segments=segments)
    return landed


def land_runs(lake: Path, runs: Iterable[RecordedRun], *, segments: Sequence[str] = ()) -> Landed:
    """Write runs that a reader made whole. Landing the same runs again doubles nothing."""
    landed = Landed()
    made = list(runs)
    for recorded in made:
        landed.span_count += len(recorded.spans)
        landed.traces.append(LandedTrace(recorded.run.trace_id, recorded.run.run_id, len(recorded.spans)))
    if made:
        landed.files += write_runs(lake, made, segments=segments)
    return landed


class _Arrived:
    """What came, by trace and by attempt."""

    def __init__(self) -> None:
        self.traces: dict[bytes, list[Span]] = {}
        self.attempts: dict[AttemptKey, list[OwnSpan]] = {}
        self.anomalies: list[Anomaly] = []
        self._joiner = PartJoiner()

    def add(self, span: Span, redaction: Redaction | None) -> None:
        """Put a span where it belongs."""
        try:
            whole = self._joiner.whole(span)
            if whole is None:
                return
            if is_own(whole):
                part = own_span(whole)
                self.attempts.setdefault(part.key, []).append(part)
                return
        except DamagedRecording as error:
            self._tell(AnomalyCode.UNREADABLE, span, str(error))
            whole = span
        kept = whole if redaction is None else redacted(whole, redaction)
        self.traces.setdefault(kept.trace_id, []).append(kept)

    def end(self) -> None:
        """Say which spans were not whole."""
        for span in self._joiner.incomplete():
            self._tell(AnomalyCode.UNREADABLE, span, "not all of its pieces came: it was left out")

    def _tell(self, code: AnomalyCode, span: Span, detail: str) -> None:
        self.anomalies.append(Anomaly(code, detail, span.trace_id, span.span_id))


def _tell_trace(landed: Landed, trace_id: bytes, structure: Structure, recorded: RecordedRun) -> None:
    placed = structure.spans
    beginnings = [item.span for item in placed if item.parent is None]
    landed.span_count += len(placed)
    landed.anomalies += structure.anomalies
    landed.traces.append(
        LandedTrace(
            trace_id,
            recorded.run.run_id,
            len(placed),
            [span.span_id for span in beginnings if not span.parent_span_id],
            [span.span_id for span in beginnings if span.parent_span_id],
            max(item.depth for item in placed),
        )
    )
