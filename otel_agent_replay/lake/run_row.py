"""A run's facts <-> the `run` struct and the columns of its root row, both directions beside each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.lake.columns import Columns, bounds
from otel_agent_replay.lake.promoted import fitting
from otel_agent_replay.model import (
    AttributeValue,
    Coverage,
    CoverageEntry,
    Kind,
    LossReason,
    Node,
    OutcomeStatus,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    Span,
)
from otel_agent_replay.wire.convert import versions_from_wire, versions_to_wire
from otel_agent_replay.wire.text import text_from_wire as load_text
from otel_agent_replay.wire.text import text_to_wire as store_text
from otel_agent_replay.wire.v1.journal_pb2 import Version


def store_run(run: Run, root: Span) -> dict[str, Any]:
    """Return the `run` struct; the columns of its root span say the rest."""
    if run.trace_id != root.trace_id:
        raise ValueError(f"run {run.run_id.hex()} and its root span lie in different traces")
    return {
        "status": str(run.status),
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns or None,
        "thread_id": store_text(run.thread_id) or None,
        "mode": store_text(run.mode) or None,
        "replay": run.replay,
        "origin_run_id": run.origin_run_id or None,
        "fork_step": run.fork_step or None,
        "subject": store_text(run.subject) or None,
        "service": store_text(run.service) or None,
        "process": store_text(run.process) or None,
        "ordinal": run.ordinal,
        "versions": [(version.name, version.value) for version in versions_to_wire(run.versions)] or None,
        "coverage": [
            {"what": store_text(entry.what), "state": store_text(entry.state), "detail": store_text(entry.detail)}
            for entry in run.coverage.entries
        ]
        or None,
        "hash_seed": store_text(run.hash_seed) or None,
        "entry": store_text(run.entry) or None,
        "format_version": run.format_version,
        "reader_version": run.reader_version,
        "quirks": [store_text(quirk) for quirk in run.quirks] or None,
    }


def load_run(root: Mapping[str, Any], coverage: Sequence[CoverageEntry] | None = None) -> Run:
    """Return the run whose root row is given; `coverage` is its coverage where the row does not tell."""
    stored = root["run"]

    def text(name: str) -> str:
        return "" if stored[name] is None else load_text(stored[name])

    return Run(
        run_id=root["run_id"],
        trace_id=root["trace_id"],
        root_span_id=root["span_id"],
        agent="" if root["agent"] is None else load_text(root["agent"]),
        started_ns=stored["started_ns"],
        ended_ns=stored["ended_ns"] or 0,
        status=RunStatus(stored["status"]),
        thread_id=text("thread_id"),
        mode=text("mode"),
        replay=stored["replay"],
        origin_run_id=stored["origin_run_id"] or b"",
        fork_step=stored["fork_step"] or 0,
        subject=text("subject"),
        service=text("service"),
        process=text("process"),
        ordinal=stored["ordinal"],
        versions=versions_from_wire(Version(name=name, value=value) for name, value in stored["versions"] or ()),
        coverage=Coverage(_coverage(stored["coverage"]) if coverage is None else coverage),
        hash_seed=text("hash_seed"),
        entry=text("entry"),
        format_version=stored["format_version"],
        reader_version=stored["reader_version"],
        quirks=tuple(load_text(quirk) for quirk in stored["quirks"] or ()),
        attempt=root["attempt"] or 1,
    )


def _coverage(stored: Sequence[Mapping[str, str]] | None) -> tuple[CoverageEntry, ...]:
    return tuple(
        CoverageEntry(load_text(entry["what"]), load_text(entry["state"]), load_text(entry["detail"]))
        for entry in stored or ()
    )


def load_coverage(columns: Columns) -> list[tuple[CoverageEntry, ...]]:
    """Return the coverage of the runs of all rows; nothing of one that is no root."""
    runs = columns.array("run")
    array = None if runs is None else Columns(runs).array("coverage")
    if array is None:
        return [()] * len(columns)
    told = Columns(array.values)
    entries = list(map(CoverageEntry, told.texts("what"), told.texts("state"), told.texts("detail")))
    return [tuple(entries[first:last]) for first, last in bounds(array)]


def run_totals(recorded: RecordedRun) -> dict[str, Any]:
    """Return the counts and sums of an attempt that lists of runs show; a sum is None when no call told its part."""
    members = [(span, node) for span, node in map(_parts, recorded.spans) if node is not None]
    models = [span.attributes for span, node in members if node.kind is Kind.MODEL]
    steps = [node.step for _, node in members if node.step is not None]
    return {
        "span_count": len(recorded.spans),
        "step_count": len(steps),
        "last_step": max(steps, default=None),
        "error_count": sum(
            node.outcome is not None and node.outcome.status is OutcomeStatus.ERROR
            for span, node in members
            if span.span_id != recorded.run.root_span_id
        ),
        "model_call_count": len(models),
        "input_tokens": _sum(models, semconv.USAGE_INPUT_TOKENS),
        "output_tokens": _sum(models, semconv.USAGE_OUTPUT_TOKENS),
        "cost_usd": _sum(models, semconv.COST_USD),
        "loss_count": sum(loss.count for loss in recorded.losses if loss.reason is not LossReason.DAMAGED),
    }


def _parts(recorded: RecordedSpan) -> tuple[Span, Node | None]:
    return recorded.span, recorded.node


def _sum(models: Sequence[Mapping[str, AttributeValue]], key: str) -> Any:
    told = [fitting(key, attributes[key]) for attributes in models if key in attributes]
    known = [value for value in told if value is not None]
    return sum(known) if known else None
