"""Runs written straight into a journal, record by record, with no recorder between: what export tests are made of."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.record_index import RunKey
from otel_agent_replay.model import (
    Call,
    HttpRequestHead,
    HttpResponseHead,
    InstrumentationScope,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    Resource,
    SideEffect,
    Span,
    new_run_id,
    new_span_id,
    new_trace_id,
)
from otel_agent_replay.otlp.spans import resource_spans_of
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

NOW_NS = 1_796_000_000_000_000_000


def value(anything: Any) -> Payload:
    return Payload.of(json.dumps(anything).encode(), MediaType.VALUE.value)


class JournalRun:
    """One attempt at a run in a journal. Each method writes at once; times and sequences count up from its start.

    A later attempt, or a fork, says `first_sequence` and `first_step`, and its number or origin among the facts.
    """

    def __init__(
        self,
        journal: Journal,
        agent: str = "desk",
        *,
        run_id: bytes | None = None,
        first_sequence: int = 1,
        first_step: int = 1,
        **facts: Any,
    ) -> None:
        self.journal = journal
        self.agent = agent
        self.run_id = run_id or new_run_id(NOW_NS // 1_000_000)
        self.trace_id = new_trace_id()
        self.root = new_span_id()
        self.history = BodyHistory()
        self._sequence = itertools.count(first_sequence)
        self._step = itertools.count(first_step)
        self._occurrences: dict[tuple[bytes, str, str], int] = {}
        journal.begin_run(self.run_id)
        given = facts.pop("given", None)
        begun = wire.RunBegun(
            run_id=self.run_id,
            trace_id=self.trace_id,
            span_id=self.root,
            agent=agent,
            time_ns=NOW_NS + next(self._sequence),
            **{"mode": "record", **facts},
        )
        bodies = []
        if given is not None:
            begun.input_digest = given.digest
            bodies = self.bodies(given)
        self.ok = journal.append(*bodies, wire.Record(run_begun=begun))

    @property
    def key(self) -> RunKey:
        """What names this attempt in the journal."""
        return RunKey(self.run_id, self.root)

    def bodies(self, *payloads: Payload) -> list[wire.Record]:
        found = [self.journal.body(payload, self.history) for payload in payloads]
        return [record for record in found if record is not None]

    def begin(
        self,
        name: str = "refund",
        request: Payload | None = None,
        *,
        kind: Kind = Kind.TOOL,
        parent: bytes = b"",
        head: HttpRequestHead | None = None,
        attributes: dict[str, Any] | None = None,
        side_effect: SideEffect = SideEffect.WRITE,
        occurrence: int | None = None,
        step: int = 0,
        source: str = "live",
    ) -> bytes:
        span_id = new_span_id()
        parent = parent or self.root
        key = (parent, kind.value, name)
        if occurrence is None:
            occurrence = self._occurrences.get(key, -1) + 1
        self._occurrences[key] = occurrence
        sequence = next(self._sequence)
        begun = wire.NodeBegun(
            run_id=self.run_id,
            span_id=span_id,
            parent_span_id=parent,
            parent_node=parent,
            kind=kind.value,
            name=name,
            occurrence=occurrence,
            sequence=sequence,
            time_ns=NOW_NS + sequence,
            side_effect=side_effect.value,
            source=source,
            span_name=f"{kind.value} {name}",
        )
        bodies = []
        if kind.is_crossing:
            begun.step = step or next(self._step)
            request = request or value({"args": [name], "kwargs": {}})
            call = Call(kind, name, side_effect, request, head, attributes or {})
            begun.request_digest = request.digest
            begun.exchange.CopyFrom(convert.call_to_wire(call))
            begun.attributes.extend(convert.attributes_to_wire(call.attributes))
            bodies = self.bodies(request)
        self.journal.append(*bodies, wire.Record(node_begun=begun))
        return span_id

    def end(
        self,
        span_id: bytes,
        result: Payload | None = None,
        *,
        status: OutcomeStatus = OutcomeStatus.OK,
        head: HttpResponseHead | None = None,
        **outcome: Any,
    ) -> bool:
        sequence = next(self._sequence)
        ended = wire.NodeEnded(
            run_id=self.run_id,
            span_id=span_id,
            end_sequence=sequence,
            time_ns=NOW_NS + sequence,
            status=status.value,
        )
        ended.exchange.CopyFrom(convert.outcome_to_wire(Outcome(status, result=result, head=head, **outcome)))
        bodies = []
        if result is not None:
            ended.result_digest = result.digest
            bodies = self.bodies(result)
        return self.journal.append(*bodies, wire.Record(node_ended=ended))

    def tool(self, name: str = "refund", result: Any = None, request: Payload | None = None, **options: Any) -> bytes:
        span_id = self.begin(name, request, **options)
        self.end(span_id, value(result))
        return span_id

    def reads(self, reads: Iterable[tuple[Kind, str, Any]], span_id: bytes = b"") -> None:
        messages = [convert.read_to_wire(Read(*read, sequence=next(self._sequence))) for read in reads]
        record = wire.Reads(run_id=self.run_id, span_id=span_id or self.root, reads=messages)
        self.journal.append(wire.Record(reads=record))

    def finish(self, status: str = "ok", output: Payload | None = None, **facts: Any) -> bool:
        sequence = next(self._sequence)
        ended = wire.RunEnded(
            run_id=self.run_id, time_ns=NOW_NS + sequence, status=status, end_sequence=sequence, **facts
        )
        bodies = []
        if output is not None:
            ended.output_digest = output.digest
            bodies = self.bodies(output)
        written = self.journal.append(*bodies, wire.Record(run_ended=ended))
        self.journal.end_run(self.run_id)
        return written


def foreign(name: str, *, run_id: bytes = b"", trace_id: bytes | None = None, parent: bytes = b"") -> wire.Record:
    """Return the record of a span that another library emitted."""
    span = Span(
        trace_id=trace_id or new_trace_id(),
        span_id=new_span_id(),
        name=name,
        start_ns=NOW_NS + 5,
        end_ns=NOW_NS + 9,
        parent_span_id=parent,
        attributes={"db.system": "postgresql"},
        resource=Resource({"service.name": "shop"}),
        scope=InstrumentationScope("other.library", "1"),
    )
    data = resource_spans_of(span).SerializeToString()
    return wire.Record(foreign=wire.ForeignSpan(run_id=run_id, resource_spans=data))
