"""Recorded runs made by hand: the same ids and clock every time, no recorder, no lake.

    recorded = run("planner", input={"q": "weather?"}).model("hello").tool("search", {"q": "x"}, [1]).build(output="ok")

Steps begin and end one after the other; `together()` lets those inside it overlap. Whatever is not given is left
out, so a test says only what it is about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.model import (
    AnswerSource,
    AttributeValue,
    Call,
    Chunk,
    Coverage,
    CoverageEntry,
    Failure,
    HttpRequestHead,
    HttpResponseHead,
    Kind,
    Loss,
    MediaType,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    SideEffect,
    Span,
    Versions,
)
from otel_agent_replay.testing.recorded_bodies import chat_answer, chat_request, value

MODEL_URL = "https://api.openai.com/v1/chat/completions"
_TICK_NS = 1_000_000
_FIRST_NS = 1_764_547_200_000_000_000  # 2025-12-01T00:00:00Z


@dataclass
class _State:
    """What all builders of one run share: ids, clock, sequence, steps."""

    seed: str
    now_ns: int
    sequence: int = 0
    step: int = 0
    made: int = 0
    spans: list[RecordedSpan] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def span_id(self) -> bytes:
        self.made += 1
        return hashlib.sha256(f"{self.seed} span {self.made}".encode()).digest()[:8]

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def tick(self, nanoseconds: int = _TICK_NS) -> int:
        self.now_ns += nanoseconds
        return self.now_ns


class NodeBuilder:
    """Builds what lies inside one node; every method returns the builder, so that calls chain."""

    def __init__(self, state: _State, path: tuple[str, ...], span_id: bytes) -> None:
        self._state = state
        self._path = path
        self._span_id = span_id
        self._occurrences: dict[tuple[Kind, str], int] = {}
        self._reads: list[Read] = []
        self._waiting: list[Callable[[], None]] | None = None

    def tool(
        self,
        name: str,
        arguments: Any = None,
        result: Any = None,
        *,
        side_effect: SideEffect = SideEffect.READ,
        inside: Callable[[NodeBuilder], Any] | None = None,
        **more: Any,
    ) -> NodeBuilder:
        """Add a tool call. `inside` builds what crossed while it ran. `more`: see `crossing`."""
        return self._value_crossing(Kind.TOOL, name, arguments, result, side_effect, inside, more)

    def retrieval(self, name: str, query: Any, documents: Any, **more: Any) -> NodeBuilder:
        """Add a retrieval."""
        return self._value_crossing(Kind.RETRIEVAL, name, query, documents, SideEffect.READ, None, more)

    def decision(self, name: str, arguments: Any, result: Any, **more: Any) -> NodeBuilder:
        """Add a decision."""
        return self._value_crossing(Kind.DECISION, name, arguments, result, SideEffect.NONE, None, more)

    def approval(self, name: str, action: Any, result: Any, **more: Any) -> NodeBuilder:
        """Add an approval."""
        return self._value_crossing(Kind.APPROVAL, name, action, result, SideEffect.NONE, None, more)

    def sleep(self, seconds: float) -> NodeBuilder:
        """Add a sleep."""
        return self._value_crossing(Kind.SLEEP, "time.sleep", [seconds], None, SideEffect.NONE, None, {})

    def model(
        self,
        request: Payload | str,
        answer: Payload | str = "ok",
        *,
        name: str = "chat gpt-4o-mini",
        url: str = MODEL_URL,
        status: int = 200,
        tokens: tuple[int, int] | None = (10, 5),
        cost_usd: float | None = None,
        response_headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),),
        **more: Any,
    ) -> NodeBuilder:
        """Add a model call; text stands for a request of one user message, and for an answer of that text."""
        asked = chat_request([{"role": "user", "content": request}]) if isinstance(request, str) else request
        answered = chat_answer(answer) if isinstance(answer, str) else answer
        head = HttpRequestHead("POST", url, (("content-type", "application/json"),))
        attributes: dict[str, Any] = {semconv.PROTOCOL: "openai.chat_completions", semconv.OPERATION_NAME: "chat"}
        if asked.data is not None:
            attributes[semconv.REQUEST_MODEL] = json.loads(asked.data)["model"]
        if tokens is not None:
            attributes[semconv.USAGE_INPUT_TOKENS], attributes[semconv.USAGE_OUTPUT_TOKENS] = tokens
        if cost_usd is not None:
            attributes[semconv.COST_USD] = cost_usd
        call = Call(Kind.MODEL, name, SideEffect.READ, asked, head, {semconv.PROTOCOL: "openai.chat_completions"})
        outcome = Outcome(
            OutcomeStatus.OK,
            answered,
            HttpResponseHead(status, "OK", tuple(response_headers)),
            (Chunk(answered.size, 1000),),
        )
        return self.crossing(call, outcome, attributes=attributes, **more)

    def http(
        self, method: str, url: str, answer: Any = None, *, request: Any = None, status: int = 200, **more: Any
    ) -> NodeBuilder:
        """Add an HTTP exchange with JSON bodies."""
        body = b"" if request is None else json.dumps(request).encode()
        answered = Payload.of(json.dumps(answer).encode(), MediaType.JSON.value)
        effect = SideEffect.READ if method in {"GET", "HEAD"} else SideEffect.WRITE
        path = "/" + url.partition("://")[2].partition("/")[2].partition("?")[0]
        call = Call(
            Kind.HTTP, f"{method} {path}", effect, Payload.of(body, "application/json"), HttpRequestHead(method, url)
        )
        head = HttpResponseHead(status, "", (("content-type", "application/json"),))
        return self.crossing(call, Outcome(OutcomeStatus.OK, answered, head), **more)

    def crossing(
        self,
        call: Call,
        outcome: Outcome | None,
        *,
        inside: Callable[[NodeBuilder], Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        source: AnswerSource = AnswerSource.LIVE,
        error: BaseException | None = None,
        pending: bool = False,
        takes_ns: int = _TICK_NS,
    ) -> NodeBuilder:
        """Add any crossing. `error` makes it fail, `pending` leaves it unended, `takes_ns` is its duration."""
        if error is not None:
            kind = type(error)
            failure = Failure(f"{kind.__module__}:{kind.__qualname__}", str(error))
            outcome = Outcome(OutcomeStatus.ERROR, failure=failure)
        if pending:
            outcome = Outcome(OutcomeStatus.PENDING)
        node = replace(self._begin(call.kind, call.name), call=call, side_effect=call.side_effect, source=source)
        begun_ns, span_id = self._state.tick(), self._state.span_id()
        below = NodeBuilder(self._state, node.path, span_id)
        if inside is not None:
            inside(below)

        def end() -> None:
            ended_ns = 0 if pending else self._state.tick(takes_ns)
            end_sequence = 0 if pending else self._state.next_sequence()
            done = replace(node, outcome=outcome, end_sequence=end_sequence, reads=tuple(below._reads))
            self._add(done, span_id, begun_ns, ended_ns, attributes or {})

        self._end(end)
        return self

    def step(self, name: str, inside: Callable[[NodeBuilder], Any] | None = None) -> NodeBuilder:
        """Add a scope (`replay.step`) and build what lies in it."""
        node = self._begin(Kind.SCOPE, name)
        begun_ns, span_id = self._state.tick(), self._state.span_id()
        below = NodeBuilder(self._state, node.path, span_id)
        if inside is not None:
            inside(below)

        def end() -> None:
            done = replace(node, end_sequence=self._state.next_sequence(), reads=tuple(below._reads))
            self._add(done, span_id, begun_ns, self._state.tick(), {})

        self._end(end)
        return self

    def checkpoint(
        self, name: str, state: Any = None, *, resumable: bool = False, unsafe_reasons: Sequence[str] = ()
    ) -> NodeBuilder:
        """Add a checkpoint."""
        facts: Mapping[str, AttributeValue] = {
            semconv.CHECKPOINT_RESUMABLE: resumable,
            semconv.CHECKPOINT_UNSAFE_REASONS: list(unsafe_reasons),
        }
        call = Call(Kind.CHECKPOINT, name, SideEffect.NONE, value(state), attributes=facts)
        return self.crossing(call, Outcome(OutcomeStatus.OK))

    def foreign(self, name: str, *, status_code: int = 0, attributes: Mapping[str, Any] | None = None) -> NodeBuilder:
        """Add a span of another library."""
        begun_ns, span_id = self._state.tick(), self._state.span_id()

        def end() -> None:
            span = Span(
                trace_id=_trace_id(self._state.seed),
                span_id=span_id,
                name=name,
                start_ns=begun_ns,
                end_ns=self._state.tick(),
                parent_span_id=self._span_id,
                status_code=status_code,
                attributes=dict(attributes or {}),
            )
            self._state.spans.append(RecordedSpan(span))

        self._end(end)
        return self

    def read(self, kind: Kind, name: str, content: float | str | bytes | None, *, masked: bool = False) -> NodeBuilder:
        """Add a bulk read: a clock, a draw, an environment variable; `name` as the recorder names it."""
        self._reads.append(Read(kind, name, content, "", self._state.next_sequence(), masked))
        return self

    def together(self, inside: Callable[[NodeBuilder], Any], *, end_order: Sequence[int] | None = None) -> NodeBuilder:
        """Let the steps that `inside` adds here run at the same time; `end_order` lists them as they end."""
        self._waiting = []
        inside(self)
        waiting, self._waiting = self._waiting, None
        for number in end_order if end_order is not None else range(len(waiting)):
            waiting[number]()
        return self

    def _value_crossing(
        self,
        kind: Kind,
        name: str,
        arguments: Any,
        result: Any,
        side_effect: SideEffect,
        inside: Callable[[NodeBuilder], Any] | None,
        more: Mapping[str, Any],
    ) -> NodeBuilder:
        given = {} if arguments is None else arguments
        call = Call(kind, name, side_effect, given if isinstance(given, Payload) else value(given))
        answered = result if isinstance(result, Payload) else value(result)
        return self.crossing(call, Outcome(OutcomeStatus.OK, answered), inside=inside, **more)

    def _begin(self, kind: Kind, name: str) -> Node:
        occurrence = self._occurrences.get((kind, name), 0)
        self._occurrences[kind, name] = occurrence + 1
        step = None
        if kind is Kind.CHECKPOINT or kind.is_crossing:
            self._state.step += 1
            step = self._state.step
        path = (*self._path, f"{kind}:{name}#{occurrence}")
        return Node(b"", kind, name, path, self._state.next_sequence(), step=step)

    def _end(self, end: Callable[[], None]) -> None:
        if self._waiting is None:
            end()
        else:
            self._waiting.append(end)

    def _add(self, node: Node, span_id: bytes, begun_ns: int, ended_ns: int, attributes: Mapping[str, Any]) -> None:
        span = Span(
            trace_id=_trace_id(self._state.seed),
            span_id=span_id,
            name=node.name,
            start_ns=begun_ns,
            end_ns=ended_ns,
            parent_span_id=self._span_id,
            attributes=dict(attributes),
        )
        self._state.spans.append(RecordedSpan(span, node))


class RunBuilder(NodeBuilder):
    """Builds a run; `build` ends it. Two builders with the same `seed` and calls build equal runs."""

    def __init__(self, agent: str, *, input: Any, seed: int, started_ns: int, versions: Versions) -> None:  # noqa: A002
        text = f"{agent} {seed}"
        state = _State(text, started_ns, sequence=1)
        root_id = state.span_id()
        super().__init__(state, (f"run:{agent}#0",), root_id)
        random_part = hashlib.sha256(f"{text} run".encode()).digest()[:10]
        self._run_id = (
            (started_ns // 1_000_000).to_bytes(6, "big") + bytes([0x70 | random_part[0] & 0xF]) + random_part[1:]
        )
        self._agent, self._input, self._started_ns, self._versions = agent, input, started_ns, versions
        self._coverage: list[CoverageEntry] = []

    @property
    def run_id(self) -> bytes:
        """The id that the run will have."""
        return self._run_id

    def loss(self, loss: Loss) -> RunBuilder:
        """Add a loss."""
        self._state.losses.append(replace(loss, run_id=self._run_id))
        return self

    def covered(self, what: str, state: str = "captured", detail: str = "") -> RunBuilder:
        """Add an entry to the coverage report."""
        self._coverage.append(CoverageEntry(what, state, detail))
        return self

    def build(
        self,
        output: Any = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: BaseException | None = None,
        mode: str = "record",
        origin: bytes = b"",
        keep_payloads: bool = True,
    ) -> RecordedRun:
        """End the run and return it. Without `keep_payloads` every payload has its digest only."""
        state = self._state
        pending = status is RunStatus.PENDING
        outcome = Outcome(OutcomeStatus.PENDING if pending else OutcomeStatus.OK, None if pending else value(output))
        if error is not None:
            status = RunStatus.ERROR
            failure = Failure(f"{type(error).__module__}:{type(error).__qualname__}", str(error))
            outcome = Outcome(OutcomeStatus.ERROR, failure=failure)
        call = Call(Kind.RUN, self._agent, SideEffect.NONE, value(self._input))
        end_sequence = 0 if pending else state.next_sequence()
        ended_ns = 0 if pending else state.tick()
        root = Node(
            b"",
            Kind.RUN,
            self._agent,
            self._path,
            1,
            end_sequence,
            call=call,
            outcome=outcome,
            reads=tuple(self._reads),
        )
        trace_id = _trace_id(state.seed)
        spans = [
            RecordedSpan(
                Span(trace_id, self._span_id, f"invoke_agent {self._agent}", self._started_ns, ended_ns), root
            ),
            *state.spans,
        ]
        spans = [
            span if span.node is None else replace(span, node=replace(span.node, run_id=self._run_id)) for span in spans
        ]
        spans.sort(key=lambda item: (item.span.start_ns, 0 if item.node is None else item.node.sequence))
        payloads = _payloads(spans) if keep_payloads else {}
        if not keep_payloads:
            spans = [replace(item, node=_without_data(item.node)) for item in spans]
        run_facts = Run(
            run_id=self._run_id,
            trace_id=trace_id,
            root_span_id=self._span_id,
            agent=self._agent,
            started_ns=self._started_ns,
            ended_ns=ended_ns,
            status=status,
            mode=mode,
            replay=mode != "record",
            origin_run_id=origin,
            versions=self._versions,
            coverage=Coverage(tuple(self._coverage)),
        )
        return RecordedRun(run_facts, tuple(spans), payloads.get, tuple(state.losses))


def run(
    agent: str = "agent",
    *,
    input: Any = None,  # noqa: A002
    seed: int = 1,
    started_ns: int = _FIRST_NS,
    versions: Versions | None = None,
) -> RunBuilder:
    """Begin a run. `seed` sets its ids, `started_ns` (Unix nanoseconds) its clock."""
    return RunBuilder(agent, input=input, seed=seed, started_ns=started_ns, versions=versions or Versions())


def _trace_id(seed: str) -> bytes:
    return hashlib.sha256(f"{seed} trace".encode()).digest()[:16]


def _payloads(spans: Sequence[RecordedSpan]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for recorded in spans:
        node = recorded.node
        if node is None:
            continue
        payloads = (
            None if node.call is None else node.call.request,
            None if node.outcome is None else node.outcome.result,
        )
        found.update(
            {payload.digest: payload.data for payload in payloads if payload is not None and payload.data is not None}
        )
    return found


def _without_data(node: Node | None) -> Node | None:
    if node is None:
        return None
    call, outcome = node.call, node.outcome
    if call is not None:
        call = replace(call, request=call.request.without_data())
    if outcome is not None and outcome.result is not None:
        outcome = replace(outcome, result=outcome.result.without_data())
    return replace(node, call=call, outcome=outcome)
