"""The run that a plain trace becomes -> columns of its root's row: facts of the run, its node, its digests. Pure.

What all such runs have alike is taken from a pattern that the code which stores any run makes: it is written down there
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from otel_agent_replay.imports.foreign_trace import run_of_spans
from otel_agent_replay.lake.arrays import array_of, struct_array
from otel_agent_replay.lake.exchange_column import store_exchange
from otel_agent_replay.lake.manifest import manifest_of
from otel_agent_replay.lake.node_columns import store_node_columns
from otel_agent_replay.lake.path_column import store_path
from otel_agent_replay.lake.run_row import run_totals, store_run
from otel_agent_replay.lake.schema import RUN, SPANS
from otel_agent_replay.model import (
    AttributeValue,
    Failure,
    Kind,
    Outcome,
    OutcomeStatus,
    RunStatus,
    Span,
    digest_of,
)
from otel_agent_replay.wire.text import text_to_wire


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A run without a step: a trace that is no agent's. `trace` numbers it among those that came with it.

    `agent` is the name of its root, `sequence` and `end_sequence` number its begin and end. `failure` tells of its
    error; None: it did not fail. Times are Unix nanoseconds, `ended_ns` 0 for never.
    """

    trace: int
    trace_id: bytes
    run_id: bytes
    agent: str
    service: str
    started_ns: int
    ended_ns: int
    span_count: int
    sequence: int
    end_sequence: int
    failure: Failure | None = None

    @property
    def status(self) -> RunStatus:
        """How it ended."""
        if self.failure is not None:
            return RunStatus.ERROR
        return RunStatus.OK if self.ended_ns else RunStatus.PENDING


_OUTCOMES = {
    RunStatus.OK: OutcomeStatus.OK,
    RunStatus.ERROR: OutcomeStatus.ERROR,
    RunStatus.PENDING: OutcomeStatus.PENDING,
}


class RootPattern:
    """What all plain runs of one source have alike; `added` are the attributes that their root is given."""

    def __init__(self, source: str) -> None:
        recorded = run_of_spans([Span(bytes(15) + b"\1", bytes(7) + b"\1", "", 1, 2)], source)
        (root,) = recorded.spans
        if root.node is None:
            raise TypeError("the root of a trace is the node of its run")
        self.added: Mapping[str, AttributeValue] = root.span.attributes
        self._facts = store_run(recorded.run, root.span) | run_totals(recorded)
        self._node = {name: column[0] for name, column in store_node_columns([root.node], [root.span])[0].items()}
        self._manifest, _ = manifest_of(recorded)

    def columns(self, runs: Sequence[PlainRun]) -> dict[str, Any]:
        """Return the columns of the roots of runs that only roots have."""
        count = len(runs)
        paths = [(f"{Kind.RUN}:{run.agent}#0",) for run in runs]
        outcomes = [_OUTCOMES[run.status] for run in runs]
        exchanges = [store_exchange(None, Outcome(_OUTCOMES[run.status], failure=run.failure)) for run in runs]
        stored_paths = list(map(store_path, paths))
        digests = [
            self._digests(run, path, str(outcome), exchange.digest)
            for run, path, outcome, exchange in zip(runs, stored_paths, outcomes, exchanges, strict=True)
        ]
        told: dict[str, Sequence[Any]] = {
            "node_name": [run.agent or None for run in runs],
            "path": stored_paths,
            "sequence": [run.sequence for run in runs],
            "end_sequence": [run.end_sequence or None for run in runs],
            "outcome": list(map(str, outcomes)),
            "exchange": [exchange.column for exchange in exchanges],
            "entry_check": [check for _, check in digests],
        }
        columns = {
            name: repeated(value, SPANS.field(name).type, count)
            for name, value in self._node.items()
            if name not in told
        }
        columns |= {name: pa.array(values, SPANS.field(name).type) for name, values in told.items()}
        columns["run"] = self._runs(runs, [digest for digest, _ in digests])
        return columns

    def _runs(self, runs: Sequence[PlainRun], digests: Sequence[bytes]) -> Any:
        told: dict[str, Sequence[Any]] = {
            "status": [str(run.status) for run in runs],
            "started_ns": [run.started_ns for run in runs],
            "ended_ns": [run.ended_ns or None for run in runs],
            "service": [run.service or None for run in runs],
            "span_count": [run.span_count for run in runs],
            "manifest_digest": digests,
        }
        fields = {name: repeated(value, RUN.field(name).type, len(runs)) for name, value in self._facts.items()}
        return struct_array(
            fields | {name: array_of(values, RUN.field(name).type) for name, values in told.items()}, RUN
        )

    def _digests(self, run: PlainRun, path: str, outcome: str, exchange: bytes) -> tuple[bytes, bytes]:
        """Return the digest of a run's manifest, and the check of its only entry."""
        manifest, entry = self._manifest, self._manifest.entries[0]
        manifest.run_id, manifest.agent, manifest.status = run.run_id, text_to_wire(run.agent), str(run.status)
        entry.path, entry.status = path, outcome
        entry.sequence, entry.end_sequence = run.sequence, run.end_sequence
        entry.exchange_digest = exchange
        check = digest_of(entry.SerializeToString(deterministic=True))[:4]
        return digest_of(manifest.SerializeToString(deterministic=True)), check


def repeated(value: Any, kind: Any, count: int) -> Any:
    """Return an array of one value again and again."""
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
