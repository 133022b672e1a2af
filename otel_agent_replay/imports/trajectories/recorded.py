"""A trajectory -> a recorded run: turns become steps with what was asked and answered. Pure.

Contents pass the redaction before their digests are made. Requests repeat all messages before them: each is put
together when it is asked for, instead of being held. A time that the file does not tell is no time: such a step has the
start of its run, and no end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.imports.recording import ImportedRun, Recording, run_id_of, span_id_of, trace_id_of
from otel_agent_replay.imports.trajectories.request_bodies import RequestBodies, written
from otel_agent_replay.imports.trajectories.trajectory import (
    ModelTurn,
    ScopeTurn,
    ToolTurn,
    Trajectory,
    Turn,
    UserTurn,
)
from otel_agent_replay.model import (
    AttributeValue,
    Call,
    Coverage,
    CoverageEntry,
    Failure,
    Fidelity,
    InstrumentationScope,
    Kind,
    Label,
    MediaType,
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
    Versions,
)
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols import PROTOCOLS

_JSON = MediaType.JSON.value
_SCOPE = InstrumentationScope(semconv.SCOPE_NAME)
_UNTIMED = "the file has no times: steps are in order, when they ran and how long they took is not known"
_MESSAGES = "messages as the file has them, not the provider's own bytes"


def recording_of(trajectory: Trajectory) -> Recording:
    """Return the recording of a trajectory."""
    return Recording(
        trace_id_of(trajectory.format, trajectory.identity),
        lambda written_ns, redaction: run_of_trajectory(trajectory, written_ns=written_ns, redaction=redaction),
    )


def run_of_trajectory(trajectory: Trajectory, *, written_ns: int, redaction: Redaction) -> ImportedRun:
    """Return the run of a trajectory. `written_ns` dates one of which the file tells no time: when it was written.

    The same record and date give the same run.
    """
    started_ns = trajectory.started_ns or written_ns
    trace_id = trace_id_of(trajectory.format, trajectory.identity)
    models = (turn for turn in trajectory.all_turns() if isinstance(turn, ModelTurn))
    requests = RequestBodies(models, redaction)
    builder = _Builder(run_id_of(trace_id, started_ns), trace_id, started_ns, redaction, requests)
    root, root_span_id = builder.root(trajectory)
    builder.add(trajectory.turns, root.path, root_span_id)
    builder.end(root_span_id, trajectory)
    run = Run(
        run_id=builder.run_id,
        trace_id=trace_id,
        root_span_id=root_span_id,
        agent=trajectory.agent,
        started_ns=started_ns,
        ended_ns=trajectory.ended_ns,
        status=trajectory.status,
        mode="import",
        versions=Versions(code=trajectory.code, model_route=trajectory.model, packages=trajectory.packages),
        coverage=Coverage(tuple(_coverage(trajectory))),
    )
    spans = sorted(builder.spans, key=lambda item: 0 if item.node is None else item.node.sequence)
    labels = [
        Label(builder.run_id, trajectory.format, started_ns, name, value, redaction.text(note))
        for name, value, note in ((said.name, _text(said.value, redaction), said.note) for said in trajectory.told)
    ]
    return ImportedRun(RecordedRun(run, tuple(spans), builder.payload), labels)


def _text(value: AttributeValue, redaction: Redaction) -> AttributeValue:
    return redaction.text(value) if isinstance(value, str) else value


def _coverage(trajectory: Trajectory) -> list[CoverageEntry]:
    entries = []
    models = [turn for turn in trajectory.all_turns() if isinstance(turn, ModelTurn)]
    if any(turn.fidelity is Fidelity.MESSAGES for turn in models):
        entries.append(CoverageEntry("model requests and answers", "partial", _MESSAGES))
    elif models:
        entries.append(CoverageEntry("model requests and answers", "partial", "as JSON, not byte for byte"))
    if not trajectory.started_ns:
        entries.append(CoverageEntry("times", "not_captured", _UNTIMED))
    return entries + [CoverageEntry(what, "not_captured", why) for what, why in trajectory.gaps.items()]


@dataclass
class _Builder:
    """Builds the spans of one run and knows how to write their payloads."""

    run_id: bytes
    trace_id: bytes
    started_ns: int
    redaction: Redaction
    requests: RequestBodies
    spans: list[RecordedSpan] = field(default_factory=list)
    _sequence: int = 0
    _step: int = 0
    _made: int = 0
    _occurrences: dict[tuple[tuple[str, ...], str], int] = field(default_factory=dict)
    _bodies: dict[bytes, Callable[[], bytes | None]] = field(default_factory=dict)
    _root: Node | None = None

    def payload(self, digest: bytes) -> bytes | None:
        """Return the bytes behind a digest."""
        write = self._bodies.get(digest)
        return None if write is None else write()

    def root(self, trajectory: Trajectory) -> tuple[Node, bytes]:
        """Begin the run."""
        path = (f"{Kind.RUN}:{trajectory.agent}#0",)
        call = Call(Kind.RUN, trajectory.agent, SideEffect.NONE, self._kept(trajectory.input))
        node = Node(self.run_id, Kind.RUN, trajectory.agent, path, self._next(), fidelity=Fidelity.MESSAGES, call=call)
        self._root = node
        return node, self._span_id()

    def end(self, span_id: bytes, trajectory: Trajectory) -> None:
        """End the run."""
        if self._root is None:
            raise AssertionError("a run ends that never began")
        pending = trajectory.status is RunStatus.PENDING
        result = None if trajectory.output is None else self._kept(trajectory.output)
        status = OutcomeStatus.PENDING if pending else OutcomeStatus.OK
        failure = None
        if trajectory.error:
            status, failure = OutcomeStatus.ERROR, Failure("", self.redaction.text(trajectory.error))
        node = replace(
            self._root, end_sequence=0 if pending else self._next(), outcome=Outcome(status, result, failure=failure)
        )
        attributes = {
            semconv.OPERATION_NAME: "invoke_agent",
            semconv.AGENT_NAME: trajectory.agent,
            semconv.IMPORT_FORMAT: trajectory.format,
            semconv.IMPORT_SOURCE: trajectory.place,
        }
        name = f"invoke_agent {trajectory.agent}"
        self._add(node, span_id, b"", name, trajectory.started_ns, trajectory.ended_ns, attributes)

    def add(self, turns: Sequence[Turn], above: tuple[str, ...], parent: bytes) -> None:
        """Add the turns that lie in a node."""
        for turn in turns:
            if isinstance(turn, ScopeTurn):
                self._scope(turn, above, parent)
            elif isinstance(turn, ModelTurn):
                self._model(turn, above, parent)
            elif isinstance(turn, ToolTurn):
                self._tool(turn, above, parent)
            else:
                self._input(turn, above, parent)

    def _scope(self, turn: ScopeTurn, above: tuple[str, ...], parent: bytes) -> None:
        node, span_id = self._begun(Kind.SCOPE, turn.name, above), self._span_id()
        self.add(turn.turns, node.path, span_id)
        node = replace(node, end_sequence=self._next())
        self._add(node, span_id, parent, turn.name, turn.begun_ns, turn.ended_ns, {})

    def _model(self, turn: ModelTurn, above: tuple[str, ...], parent: bytes) -> None:
        node = self._begun(Kind.MODEL, f"chat {turn.agent}" if turn.agent else "chat", above)
        attributes: dict[str, AttributeValue] = {semconv.OPERATION_NAME: "chat", semconv.PROTOCOL: turn.protocol}
        if turn.agent:
            attributes[semconv.AGENT_NAME] = turn.agent
        asked, outline = self._asked(turn)
        protocol = PROTOCOLS.get(turn.protocol)
        if protocol is not None:
            attributes.update(protocol.request_facts(outline))
        result = None
        if turn.answer is not None:
            body = self._body(turn.answer)
            result = Payload.of(body, _JSON)
            self._bodies[result.digest] = lambda: body
            if protocol is not None:
                attributes.update(protocol.response_facts(body, _JSON, 200))
        attributes.update(turn.facts)
        if turn.model:
            attributes.setdefault(semconv.REQUEST_MODEL, turn.model)
        call = Call(Kind.MODEL, node.name, SideEffect.READ, asked, attributes={semconv.PROTOCOL: turn.protocol})
        outcome = self._outcome(result, turn.error, answered=turn.answer is not None or bool(turn.error))
        node = replace(node, side_effect=SideEffect.READ, fidelity=turn.fidelity, call=call, outcome=outcome)
        self._finish(node, parent, turn.begun_ns, turn.ended_ns, attributes)

    def _tool(self, turn: ToolTurn, above: tuple[str, ...], parent: bytes) -> None:
        node = self._begun(Kind.TOOL, turn.name, above)
        call = Call(Kind.TOOL, turn.name, turn.side_effect, self._kept(turn.arguments))
        result = self._kept(turn.result) if turn.answered else None
        outcome = self._outcome(result, turn.error, answered=turn.answered)
        node = replace(node, side_effect=turn.side_effect, call=call, outcome=outcome)
        attributes: dict[str, AttributeValue] = {
            semconv.OPERATION_NAME: "execute_tool",
            semconv.TOOL_NAME: turn.name,
        }
        if turn.call_id:
            attributes[semconv.TOOL_CALL_ID] = turn.call_id
        begun = turn.begun_ns or (self.started_ns if turn.takes_ns else 0)
        self._finish(node, parent, begun, turn.ended_ns or (begun + turn.takes_ns if turn.takes_ns else 0), attributes)

    def _input(self, turn: UserTurn, above: tuple[str, ...], parent: bytes) -> None:
        node = self._begun(Kind.INPUT, "user", above)
        call = Call(Kind.INPUT, "user", SideEffect.READ, self._kept(turn.after))
        outcome = Outcome(OutcomeStatus.OK, self._kept(turn.said))
        node = replace(node, side_effect=SideEffect.READ, call=call, outcome=outcome)
        self._finish(node, parent, turn.begun_ns, turn.ended_ns, {})

    def _outcome(self, result: Payload | None, error: str, *, answered: bool) -> Outcome:
        if error:
            return Outcome(OutcomeStatus.ERROR, result, failure=Failure("", self.redaction.text(error)))
        return Outcome(OutcomeStatus.OK if answered else OutcomeStatus.PENDING, result)

    def _begun(self, kind: Kind, name: str, above: tuple[str, ...]) -> Node:
        label = f"{kind}:{name}"
        number = self._occurrences.get((above, label), 0)
        self._occurrences[above, label] = number + 1
        step = None
        if kind.is_crossing:
            self._step += 1
            step = self._step
        path = (*above, f"{label}#{number}")
        return Node(self.run_id, kind, name, path, self._next(), step=step, fidelity=Fidelity.MESSAGES)

    def _finish(
        self, node: Node, parent: bytes, begun_ns: int, ended_ns: int, attributes: Mapping[str, AttributeValue]
    ) -> None:
        pending = node.outcome is not None and node.outcome.status is OutcomeStatus.PENDING
        node = replace(node, end_sequence=0 if pending else self._next())
        self._add(node, self._span_id(), parent, node.name, begun_ns, ended_ns, attributes)

    def _add(
        self,
        node: Node,
        span_id: bytes,
        parent: bytes,
        name: str,
        begun_ns: int,
        ended_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> None:
        failed = node.outcome is not None and node.outcome.status is OutcomeStatus.ERROR
        span = Span(
            self.trace_id,
            span_id,
            name,
            begun_ns or self.started_ns,
            ended_ns,
            parent,
            status_code=2 if failed else 0,
            attributes=self.redaction.attributes(attributes),
            scope=_SCOPE,
        )
        self.spans.append(RecordedSpan(span, node))

    def _asked(self, turn: ModelTurn) -> tuple[Payload, bytes]:
        """Return the request of a turn, and bytes that tell what stands in it beside its messages."""
        request = self.requests.body(turn)
        if request is None:
            payload = self._kept(turn.request)
            return payload, payload.data or b""
        self._bodies[request.digest] = request.data
        return Payload(request.digest, None, _JSON, request.size), request.outline()

    def _kept(self, value: Any) -> Payload:
        body = self._body(value)
        payload = Payload.of(body, _JSON)
        self._bodies[payload.digest] = lambda: body
        return payload

    def _body(self, value: Any) -> bytes:
        return self.redaction.body(written(value).encode("utf-8", "surrogatepass"), _JSON)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _span_id(self) -> bytes:
        self._made += 1
        return span_id_of(self.trace_id, self._made)
