"""Journal records of one attempt at a run -> a recorded run.

Works on what `record_index` found: reads the attempt's records once, joins begins and ends, builds paths, and reads in
full what model exchanges say. A run or crossing without an end is pending; nothing that is in the journal is left out
in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from opentelemetry.proto.resource.v1.resource_pb2 import Resource as OtlpResource

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_call import head_facts
from otel_agent_replay.export.model_facts import model_facts
from otel_agent_replay.export.record_index import RecordIndex, RunKey
from otel_agent_replay.export.run_records import Parts, RunRecords, gather
from otel_agent_replay.model import (
    AnswerSource,
    AttributeValue,
    Call,
    Chunk,
    Coverage,
    InstrumentationScope,
    Kind,
    Loss,
    LossReason,
    MediaType,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Resource,
    Run,
    RunStatus,
    SideEffect,
    Span,
)
from otel_agent_replay.otlp.spans import resource_from_otlp
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.text import whole_text
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_CLIENT, _INTERNAL = 3, 1  # OTLP SpanKind
_STATUS_UNSET, _STATUS_ERROR = 0, 2  # OTLP StatusCode
_OF_REQUEST = frozenset(
    {
        semconv.HTTP_METHOD,
        semconv.URL_FULL,
        semconv.SERVER_ADDRESS,
        semconv.SERVER_PORT,
        semconv.PROTOCOL,
        semconv.OPERATION_NAME,
        semconv.PROVIDER_NAME,
        semconv.VERSION_TOOL_SCHEMA,
    }
)
_OUTCOMES = {
    RunStatus.OK: OutcomeStatus.OK,
    RunStatus.ERROR: OutcomeStatus.ERROR,
    RunStatus.DEPARTED: OutcomeStatus.ERROR,
    RunStatus.PENDING: OutcomeStatus.PENDING,
    RunStatus.ABORTED: OutcomeStatus.ERROR,
}


Origins = Callable[[bytes], RecordedRun | None]


def recorded_run(
    index: RecordIndex, key: RunKey, origins: Origins = lambda _: None, *, attempt: int = 0, facts: bool = True
) -> RecordedRun:
    """Return the attempt `key`, whose begin lies in `index`. Raises ValueError when it does not.

    `origins(run_id)` gives a run that another one repeats, None when it cannot be had: a replay writes only what
    differs from its tape. `attempt` is the number to give it (0: as it was begun). Without `facts` nothing is read in
    bodies (tokens, cost, messages): a run that is only gone on with needs none of it.
    """
    records = gather(index, key)
    if attempt:
        records.begun.attempt = attempt
    origin = origins(records.begun.origin_run_id) if records.begun.origin_run_id else None
    return _Assembly(index, records, origin, facts=facts).run()


class _Assembly:
    """One run being put together."""

    def __init__(self, index: RecordIndex, records: RunRecords, origin: RecordedRun | None, *, facts: bool) -> None:
        self._with_bodies_read = facts
        self._bodies = index.bodies
        self._records = records
        self._origin = origin
        self._tape = {} if origin is None else {node.step: node for node in origin.nodes if node.step is not None}
        self._without_tape = 0
        self._partial_bodies: dict[bytes, bytes] = {}
        self._models: set[str] = set()
        self._tool_schemas: set[str] = set()
        header = records.header
        self._resource = _resource(header)
        self._scope = InstrumentationScope(semconv.SCOPE_NAME, header.recorder_version)
        self._root_path = (f"{Kind.RUN.value}:{records.begun.agent}#0",)
        self._paths: dict[bytes, tuple[str, ...]] = {records.begun.span_id: self._root_path}

    def run(self) -> RecordedRun:
        records = self._records
        begun = records.begun
        root_parts = records.nodes.pop(begun.span_id, Parts())
        nodes = sorted(
            ((parts.begun, parts) for parts in records.nodes.values() if parts.begun is not None),
            key=lambda pair: pair[0].sequence,
        )
        for span_id, parts in records.nodes.items():
            if parts.begun is None:
                self._without_begin(span_id, parts, root_parts)
        spans = [self._root(root_parts)]
        spans += [self._node(node_begun, parts) for node_begun, parts in nodes]
        ours = {recorded.span.span_id for recorded in spans}
        foreign = sorted(
            (span for span in records.foreign.values() if span.span_id not in ours),
            key=lambda span: (span.start_ns, span.span_id),
        )
        spans += [RecordedSpan(span) for span in foreign]
        if self._without_tape:
            detail = "what was answered as recorded is kept by digest only: the run it repeats is not in this lake"
            loss = Loss(LossReason.NOT_COVERED, "recorded answer", self._without_tape, detail, begun.run_id)
            records.losses.append(loss)
        return RecordedRun(self._facts(), tuple(spans), self._payload_reader(), tuple(records.losses))

    def _payload_reader(self) -> Callable[[bytes], bytes | None]:
        bodies, partial, origin = self._bodies, self._partial_bodies, self._origin

        def payload(digest: bytes) -> bytes | None:
            data = bodies.payload(digest)
            data = partial.get(digest) if data is None else data
            return origin.payload(digest) if data is None and origin is not None else data

        return payload

    def _without_begin(self, span_id: bytes, parts: Parts, root: Parts) -> None:
        """Count a node whose begin could not be written; its bulk reads go to the root, to be seen there."""
        run_id = self._records.begun.run_id
        detail = "its begin was never written"
        self._records.losses.append(Loss(LossReason.DROPPED, "node", 1, detail, run_id, span_id))
        root.reads.extend(parts.reads)

    # --- the run ---

    def _status(self) -> RunStatus:
        ended = self._records.ended
        return RunStatus.PENDING if ended is None else RunStatus(ended.status)

    def _facts(self) -> Run:
        begun, ended, header = self._records.begun, self._records.ended, self._records.header
        learnt = [*self._learnt(), *(() if ended is None else ended.versions)]
        coverage = () if ended is None else tuple(map(convert.coverage_from_wire, ended.coverage))
        return Run(
            run_id=begun.run_id,
            trace_id=begun.trace_id,
            root_span_id=begun.span_id,
            agent=begun.agent,
            started_ns=begun.time_ns,
            ended_ns=0 if ended is None else ended.time_ns,
            status=self._status(),
            thread_id=begun.thread_id,
            mode=begun.mode or "record",
            replay=begun.replay,
            origin_run_id=begun.origin_run_id,
            subject=begun.subject,
            service=header.service,
            process=header.writer,
            ordinal=begun.ordinal,
            versions=convert.versions_from_wire([*begun.versions, *learnt]),
            coverage=Coverage(coverage),
            hash_seed=begun.hash_seed,
            entry=begun.entry,
            format_version=header.format_version or 1,
            reader_version=header.reader_version or 1,
            quirks=tuple(header.quirks),
            attempt=begun.attempt or 1,
            fork_step=begun.fork_step,
        )

    def _learnt(self) -> list[wire.Version]:
        """Return the versions that the model calls tell: what was asked, and with which tools."""
        told = (("model_route", self._models), ("tool_schema", self._tool_schemas))
        return [wire.Version(name=name, value=whole_text(",".join(sorted(found)))) for name, found in told if found]

    def _root(self, parts: Parts) -> RecordedSpan:
        begun, ended = self._records.begun, self._records.ended
        status = self._status()
        attributes: dict[str, AttributeValue] = {
            semconv.OPERATION_NAME: "invoke_agent",
            semconv.AGENT_NAME: begun.agent,
            semconv.RUN_MODE: begun.mode or "record",
        }
        if begun.thread_id:
            attributes[semconv.CONVERSATION_ID] = begun.thread_id
        if begun.replay:
            attributes[semconv.REPLAY] = True
        if begun.origin_run_id:
            attributes[semconv.RUN_ORIGIN] = begun.origin_run_id.hex()
        result = failure = None
        if ended is not None:
            attributes[semconv.RUN_STATUS] = status.value
            attributes.update(convert.attributes_from_wire(ended.attributes))
            if ended.error_type:
                attributes[semconv.ERROR_TYPE] = ended.error_type
            result = self._payload(ended.output_digest, "", 0)
            failure = convert.failure_from_wire(ended.failure) if ended.HasField("failure") else None
        given = self._payload(begun.input_digest, "", 0)
        node = Node(
            run_id=begun.run_id,
            kind=Kind.RUN,
            name=begun.agent,
            path=self._root_path,
            sequence=1,
            end_sequence=0 if ended is None else ended.end_sequence,
            call=None if given is None else Call(Kind.RUN, begun.agent, SideEffect.NONE, given),
            outcome=Outcome(_OUTCOMES[status], result=result, failure=failure),
            reads=_in_order(parts.reads),
            key_id=begun.key_id,
        )
        span = self._span(
            begun.span_id,
            begun.parent_span_id,
            f"invoke_agent {begun.agent}",
            (begun.time_ns, 0 if ended is None else ended.time_ns),
            attributes,
        )
        if _OUTCOMES[status] is OutcomeStatus.ERROR and ended is not None:
            span = replace(span, status_code=_STATUS_ERROR, status_message=ended.error_message)
        return RecordedSpan(span, node)

    # --- a node ---

    def _node(self, begun: wire.NodeBegun, parts: Parts) -> RecordedSpan:
        kind = Kind(begun.kind)
        path = (*self._parent_path(begun), f"{begun.kind}:{begun.name}#{begun.occurrence}")
        self._paths[begun.span_id] = path
        taped = self._taped(begun, parts.ended)
        call = self._call(kind, begun, taped)
        outcome = self._outcome(parts, taped)
        attributes = {**convert.attributes_from_wire(begun.attributes), **outcome.attributes}
        if call is not None and call.head is not None and self._with_bodies_read:
            call, attributes = self._with_facts(call, outcome, attributes, begun)
        attributes.update(_ending(parts.ended, outcome))
        node = Node(
            run_id=begun.run_id,
            kind=kind,
            name=begun.name,
            path=path,
            sequence=begun.sequence,
            end_sequence=0 if parts.ended is None else parts.ended.end_sequence,
            step=begun.step or None,
            side_effect=SideEffect(begun.side_effect) if begun.side_effect else SideEffect.NONE,
            source=AnswerSource(begun.source) if begun.source else AnswerSource.LIVE,
            call=call,
            outcome=outcome,
            reads=_in_order(parts.reads),
            strand=begun.strand,
            origin_step=begun.origin_step or None,
            key_id=self._records.begun.key_id,
        )
        return RecordedSpan(self._node_span(kind, begun, parts.ended, outcome, attributes), node)

    def _node_span(
        self,
        kind: Kind,
        begun: wire.NodeBegun,
        ended: wire.NodeEnded | None,
        outcome: Outcome,
        attributes: dict[str, AttributeValue],
    ) -> Span:
        name = begun.span_name
        if not name and kind is Kind.MODEL:
            operation = attributes.get(semconv.OPERATION_NAME, begun.name)
            name = f"{operation} {attributes.get(semconv.REQUEST_MODEL, '')}".rstrip()
        pending = ended is None or outcome.status is OutcomeStatus.PENDING
        times = (begun.time_ns, 0 if ended is None or pending else ended.time_ns)
        span = self._span(begun.span_id, begun.parent_span_id, name or begun.name, times, attributes)
        if kind in (Kind.MODEL, Kind.HTTP):
            span = replace(span, kind=_CLIENT)
        if outcome.status is OutcomeStatus.ERROR and ended is not None:
            span = replace(span, status_code=_STATUS_ERROR, status_message=ended.error_message)
        return span

    def _with_facts(
        self, call: Call, outcome: Outcome, attributes: dict[str, AttributeValue], begun: wire.NodeBegun
    ) -> tuple[Call, dict[str, AttributeValue]]:
        """Read what an HTTP exchange says of itself: the recorder leaves that to us."""
        if call.head is not None:
            attributes = {**attributes, **head_facts(call.head.method, call.head.url)}
        if call.kind is Kind.MODEL:
            attributes.update(self._model_facts(call, outcome, begun))
        asked = {name: value for name, value in attributes.items() if _is_of_request(name)}
        for name, learnt in ((semconv.REQUEST_MODEL, self._models), (semconv.VERSION_TOOL_SCHEMA, self._tool_schemas)):
            value = attributes.get(name)
            if isinstance(value, str):
                learnt.add(value)
        return replace(call, attributes={**call.attributes, **asked}), attributes

    def _parent_path(self, begun: wire.NodeBegun) -> tuple[str, ...]:
        path = self._paths.get(begun.parent_node or begun.parent_span_id)
        if path is None:
            detail = "the begin of its parent was never written; it is shown below the root"
            run_id = self._records.begun.run_id
            self._records.losses.append(Loss(LossReason.DROPPED, "parent", 1, detail, run_id, begun.span_id))
            return self._root_path
        return path

    def _taped(self, begun: wire.NodeBegun, ended: wire.NodeEnded | None) -> Node | None:
        """Return the recorded node that one of a replay repeats, when its own records refer to it."""
        if not begun.as_recorded and (ended is None or not ended.as_recorded):
            return None
        taped = self._tape.get(begun.origin_step)
        self._without_tape += taped is None
        return taped

    def _call(self, kind: Kind, begun: wire.NodeBegun, taped: Node | None) -> Call | None:
        if begun.as_recorded and taped is not None and taped.call is not None:
            return taped.call
        exchange = begun.exchange
        request = self._payload(begun.request_digest, exchange.request_media_type, exchange.request_size)
        if request is None:
            return None
        return convert.call_from_wire(
            exchange,
            kind=kind,
            name=begun.name,
            side_effect=SideEffect(begun.side_effect) if begun.side_effect else SideEffect.NONE,
            request=request,
            attributes=convert.attributes_from_wire(begun.attributes),
        )

    def _outcome(self, parts: Parts, taped: Node | None) -> Outcome:
        ended = parts.ended
        if ended is None:
            return self._partial_outcome(Outcome(OutcomeStatus.PENDING), parts)
        if ended.as_recorded and taped is not None and taped.outcome is not None:
            return taped.outcome
        exchange = ended.exchange
        outcome = convert.outcome_from_wire(
            exchange,
            status=OutcomeStatus(ended.status),
            result=self._payload(ended.result_digest, exchange.result_media_type, exchange.result_size),
            attributes=convert.attributes_from_wire(ended.attributes),
        )
        if not parts.partials:
            return outcome
        if outcome.status is OutcomeStatus.PENDING and outcome.result is None:
            return self._partial_outcome(outcome, parts)
        if outcome.result is not None:  # a long body, all of which came in parts
            self._partial_bodies[outcome.result.digest] = b"".join(part.data for part in parts.partials)
        return replace(outcome, chunks=_joined(parts.partials))

    def _partial_outcome(self, outcome: Outcome, parts: Parts) -> Outcome:
        """Add what had come of a body when its crossing was cut off."""
        if not parts.partials:
            return outcome
        first = parts.partials[0]
        head = convert.response_head_from_wire(first.response) if first.HasField("response") else outcome.head
        media_type = next(
            (value for name, value in (() if head is None else head.headers) if name.lower() == "content-type"),
            MediaType.BYTES.value,
        )
        body = Payload.of(b"".join(part.data for part in parts.partials), media_type)
        self._partial_bodies[body.digest] = body.data or b""
        return replace(outcome, result=body, head=head, chunks=_joined(parts.partials))

    def _payload(self, digest: bytes, media_type: str, size: int) -> Payload | None:
        """Return the payload of a digest, its bytes left in the journal until they are asked for."""
        if not digest:
            return None
        known = self._bodies.size(digest)
        media_type = media_type or self._bodies.media_type(digest) or MediaType.VALUE.value
        return Payload(digest, None, media_type, size if known is None else known)

    def _model_facts(self, call: Call, outcome: Outcome, begun: wire.NodeBegun) -> dict[str, AttributeValue]:
        try:
            return model_facts(call, outcome, self._payload_reader(), start_ns=begun.time_ns)
        except Exception as error:
            detail = f"the exchange could not be read: {type(error).__name__}: {error}"
            loss = Loss(LossReason.INTERNAL, "model facts", 1, detail, begun.run_id, begun.span_id)
            self._records.losses.append(loss)
            return {semconv.MALFORMED: (detail,)}

    def _span(
        self,
        span_id: bytes,
        parent_span_id: bytes,
        name: str,
        times: tuple[int, int],
        attributes: dict[str, AttributeValue],
    ) -> Span:
        begun = self._records.begun
        return Span(
            trace_id=begun.trace_id,
            span_id=span_id,
            name=name,
            start_ns=times[0],
            end_ns=times[1],
            parent_span_id=parent_span_id,
            kind=_INTERNAL,
            status_code=_STATUS_UNSET,
            attributes=attributes,
            trace_state=begun.trace_state,
            flags=begun.flags,
            resource=self._resource,
            scope=self._scope,
        )


def _resource(header: wire.SegmentHeader) -> Resource:
    if header.resource:
        return resource_from_otlp(OtlpResource.FromString(header.resource))
    return Resource({semconv.SERVICE_NAME: header.service} if header.service else {})


def _ending(ended: wire.NodeEnded | None, outcome: Outcome) -> dict[str, AttributeValue]:
    """Return what a node's end puts on its span."""
    facts: dict[str, AttributeValue] = {}
    if outcome.head is not None:
        facts[semconv.HTTP_STATUS] = outcome.head.status
    if outcome.closed_early:
        facts[semconv.CLOSED_EARLY] = True
    if ended is not None and ended.error_type:
        facts[semconv.ERROR_TYPE] = ended.error_type
    return facts


def _is_of_request(name: str) -> bool:
    return name.startswith("gen_ai.request.") or name in _OF_REQUEST


def _in_order(reads: list[Read]) -> tuple[Read, ...]:
    return tuple(sorted(reads, key=lambda read: read.sequence))


def _joined(partials: Sequence[wire.PartialResult]) -> tuple[Chunk, ...]:
    """Return the chunks of all parts; each part's times begin with its distance from the call's begin."""
    return tuple(chunk for part in partials for chunk in convert.chunking_from_wire(part.chunking))
