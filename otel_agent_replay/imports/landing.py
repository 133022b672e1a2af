"""Spans from anywhere -> runs in the lake: grouped, counted once, what is wrong with them named, written whole.

A trace of others becomes one run; runs of ours, sent with all that was recorded of them, become themselves again. What
lands later completes what is there; what lands twice doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from otel_agent_replay import semconv
from otel_agent_replay.imports.arrivals import Arrivals
from otel_agent_replay.imports.foreign_trace import run_of_structure
from otel_agent_replay.imports.trace_structure import Structure, content_of, structure_of
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.completion import replace_runs
from otel_agent_replay.lake.many_runs import ManyRuns
from otel_agent_replay.lake.trace_lookup import imported_runs
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Anomaly, AnomalyCode, Loss, LossReason, RecordedRun, Span
from otel_agent_replay.otlp.facts import without_facts
from otel_agent_replay.otlp.runs import AttemptKey, OwnSpan, is_incomplete, run_of_parts, with_parts
from otel_agent_replay.payload.redaction import Redaction

_RUNS_AT_ONCE = 2048
"""Runs that are written together: as many files less, and no more in memory than that."""


Source: TypeAlias = "str | Callable[[bytes], str]"


_READ_AT_ONCE = 256
"""Runs that are read together, where the lake has them already."""


@dataclass(slots=True)
class LandedTrace:
    """One run that spans of this landing belong to, as it is now. `roots` and `orphans` are ids of spans."""

    trace_id: bytes
    run_id: bytes
    span_count: int
    roots: Sequence[bytes] = ()
    orphans: Sequence[bytes] = ()
    max_depth: int = 0


@dataclass(slots=True)
class Landed:
    """What one landing did. `span_count` counts the spans of its traces, copies once; `new_runs`, `completed_runs`
    and `unchanged_runs` what became of them.
    """

    span_count: int = 0
    traces: list[LandedTrace] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    new_runs: int = 0
    completed_runs: int = 0
    unchanged_runs: int = 0


def land(
    lake: Path,
    spans: Iterable[Span],
    *,
    source: Source,
    redaction: Redaction | None = None,
    segments: Sequence[str] = (),
    noted: Sequence[Anomaly] = (),
) -> Landed:
    """Write spans into a lake as runs and return what came of them.

    `source` names where they came from, or says it of a trace id. `redaction` is applied to spans of others before
    anything is written (None: it was applied before). `segments` are the journal segments they come from. `noted` is
    what was wrong with them when they were read, looked at after `spans` was: it is kept with the runs. Takes memory
    for all that one call gets. Raises OSError when the lake cannot be written, MaintenanceError when a run that is
    there cannot be completed now.
    """
    arrivals = Arrivals(redaction)
    for span in spans:
        arrivals.add(span)
    arrivals.end()
    landing = _Landing(Path(lake), source, segments, [*noted, *arrivals.anomalies])
    landing.landed.anomalies += arrivals.anomalies
    landing.tell_masked(arrivals.masked)
    landing.land_traces(arrivals.traces)
    landing.land_attempts(arrivals.attempts)
    landing.flush()
    return landing.landed


class _Landing:
    """One landing on its way into the lake."""

    def __init__(
        self, lake: Path, source: str | Callable[[bytes], str], segments: Sequence[str], noted: Sequence[Anomaly]
    ) -> None:
        self._lake = lake
        self._catalog = Lake(lake)
        self._source = source
        self._segments = segments
        self._masked: dict[bytes, set[bytes]] = {}
        self._noted: dict[bytes, list[Anomaly]] = {}
        for anomaly in noted:
            self._noted.setdefault(anomaly.trace_id, []).append(anomaly)
        self._new: list[RecordedRun] = []
        self._again: list[RecordedRun] = []
        self.landed = Landed()

    def tell_masked(self, masked: Iterable[tuple[bytes, bytes]]) -> None:
        """Note the spans in which something was redacted: trace and span ids."""
        for trace_id, span_id in masked:
            self._masked.setdefault(trace_id, set()).add(span_id)

    # --- traces of others ---

    def land_traces(self, traces: dict[bytes, list[Span]]) -> None:
        """Take in each trace, with what the lake has of it."""
        # The root of a run that is there may bear its trace's id in a shorter form, which some spans here have too.
        short = {span.trace_id: whole for whole, spans in traces.items() for span in spans if span.trace_id != whole}
        found = imported_runs(self._lake, {*traces, *short}, *_window(traces)) if traces else {}
        known = {short.get(trace_id, trace_id): run_id for trace_id, run_id in found.items()}
        stored = self._stored([known[trace_id] for trace_id in traces if trace_id in known])
        for trace_id, spans in traces.items():
            before = next(stored) if trace_id in known else None
            if before is None:
                structure = structure_of(spans)
                recorded = self._run(structure, known.get(trace_id, b""))
                self._write(recorded)
            else:
                structure, recorded = self._completed(before, spans)
            self._tell(structure, recorded)

    def _stored(self, run_ids: Sequence[bytes]) -> Iterator[RecordedRun | None]:
        """Yield runs out of the lake in the order given, many read together; None for one that is gone meanwhile."""
        runs = ManyRuns(self._lake)
        for first in range(0, len(run_ids), _READ_AT_ONCE):
            some = run_ids[first : first + _READ_AT_ONCE]
            found = runs.load(some)
            yield from (found.get(run_id) for run_id in some)

    def _completed(self, stored: RecordedRun, spans: list[Span]) -> tuple[Structure, RecordedRun]:
        """Return a run that is in the lake with what came now; it is written when that says anything new."""
        there = [without_facts(item.span) for item in stored.spans]
        contents = set(map(content_of, there))
        more = [span for span in spans if content_of(span) not in contents]
        structure = structure_of([*there, *more]) if more else structure_of(there)
        copies = [one for one in structure_of(spans).anomalies if one.code is AnomalyCode.DUPLICATE_SPAN]
        structure = structure._replace(anomalies=sorted({*structure.anomalies, *copies}, key=_place))
        recorded = self._run(structure, stored.run.run_id, _source_of(stored))
        before, after = _by_content(stored.losses), _by_content(recorded.losses)
        # What was noted when they were read is not told by the spans.
        after |= {key: loss for key, loss in before.items() if loss.what in _NOTED_ONLY}
        after |= {key: loss for key, loss in before.items() if loss.reason is LossReason.REDACTED}
        recorded = replace(recorded, losses=tuple(after.values()))
        if {content_of(item.span) for item in structure.spans} == contents and before.keys() == after.keys():
            self.landed.unchanged_runs += 1
        else:
            self._again.append(recorded)
            self.landed.completed_runs += 1
        return structure, recorded

    def _run(self, structure: Structure, run_id: bytes = b"", source: str = "") -> RecordedRun:
        if not source:
            trace_id = structure.spans[structure.root].span.trace_id
            source = self._source(trace_id) if callable(self._source) else self._source
        recorded = run_of_structure(structure, source, run_id)
        run = recorded.run
        noted = tuple(
            Loss(LossReason.DAMAGED, str(one.code), 1, one.detail, run.run_id, one.span_id, run.started_ns)
            for one in self._noted.get(run.trace_id, ())
        )
        return self._with_masked(replace(recorded, losses=(*recorded.losses, *noted)) if noted else recorded)

    def _with_masked(self, recorded: RecordedRun) -> RecordedRun:
        """Return a run that says in which of its spans something was redacted."""
        run = recorded.run
        masked = [
            Loss(LossReason.REDACTED, "texts of a span", 1, "", run.run_id, span_id, run.started_ns)
            for span_id in sorted(self._masked.get(run.trace_id, ()))
        ]
        return replace(recorded, losses=(*recorded.losses, *masked)) if masked else recorded

    def _tell(self, structure: Structure, recorded: RecordedRun) -> None:
        placed = structure.spans
        beginnings = [item.span for item in placed if item.parent is None]
        self.landed.span_count += len(placed)
        self.landed.anomalies += structure.anomalies
        self.landed.traces.append(
            LandedTrace(
                recorded.run.trace_id,
                recorded.run.run_id,
                len(placed),
                [span.span_id for span in beginnings if not span.parent_span_id],
                [span.span_id for span in beginnings if span.parent_span_id],
                max(item.depth for item in placed),
            )
        )

    # --- runs of ours ---

    def land_attempts(self, attempts: dict[AttemptKey, list[OwnSpan]]) -> None:
        """Take in each attempt, with what the lake has of it."""
        for key, parts in attempts.items():
            stored = next(
                (one for one in self._catalog.stored_attempts(key.run_id) if one.run.root_span_id == key.root_span_id),
                None,
            )
            if stored is None:
                recorded = self._with_masked(run_of_parts(parts))
                self._write(recorded)
            elif is_incomplete(stored):
                recorded = self._with_masked(with_parts(stored, parts))
                self._again.append(recorded)
                self.landed.completed_runs += 1
            else:
                recorded = stored
                self.landed.unchanged_runs += 1
            self.landed.span_count += len(recorded.spans)
            self.landed.traces.append(LandedTrace(recorded.run.trace_id, key.run_id, len(recorded.spans)))

    # --- out ---

    def _write(self, recorded: RecordedRun) -> None:
        self._new.append(recorded)
        self.landed.new_runs += 1
        if len(self._new) >= _RUNS_AT_ONCE:
            self._flush_new()

    def _flush_new(self) -> None:
        if self._new:
            write_runs(self._lake, self._new, segments=self._segments)
            self._new = []

    def flush(self) -> None:
        """Write what is not written yet."""
        self._flush_new()
        if self._again:
            replace_runs(self._lake, self._again, segments=self._segments)
            self._again = []


_NOTED_ONLY = frozenset(
    str(code)
    for code in (
        AnomalyCode.LONE_SURROGATE,
        AnomalyCode.ID_ENCODING,
        AnomalyCode.UNKNOWN_ENUM,
        AnomalyCode.DUPLICATE_ATTRIBUTE,
        AnomalyCode.INVALID_ID,
        AnomalyCode.UNREADABLE,
        AnomalyCode.CUT_ID,
        AnomalyCode.SPLIT_TRACE,
    )
)
"""What only a reader can tell, or the lake as a whole, not the spans themselves."""


def _source_of(recorded: RecordedRun) -> str:
    root = next((item.span for item in recorded.spans if item.span.span_id == recorded.run.root_span_id), None)
    return "" if root is None else str(root.attributes.get(semconv.IMPORT_SOURCE, ""))


def _window(traces: dict[bytes, list[Span]]) -> tuple[int | None, int | None]:
    """Return the first and the last begin of any span (Unix milliseconds); None where one has no time."""
    starts = [span.start_ns // 1_000_000 for spans in traces.values() for span in spans]
    return (min(starts), max(starts)) if all(starts) else (None, None)


def _by_content(losses: Sequence[Loss]) -> dict[tuple[str, bytes, str], Loss]:
    return {(loss.what, loss.span_id, loss.detail): loss for loss in losses}


def _place(anomaly: Anomaly) -> tuple[bytes, str, str]:
    return anomaly.span_id, str(anomaly.code), anomaly.detail
