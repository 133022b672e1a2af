"""Runs of ours as OTLP spans with all that makes them replayable, and back: nothing is lost on the way. Pure.

Each span is what every backend understands, and one attribute more, `agent_replay.record`: a `RunSpan` message
(`run_span.proto`) with the replay side, the bodies and, on the root, the facts of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from google.protobuf.message import DecodeError

from otel_agent_replay import semconv
from otel_agent_replay.errors import CodecError, DamagedRecording
from otel_agent_replay.model import (
    AnswerSource,
    Coverage,
    Fidelity,
    Kind,
    Loss,
    LossReason,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    SideEffect,
    Span,
)
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.text import text_from_wire, text_to_wire
from otel_agent_replay.wire.v1 import run_span_pb2


class AttemptKey(NamedTuple):
    """Which attempt at which run a span belongs to."""

    run_id: bytes
    root_trace_id: bytes
    root_span_id: bytes


# --- out ---


def spans_of_run(recorded: RecordedRun) -> Iterator[Span]:
    """Yield the spans of one attempt at a run, in order, each with all that was recorded of it.

    Of a run with several attempts, or of a fork, give each attempt as it was stored (`Lake.stored_attempts`).
    """
    run = recorded.run
    for position, item in enumerate(recorded.spans):
        is_root = item.span.span_id == run.root_span_id and item.span.trace_id == run.trace_id
        message = run_span_pb2.RunSpan(
            run_id=run.run_id,
            attempt=run.attempt,
            root_trace_id=run.trace_id,
            root_span_id=run.root_span_id,
            position=position,
            run_id_added=semconv.RUN_ID not in item.span.attributes,
        )
        if item.node is not None:
            _node_to_wire(item.node, recorded, message.node)
        if is_root:
            _run_to_wire(recorded, message.run)
        attributes = dict(item.span.attributes)
        attributes.setdefault(semconv.RUN_ID, run.run_id.hex())
        attributes[semconv.RECORD] = message.SerializeToString()
        yield replace(item.span, attributes=attributes)


def _node_to_wire(node: Node, recorded: RecordedRun, message: run_span_pb2.NodeFacts) -> None:
    message.run_id = node.run_id
    message.kind, message.name = node.kind.value, text_to_wire(node.name)
    message.path.extend(map(text_to_wire, node.path))
    message.sequence, message.end_sequence = node.sequence, node.end_sequence
    if node.step is not None:
        message.step = node.step
    message.side_effect, message.source = node.side_effect.value, node.source.value
    message.fidelity, message.strand = node.fidelity.value, text_to_wire(node.strand)
    if node.origin_step is not None:
        message.origin_step = node.origin_step
    message.key_id = text_to_wire(node.key_id)
    call, outcome = node.call, node.outcome
    if call is not None:
        convert.call_to_wire(call, message.exchange)
        message.call_attributes.extend(convert.attributes_to_wire(call.attributes))
        message.request_digest = call.request.digest
        body = recorded.bytes_of(call.request)
        if body is not None:
            message.request_body = body
    if outcome is not None:
        convert.outcome_to_wire(outcome, message.exchange)
        message.outcome = outcome.status.value
        message.outcome_attributes.extend(convert.attributes_to_wire(outcome.attributes))
        if outcome.result is not None:
            message.result_digest = outcome.result.digest
            body = recorded.bytes_of(outcome.result)
            if body is not None:
                message.result_body = body
    message.reads.extend(map(convert.read_to_wire, node.reads))


def _run_to_wire(recorded: RecordedRun, message: run_span_pb2.RunFacts) -> None:
    run = recorded.run
    begun, ended = message.begun, message.ended
    begun.agent, begun.entry = text_to_wire(run.agent), text_to_wire(run.entry)
    begun.time_ns, begun.thread_id = run.started_ns, text_to_wire(run.thread_id)
    begun.mode, begun.replay = text_to_wire(run.mode), run.replay
    begun.origin_run_id, begun.fork_step = run.origin_run_id, run.fork_step
    begun.subject, begun.ordinal = text_to_wire(run.subject), run.ordinal
    begun.versions.extend(convert.versions_to_wire(run.versions))
    begun.hash_seed = text_to_wire(run.hash_seed)
    ended.status, ended.time_ns = run.status.value, run.ended_ns
    ended.coverage.extend(map(convert.coverage_to_wire, run.coverage.entries))
    message.service, message.process = text_to_wire(run.service), text_to_wire(run.process)
    message.format_version, message.reader_version = run.format_version, run.reader_version
    message.quirks.extend(map(text_to_wire, run.quirks))
    message.losses.extend(map(convert.loss_to_wire, recorded.losses))
    message.span_count = len(recorded.spans)


# --- in ---


class OwnSpan(NamedTuple):
    """A span of a run of ours as it was before it was sent. `facts` are those of the run, on its root alone."""

    key: AttemptKey
    attempt: int
    position: int
    recorded: RecordedSpan
    bodies: Mapping[bytes, bytes]
    facts: run_span_pb2.RunFacts | None


def is_own(span: Span) -> bool:
    """Whether a span says that it belongs to a run of ours, with all that was recorded of it."""
    return isinstance(span.attributes.get(semconv.RECORD), bytes)


def own_span(span: Span) -> OwnSpan:
    """Return a span that `is_own` as it was recorded. Raises DamagedRecording when its record cannot be read."""
    try:
        message = run_span_pb2.RunSpan.FromString(span.attributes[semconv.RECORD])
        left_out = {semconv.RECORD, semconv.RUN_ID} if message.run_id_added else {semconv.RECORD}
        attributes = {name: value for name, value in span.attributes.items() if name not in left_out}
        bodies: dict[bytes, bytes] = {}
        node = _node_from_wire(message.node, bodies) if message.HasField("node") else None
    except (DecodeError, CodecError, ValueError) as error:
        raise DamagedRecording(f"the record of span {span.span_id.hex()} cannot be read: {error}") from error
    if len(message.run_id) != 16 or not message.root_span_id:
        raise DamagedRecording(f"the record of span {span.span_id.hex()} names no run")
    return OwnSpan(
        AttemptKey(message.run_id, message.root_trace_id, message.root_span_id),
        message.attempt or 1,
        message.position,
        RecordedSpan(replace(span, attributes=attributes), node),
        bodies,
        message.run if message.HasField("run") else None,
    )


def run_of_own_spans(spans: Iterable[Span]) -> RecordedRun:
    """Return the attempt that spans of `spans_of_run` tell, in any order; copies of a span count once.

    What did not come is a loss. Raises DamagedRecording for spans of several attempts, of none, or unreadable ones.
    """
    return run_of_parts([own_span(span) for span in spans])


def run_of_parts(parts: Iterable[OwnSpan]) -> RecordedRun:
    """Return the attempt whose spans are given; see `run_of_own_spans`."""
    by_place: dict[tuple[int, bytes], OwnSpan] = {}
    for part in parts:
        place = (part.position, part.recorded.span.span_id)
        known = by_place.get(place)
        if known is None or _has_ended(part) > _has_ended(known):
            by_place[place] = part
    ordered = [by_place[place] for place in sorted(by_place)]
    keys = {part.key for part in ordered}
    if len(keys) != 1:
        raise DamagedRecording(f"{len(ordered)} spans tell of {len(keys)} attempts at runs: one is wanted")
    key = keys.pop()
    bodies: dict[bytes, bytes] = {}
    for part in ordered:
        bodies.update(part.bodies)
    spans = [part.recorded for part in ordered]
    facts = next((part.facts for part in ordered if part.facts is not None), None)
    if facts is None:
        return _without_root(key, ordered, spans, bodies)
    losses = tuple(convert.loss_from_wire(loss) for loss in facts.losses)
    run = _run_from_wire(facts, key, ordered[0].attempt)
    return RecordedRun(run, tuple(spans), bodies.get, (*losses, *_missing(key, facts.span_count - len(spans))))


def _has_ended(part: OwnSpan) -> bool:
    return bool(part.recorded.span.end_ns)


def _missing(key: AttemptKey, count: int) -> tuple[Loss, ...]:
    if count <= 0:
        return ()
    return (Loss(LossReason.DROPPED, NOT_RECEIVED, count, "sent, but they did not come", key.run_id),)


def is_incomplete(recorded: RecordedRun) -> bool:
    """Whether spans of it did not come, or it never ended: what comes later may complete it."""
    return recorded.run.status is RunStatus.PENDING or any(loss.what == NOT_RECEIVED for loss in recorded.losses)


def with_parts(recorded: RecordedRun, parts: Iterable[OwnSpan]) -> RecordedRun:
    """Return an attempt of which not all had come, with spans that came later."""
    came = run_of_parts(parts)
    run = recorded.run
    key = AttemptKey(run.run_id, run.trace_id, run.root_span_id)
    spans: dict[tuple[bytes, bytes], RecordedSpan] = {}
    for item in (*recorded.spans, *came.spans):
        place = (item.span.trace_id, item.span.span_id)
        known = spans.get(place)
        if known is None or (item.span.end_ns and not known.span.end_ns):
            spans[place] = item
    # The facts of the run, and how many spans it has, are told by its root.
    told = came if run.status is RunStatus.PENDING and not _stands_in(came) else recorded
    missing = sum(loss.count for loss in told.losses if loss.what == NOT_RECEIVED)
    losses = tuple(told.losses)
    if not _stands_in(told):
        losses = tuple(loss for loss in losses if loss.what != NOT_RECEIVED)
        losses += _missing(key, len(told.spans) + missing - len(spans))
    ordered = sorted(spans.values(), key=_in_run)
    return RecordedRun(told.run, tuple(ordered), _either(came.payload, recorded.payload), losses)


def _stands_in(recorded: RecordedRun) -> bool:
    root = recorded.run.root_span_id
    return any(loss.what == NOT_RECEIVED and loss.span_id == root for loss in recorded.losses)


def _in_run(item: RecordedSpan) -> tuple[bool, int, bytes]:
    span = item.span
    return item.node is None, span.start_ns if item.node is None else item.node.sequence, span.span_id


def _either(
    first: Callable[[bytes], bytes | None], second: Callable[[bytes], bytes | None]
) -> Callable[[bytes], bytes | None]:
    def payload(digest: bytes) -> bytes | None:
        data = first(digest)
        return second(digest) if data is None else data

    return payload


NOT_RECEIVED = "span not received"
"""What the loss of spans on their way is called."""


def _without_root(
    key: AttemptKey, parts: list[OwnSpan], spans: list[RecordedSpan], bodies: dict[bytes, bytes]
) -> RecordedRun:
    """Return the run of spans whose root has not come: a stand-in is its root, and a loss says so."""
    begun = min(item.span.start_ns for item in spans)
    first = next((part.recorded for part in parts if part.recorded.node is not None), None)
    head = first.node.path[0] if first is not None and first.node is not None else f"{Kind.RUN}:#0"
    name = head.partition(":")[2].rpartition("#")[0]
    root = Span(key.root_trace_id, key.root_span_id, f"invoke_agent {name}", begun, resource=spans[0].span.resource)
    node = Node(key.run_id, Kind.RUN, name, (head,), 1, outcome=Outcome(OutcomeStatus.PENDING))
    loss = Loss(LossReason.DROPPED, NOT_RECEIVED, 1, "the root of the run did not come", key.run_id, key.root_span_id)
    run = Run(key.run_id, key.root_trace_id, key.root_span_id, name, begun, attempt=parts[0].attempt)
    return RecordedRun(run, (RecordedSpan(root, node), *spans), bodies.get, (loss,))


def _node_from_wire(message: run_span_pb2.NodeFacts, bodies: dict[bytes, bytes]) -> Node:
    kind, name, side_effect = Kind(message.kind), text_from_wire(message.name), SideEffect(message.side_effect)
    exchange = message.exchange
    if message.HasField("request_body"):
        bodies[message.request_digest] = message.request_body
    if message.HasField("result_body"):
        bodies[message.result_digest] = message.result_body
    request = _payload(message.request_digest, exchange.request_media_type, exchange.request_size)
    result = _payload(message.result_digest, exchange.result_media_type, exchange.result_size)
    call = outcome = None
    if request is not None:
        attributes = convert.attributes_from_wire(message.call_attributes)
        call = convert.call_from_wire(
            exchange, kind=kind, name=name, side_effect=side_effect, request=request, attributes=attributes
        )
    if message.outcome:
        outcome = convert.outcome_from_wire(
            exchange,
            status=OutcomeStatus(message.outcome),
            result=result,
            attributes=convert.attributes_from_wire(message.outcome_attributes),
        )
    return Node(
        run_id=message.run_id,
        kind=kind,
        name=name,
        path=tuple(map(text_from_wire, message.path)),
        sequence=message.sequence,
        end_sequence=message.end_sequence,
        step=message.step if message.HasField("step") else None,
        side_effect=side_effect,
        source=AnswerSource(message.source),
        fidelity=Fidelity(message.fidelity),
        call=call,
        outcome=outcome,
        reads=tuple(map(convert.read_from_wire, message.reads)),
        strand=text_from_wire(message.strand),
        origin_step=message.origin_step if message.HasField("origin_step") else None,
        key_id=text_from_wire(message.key_id),
    )


def _payload(digest: bytes, media_type: str, size: int) -> Payload | None:
    return Payload(digest, None, media_type, size) if digest else None


def _run_from_wire(facts: run_span_pb2.RunFacts, key: AttemptKey, attempt: int) -> Run:
    begun, ended = facts.begun, facts.ended
    return Run(
        run_id=key.run_id,
        trace_id=key.root_trace_id,
        root_span_id=key.root_span_id,
        agent=text_from_wire(begun.agent),
        started_ns=begun.time_ns,
        ended_ns=ended.time_ns,
        status=RunStatus(ended.status),
        thread_id=text_from_wire(begun.thread_id),
        mode=text_from_wire(begun.mode),
        replay=begun.replay,
        origin_run_id=begun.origin_run_id,
        subject=text_from_wire(begun.subject),
        service=text_from_wire(facts.service),
        process=text_from_wire(facts.process),
        ordinal=begun.ordinal,
        versions=convert.versions_from_wire(begun.versions),
        coverage=Coverage(tuple(map(convert.coverage_from_wire, ended.coverage))),
        hash_seed=text_from_wire(begun.hash_seed),
        entry=text_from_wire(begun.entry),
        format_version=facts.format_version,
        reader_version=facts.reader_version,
        quirks=tuple(map(text_from_wire, facts.quirks)),
        attempt=attempt,
        fork_step=begun.fork_step,
    )


__all__ = [
    "NOT_RECEIVED",
    "AttemptKey",
    "OwnSpan",
    "is_incomplete",
    "is_own",
    "own_span",
    "run_of_own_spans",
    "run_of_parts",
    "spans_of_run",
    "with_parts",
]
