"""Small recorded runs with known content, for tests of the lake."""

from __future__ import annotations

import json

from otel_agent_replay import semconv
from otel_agent_replay.model import (
    Call,
    Coverage,
    CoverageEntry,
    HttpRequestHead,
    HttpResponseHead,
    InstrumentationScope,
    Kind,
    Loss,
    LossReason,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Resource,
    Run,
    RunId,
    RunStatus,
    SideEffect,
    Span,
    Versions,
)
from otel_agent_replay.payload import codec

STARTED_MS = 1_795_000_000_000  # 2026-11-18 11:06:40 UTC
RESOURCE = Resource({"service.name": "airline", "host.name": "one"})
SCOPE = InstrumentationScope(semconv.SCOPE_NAME, "0.1.0")


class RunMaker:
    """Builds one run node by node; `number` makes its ids, so that the same number gives the same run."""

    def __init__(self, number: int = 0, *, started_ms: int = STARTED_MS, process: str = "worker", agent: str = "clerk"):
        tail = (0x7 << 76 | number << 64 | 0b10 << 62 | number).to_bytes(10, "big")
        self.run_id = RunId(started_ms.to_bytes(6, "big") + tail)
        self.trace_id = (0xABC << 64 | number + 1).to_bytes(16, "big")
        self.number = number
        self.process = process
        self.agent = agent
        self.now = started_ms * 1_000_000
        self.started_ns = self.now
        self.bodies: dict[bytes, bytes] = {}
        self.members: list[RecordedSpan] = []
        self.sequence = 0
        self.step = 0
        self.losses: list[Loss] = []
        self.root_id = self._span_id(0)

    def _span_id(self, place: int) -> bytes:
        return (self.number << 20 | place + 1).to_bytes(8, "big")

    def keep(self, data: bytes, media_type: str = "application/json") -> Payload:
        payload = Payload.of(data, media_type)
        self.bodies[payload.digest] = data
        return payload.without_data()

    def value(self, value: object) -> Payload:
        return self.keep(codec.encode(value).data, "application/vnd.agent-replay.value+json")

    def add(self, kind: Kind, name: str, request: Payload, result: Payload, **facts) -> None:
        """Add a step. `facts`: side_effect, attributes, head, reads, key."""
        side_effect = facts.get("side_effect", SideEffect.READ)
        self.step += 1
        self.sequence += 2
        place = len(self.members) + 1
        own = facts.get("attributes", {})
        call = Call(kind, name, side_effect, request, facts.get("head"), own, facts.get("key", ""))
        response = HttpResponseHead(200, "OK") if facts.get("head") else None
        path = (f"run:{self.agent}#0", f"{kind}:{name}#{self.step}")
        node = Node(
            self.run_id,
            kind,
            name,
            path,
            self.sequence,
            self.sequence + 1,
            self.step,
            side_effect,
            call=call,
            outcome=Outcome(OutcomeStatus.OK, result, response),
            reads=facts.get("reads", ()),
        )
        attributes = {semconv.RUN_ID: self.run_id.hex(), semconv.STEP: self.step, **own}
        start, self.now = self.now, self.now + 2_000_000
        span = Span(self.trace_id, self._span_id(place), name, start, self.now, self.root_id, attributes=attributes)
        self.members.append(RecordedSpan(_dressed(span), node))

    def model(self, messages: list[object], answer: bytes, media_type: str = "application/json") -> None:
        body = json.dumps({"model": "gpt-4o", "messages": messages, "temperature": 0}).encode()
        attributes = {
            semconv.PROTOCOL: "openai.chat_completions",
            semconv.OPERATION_NAME: "chat",
            semconv.REQUEST_MODEL: "gpt-4o",
            semconv.USAGE_INPUT_TOKENS: 10,
            semconv.COST_USD: 0.25,
        }
        head = HttpRequestHead("POST", "http://127.0.0.1/v1/chat/completions", (("accept", "*/*"),), "HTTP/1.1")
        self.add(Kind.MODEL, "gpt-4o", self.keep(body), self.keep(answer, media_type), attributes=attributes, head=head)

    def tool(self, name: str, arguments: dict[str, object], result: object, **facts) -> None:
        request = self.keep(codec.encode_call((), arguments).data, "application/vnd.agent-replay.value+json")
        self.add(Kind.TOOL, name, request, self.value(result), **facts)

    def run(self) -> RecordedRun:
        root = Node(
            self.run_id,
            Kind.RUN,
            self.agent,
            (f"run:{self.agent}#0",),
            1,
            self.sequence + 2,
            call=Call(Kind.RUN, self.agent, SideEffect.NONE, self.value("hello")),
            outcome=Outcome(OutcomeStatus.OK, self.value("bye")),
        )
        span = _dressed(Span(self.trace_id, self.root_id, self.agent, self.started_ns, self.now))
        run = Run(
            self.run_id,
            self.trace_id,
            self.root_id,
            self.agent,
            self.started_ns,
            self.now,
            RunStatus.OK,
            service="airline",
            process=self.process,
            ordinal=self.number,
            versions=Versions(agent="1.2", code="abc", packages={"openai": "2.1"}),
            coverage=Coverage((CoverageEntry("httpx", "captured"),)),
        )
        return RecordedRun(run, (RecordedSpan(span, root), *self.members), self.bodies.get, tuple(self.losses))


def _dressed(span: Span) -> Span:
    import dataclasses

    return dataclasses.replace(span, resource=RESOURCE, scope=SCOPE)


def answer(text: str) -> bytes:
    """A chat completion with one message."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"id": "c1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}).encode()


def streamed(*texts: str) -> bytes:
    """The same as an event stream."""
    events = [json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}) for text in texts]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()


def full_run(number: int = 0, **options) -> RecordedRun:
    """A run with one of everything that the views show."""
    maker = RunMaker(number, **options)
    messages: list[object] = [
        {"role": "system", "content": "You are a clerk.\nBe kind."},
        {"role": "user", "content": "Refund order 7"},
    ]
    maker.model(messages, answer("I will look."))
    clock = Read(Kind.CLOCK, "time.time", 1795000000.5, sequence=1)
    draw = Read(Kind.RANDOM, "random.getrandbits", 1 << 100, sequence=2)
    maker.tool("look", {"order": 7}, {"price": 12}, reads=(clock, draw))
    messages += [
        {"role": "assistant", "content": "I will look."},
        {"role": "user", "content": [{"type": "text", "text": "Go"}]},
    ]
    maker.model(messages, streamed("Do", "ne."), "text/event-stream")
    maker.tool("refund", {"order": 7}, "ok", side_effect=SideEffect.WRITE, key="k-7")
    for kind in (Kind.RETRIEVAL, Kind.DECISION, Kind.APPROVAL):
        arguments = maker.keep(codec.encode_call((f"{kind} what?",), {}).data)
        maker.add(kind, f"my_{kind}", arguments, maker.value([str(kind)]))
    resumable = {semconv.CHECKPOINT_RESUMABLE: True, semconv.CHECKPOINT_UNSAFE_REASONS: ("none",)}
    maker.add(Kind.CHECKPOINT, "saved", maker.value({"at": 3}), maker.value(None), attributes=resumable)
    maker.losses.append(Loss(LossReason.TRUNCATED, "result", 2, "too long", maker.run_id, maker.root_id, maker.now))
    return maker.run()
