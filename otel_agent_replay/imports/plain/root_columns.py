"""The run that a plain trace becomes -> columns of its root's row: facts of the run, its node, its digests. Pure.

What all such runs have alike is taken from a pattern that the code which stores any run makes: it is written down there
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from otel_agent_replay.imports.foreign_trace import run_of_spans
from otel_agent_replay.lake.arrays import array_of, struct_array
from otel_agent_replay.lake.exchange_column import StoredExchange, store_exchange
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


class PlainRun(NamedTuple):
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
    def status(self) -> str:
        """How it ended, as a word of `RunStatus`."""
        if self.failure is not None:
            return _ERROR
        return _OK if self.ended_ns else _PENDING


_OK, _ERROR, _PENDING = RunStatus.OK.value, RunStatus.ERROR.value, RunStatus.PENDING.value
_OUTCOMES = {
    _OK: OutcomeStatus.OK.value,
    _ERROR: OutcomeStatus.ERROR.value,
    _PENDING: OutcomeStatus.PENDING.value,
}


def _exchange(failure: Failure | None) -> StoredExchange:
    status = OutcomeStatus.OK if failure is None else OutcomeStatus.ERROR
    return store_exchange(None, Outcome(status, failure=failure))


_NO_EXCHANGE = _exchange(None)


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
        stored_path = {agent: store_path((f"{Kind.RUN}:{agent}#0",)) for agent in {run.agent for run in runs}}
        paths = [stored_path[run.agent] for run in runs]
        outcomes = [_OUTCOMES[run.status] for run in runs]
        exchanges = [_exchange(run.failure) if run.failure else _NO_EXCHANGE for run in runs]
        digests = list(map(self._digests, runs, paths, outcomes, exchanges))
        told: dict[str, Sequence[Any]] = {
            "node_name": [run.agent or None for run in runs],
            "path": paths,
            "sequence": [run.sequence for run in runs],
            "end_sequence": [run.end_sequence or None for run in runs],
            "outcome": outcomes,
            "exchange": [exchange.column for exchange in exchanges],
            "entry_check": [check for _, check in digests],
        }
        alike = {name: value for name, value in self._node.items() if name not in told}
        columns = {name: repeated(value, SPANS.field(name).type, len(runs)) for name, value in alike.items()}
        columns |= {name: pa.array(values, SPANS.field(name).type) for name, values in told.items()}
        columns["run"] = self._runs(runs, [digest for digest, _ in digests])
        return columns

    def _runs(self, runs: Sequence[PlainRun], digests: Sequence[bytes]) -> Any:
        told: dict[str, Sequence[Any]] = {
            "status": [run.status for run in runs],
            "started_ns": [run.started_ns for run in runs],
            "ended_ns": [run.ended_ns or None for run in runs],
            "service": [run.service or None for run in runs],
            "span_count": [run.span_count for run in runs],
            "manifest_digest": digests,
        }
        fields = {name: repeated(value, RUN.field(name).type, len(runs)) for name, value in self._facts.items()}
        fields |= {name: array_of(values, RUN.field(name).type) for name, values in told.items()}
        return struct_array(fields, RUN)

    def _digests(self, run: PlainRun, path: str, outcome: str, exchange: StoredExchange) -> tuple[bytes, bytes]:
        """Return the digest of a run's manifest, and the check of its only entry."""
        manifest, entry = self._manifest, self._manifest.entries[0]
        manifest.run_id, manifest.agent, manifest.status = run.run_id, text_to_wire(run.agent), run.status
        entry.path, entry.status = path, outcome
        entry.sequence, entry.end_sequence = run.sequence, run.end_sequence
        entry.exchange_digest = exchange.digest
        check = digest_of(entry.SerializeToString(deterministic=True))[:4]
        return digest_of(manifest.SerializeToString(deterministic=True)), check


def repeated(value: Any, kind: Any, count: int) -> Any:
    """Return an array of one value again and again."""
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
