"""The corpus of `lake_load.py`: one hour of agent runs, seeded, as recorded runs.

1,000 runs of 50 spans: model calls whose requests repeat the conversation so far, tools, retrievals, decisions,
approvals, checkpoints; three agents in four versions, five models, some failures, some replays.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    Chunk,
    Failure,
    HttpRequestHead,
    HttpResponseHead,
    InstrumentationScope,
    Kind,
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
    SpanEvent,
    Versions,
)
from otel_agent_replay.payload import codec

RUNS = 1000
SPANS_OF_A_RUN = 50
FIRST_HOUR_MS = 1_793_491_200_000  # 2026-11-01 00:00:00 UTC
HOUR_MS = 3_600_000

AGENTS = ("refunds", "bookings", "claims")
VERSIONS = ("2.4.0", "2.4.1", "2.5.0", "2.6.0")
MODELS = {  # US dollars for a million tokens in and out
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-mini": (0.15, 0.6),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.4, 1.6),
    "o4-mini": (1.1, 4.4),
}
TOOLS = {  # milliseconds that half of the calls stay under
    "get_order": 40,
    "get_customer": 35,
    "search_flights": 310,
    "get_policy": 25,
    "quote_price": 120,
    "issue_refund": 240,
    "send_mail": 180,
    "book_seat": 420,
}
_WRITES = frozenset({"issue_refund", "send_mail", "book_seat"})
_RESOURCE = Resource(
    {
        "service.name": "desk",
        "service.version": "2.6.0",
        "service.instance.id": "desk-7c9f",
        "host.name": "node-4",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": "1.39.0",
    }
)
_SCOPE = InstrumentationScope(semconv.SCOPE_NAME, "0.1.0")
_URL = "https://api.openai.com/v1/chat/completions"
_TOOLS_OFFERED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name.replace('_', ' ')} for the customer of this conversation.",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        },
    }
    for name in TOOLS
]


def recorded_runs(seed: int = 11) -> Iterator[RecordedRun]:
    """Yield the runs of the hour that begins at FIRST_HOUR_MS, in order of their starts, no two in one millisecond."""
    words = _vocabulary(random.Random(seed))
    for number in range(RUNS):
        yield _RunMaker(number, random.Random(seed * 1_000_003 + number), words).run()


def _vocabulary(draw: random.Random) -> list[str]:
    return ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 10))) for _ in range(3000)]


class _RunMaker:
    """Builds one run, step by step."""

    def __init__(self, number: int, draw: random.Random, words: list[str]) -> None:
        self._draw = draw
        self._words = words
        self._number = number
        started_ms = FIRST_HOUR_MS + number * (HOUR_MS - 60_000) // RUNS + draw.randrange(3000)
        tail = 0x7 << 76 | draw.getrandbits(12) << 64 | 0b10 << 62 | draw.getrandbits(62)
        self._run_id = started_ms.to_bytes(6, "big") + tail.to_bytes(10, "big")
        self._trace_id = draw.randbytes(16)
        self._root_id = draw.randbytes(8)
        self._agent = draw.choice(AGENTS)
        self._model = draw.choice(list(MODELS))
        self._version = draw.choice(VERSIONS)
        self._replay = number % 50 == 49
        self._source = AnswerSource.TAPE if self._replay else AnswerSource.LIVE
        self._started_ns = self._now = started_ms * 1_000_000 + draw.randrange(1_000_000)
        self._sequence = 1
        self._step = 0
        self._occurrences: dict[tuple[Kind, str], int] = {}
        self._bodies: dict[bytes, bytes] = {}
        self._spans: list[RecordedSpan] = []
        system = f"You are the {self._agent} agent {self._version}. " + " ".join(words[:40])
        asked = self._text(12) + (" what is your refund policy?" if draw.random() < 0.02 else "")
        self._asked = asked
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": asked},
        ]

    def run(self) -> RecordedRun:
        for turn in range(16):
            self._model_call()
            for _ in range(2 if turn < 10 else 1):
                self._tool_call()
            if turn in (0, 8):
                self._typed(Kind.RETRIEVAL, "policies", {"query": self._text(5)}, [self._text(20), self._text(20)])
            if turn in (3, 9):
                self._typed(Kind.DECISION, "route", {"mood": self._text(2)}, self._draw.choice(("refund", "explain")))
            if turn == 12:
                self._typed(Kind.APPROVAL, "supervisor", {"action": "refund"}, self._draw.random() < 0.9)
            if turn in (5, 11):
                self._typed(Kind.CHECKPOINT, "turn", {"turn": turn}, None)
        return self._finished()

    def _text(self, count: int) -> str:
        return " ".join(self._draw.choices(self._words, k=count))

    def _keep(self, data: bytes, media_type: MediaType) -> Payload:
        payload = Payload.of(data, media_type.value)
        self._bodies[payload.digest] = data
        return payload.without_data()

    def _value(self, value: object) -> Payload:
        return self._keep(codec.encode(value).data, MediaType.VALUE)

    def _takes(self, median_ms: float) -> int:
        return int(median_ms * 1e6 * self._draw.lognormvariate(0, 0.5))

    def _model_call(self) -> None:
        request = {"model": self._model, "messages": self._messages, "tools": _TOOLS_OFFERED, "temperature": 0}
        body = json.dumps(request).encode()
        answered = self._text(8)
        response_id = f"chatcmpl-{self._draw.getrandbits(64):016x}"
        tokens_in, tokens_out = len(body) // 4, len(answered) // 4 + 20
        answer = {
            "id": response_id,
            "object": "chat.completion",
            "created": self._now // 1_000_000_000,
            "model": f"{self._model}-2026-08-01",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": answered}, "finish_reason": "tool_calls"}
            ],
            "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out},
        }
        price_in, price_out = MODELS[self._model]
        begun = {semconv.PROTOCOL: "openai.chat_completions", semconv.OPERATION_NAME: "chat"}
        facts = {
            semconv.PROVIDER_NAME: "openai",
            semconv.REQUEST_MODEL: self._model,
            semconv.REQUEST_TEMPERATURE: 0.0,
            semconv.RESPONSE_MODEL: f"{self._model}-2026-08-01",
            semconv.RESPONSE_ID: response_id,
            semconv.RESPONSE_FINISH_REASONS: ("tool_calls",),
            semconv.USAGE_INPUT_TOKENS: tokens_in,
            semconv.USAGE_OUTPUT_TOKENS: tokens_out,
            semconv.USAGE_CACHE_READ_INPUT_TOKENS: tokens_in // 2,
            semconv.COST_USD: (tokens_in * price_in + tokens_out * price_out) / 1e6,
            semconv.HTTP_STATUS: 200,
            semconv.SERVER_ADDRESS: "api.openai.com",
        }
        headers = (("content-type", "application/json"), ("accept", "application/json"))
        call = Call(
            Kind.MODEL,
            "chat",
            SideEffect.READ,
            self._keep(body, MediaType.JSON),
            HttpRequestHead("POST", _URL, headers, "HTTP/1.1"),
            begun,
        )
        data = json.dumps(answer).encode()
        took = self._takes(900)
        head = HttpResponseHead(200, "OK", (("content-type", "application/json"), ("x-request-id", response_id)))
        outcome = Outcome(OutcomeStatus.OK, self._keep(data, MediaType.JSON), head, (Chunk(len(data), took),))
        self._add(call, outcome, f"chat {self._model}", took, {**begun, **facts})
        self._messages.append({"role": "assistant", "content": answered})

    def _tool_call(self) -> None:
        name = self._draw.choice(list(TOOLS))
        arguments = {"order_id": str(self._draw.randrange(1, 5000)), "note": self._text(4)}
        result = {"state": self._draw.choice(("open", "closed", "held")), "text": self._text(10)}
        effect = SideEffect.WRITE if name in _WRITES else SideEffect.READ
        request = self._keep(codec.encode_call((), arguments).data, MediaType.VALUE)
        call = Call(Kind.TOOL, name, effect, request)
        facts = {semconv.OPERATION_NAME: "execute_tool", semconv.TOOL_NAME: name, semconv.TOOL_TYPE: "function"}
        took = self._takes(TOOLS[name])
        if self._draw.random() < 0.03:
            failure = Failure("builtins:TimeoutError", "the system did not answer", state=None)
            self._add(call, Outcome(OutcomeStatus.ERROR, failure=failure), f"execute_tool {name}", took, facts)
            result = {"error": "timed out"}
        else:
            self._add(call, Outcome(OutcomeStatus.OK, self._value(result)), f"execute_tool {name}", took, facts)
        self._messages.append({"role": "tool", "tool_call_id": f"call_{self._step}", "content": json.dumps(result)})

    def _typed(self, kind: Kind, name: str, arguments: dict[str, object], result: object) -> None:
        effect = SideEffect.READ if kind is Kind.RETRIEVAL else SideEffect.NONE
        call = Call(kind, name, effect, self._keep(codec.encode_call((), arguments).data, MediaType.VALUE))
        self._add(call, Outcome(OutcomeStatus.OK, self._value(result)), f"{kind} {name}", self._takes(15), {})

    def _add(self, call: Call, outcome: Outcome, name: str, took_ns: int, facts: dict[str, Any]) -> None:
        self._step += 1
        begun = self._sequence + 1
        self._sequence += 2
        occurrence = self._occurrences.get((call.kind, call.name), 0)
        self._occurrences[call.kind, call.name] = occurrence + 1
        failed = outcome.status is OutcomeStatus.ERROR
        reads = ()
        if self._step % 5 == 0:
            reads = (Read(Kind.CLOCK, "time.time", self._now / 1e9, sequence=begun),)
        node = Node(
            self._run_id,
            call.kind,
            call.name,
            (f"run:{self._agent}#0", f"{call.kind}:{call.name}#{occurrence}"),
            begun,
            begun + 1,
            self._step,
            call.side_effect,
            self._source,
            call=call,
            outcome=outcome,
            reads=reads,
        )
        attributes = self._common(call, outcome) | facts | ({semconv.ERROR_TYPE: "TimeoutError"} if failed else {})
        ended = self._now + took_ns
        exception = {"exception.type": "TimeoutError", "exception.message": "the system did not answer"}
        span = Span(
            self._trace_id,
            self._draw.randbytes(8),
            name,
            self._now,
            ended,
            self._root_id,
            3 if call.kind is Kind.MODEL else 1,
            2 if failed else 0,
            "the system did not answer" if failed else "",
            attributes,
            (SpanEvent(ended, "exception", exception),) if failed else (),
            resource=_RESOURCE,
            scope=_SCOPE,
        )
        self._now = ended + self._draw.randrange(2_000_000)
        self._spans.append(RecordedSpan(span, node))

    def _common(self, call: Call, outcome: Outcome) -> dict[str, Any]:
        """What the recorder puts on each span of ours."""
        attributes: dict[str, Any] = {
            semconv.RUN_ID: self._run_id.hex(),
            semconv.KIND: call.kind.value,
            semconv.SIDE_EFFECT: call.side_effect.value,
            semconv.REQUEST_DIGEST: call.request.digest.hex(),
            semconv.STEP: self._step,
        }
        if self._replay:
            attributes[semconv.SOURCE] = self._source.value
        if outcome.result is not None:
            attributes[semconv.RESULT_DIGEST] = outcome.result.digest.hex()
        return attributes

    def _finished(self) -> RecordedRun:
        failed = self._draw.random() < 0.03 + 0.02 * VERSIONS.index(self._version)
        status = RunStatus.ERROR if failed else RunStatus.OK
        node = Node(
            self._run_id,
            Kind.RUN,
            self._agent,
            (f"run:{self._agent}#0",),
            1,
            self._sequence + 1,
            call=Call(Kind.RUN, self._agent, SideEffect.NONE, self._value(self._asked)),
            outcome=Outcome(OutcomeStatus.ERROR if failed else OutcomeStatus.OK, self._value(self._text(12))),
        )
        thread = f"conversation-{self._number}"
        attributes = {
            semconv.RUN_ID: self._run_id.hex(),
            semconv.OPERATION_NAME: "invoke_agent",
            semconv.AGENT_NAME: self._agent,
            semconv.RUN_MODE: "exact" if self._replay else "record",
            semconv.CONVERSATION_ID: thread,
            semconv.RUN_STATUS: status.value,
            semconv.VERSION_AGENT: self._version,
            **({semconv.REPLAY: True} if self._replay else {}),
        }
        name = f"invoke_agent {self._agent}"
        span = Span(
            self._trace_id,
            self._root_id,
            name,
            self._started_ns,
            self._now,
            status_code=2 if failed else 0,
            attributes=attributes,
            resource=_RESOURCE,
            scope=_SCOPE,
        )
        run = Run(
            self._run_id,
            self._trace_id,
            self._root_id,
            self._agent,
            self._started_ns,
            self._now,
            status,
            thread,
            mode="exact" if self._replay else "record",
            replay=self._replay,
            service="desk",
            process=f"{self._number % 4:08x}",
            ordinal=self._number,
            versions=Versions(agent=self._version, code="3f9c1d2", packages={"openai": "3.1.0", "httpx2": "2.0.4"}),
            entry="desk.agent:answer",
        )
        return RecordedRun(run, (RecordedSpan(span, node), *self._spans), self._bodies.get)
