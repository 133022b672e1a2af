"""A cassette -> a run of raw exchanges: one step an interaction, each with its head and its body's bytes.

Fidelity is `exchange`: the bytes of the bodies are there, without content coding, but not how the network cut them.
What is told about each model call (model, tokens, cost) is read from its bytes, as of a run that was recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from otel_agent_replay import semconv
from otel_agent_replay.imports.recording import ImportedRun, Recording, run_id_of, span_id_of, trace_id_of
from otel_agent_replay.model import (
    AttributeValue,
    Call,
    Coverage,
    CoverageEntry,
    Fidelity,
    HttpRequestHead,
    HttpResponseHead,
    InstrumentationScope,
    Kind,
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
    WireExchange,
)
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols import Protocol, cost_usd, recognise, recognise_answer

NAME = "vcr"
_READS = ("GET", "HEAD", "OPTIONS", "TRACE")
_OF_THE_PACKED_BODY = ("content-encoding", "content-length", "transfer-encoding")
_GAPS = (
    CoverageEntry("chunk boundaries", "not_captured", "a cassette has each body as one, whatever pieces it came in"),
    CoverageEntry("content coding", "not_captured", "bodies are kept unpacked"),
    CoverageEntry("times", "not_captured", "the file has no times: exchanges are in order"),
    CoverageEntry("tools", "not_captured", "a cassette has HTTP only: what the agent did between is not known"),
)


def recordings_of(exchanges: Sequence[WireExchange], source: str) -> list[Recording]:
    """Return the one run that a cassette holds."""
    content = hashlib.sha256()
    for exchange in exchanges:
        head = exchange.request or HttpRequestHead("POST", "")
        for part in (f"{head.method} {head.url} {exchange.status}".encode(), exchange.request_body, exchange.body):
            content.update(len(part).to_bytes(8, "big") + part)
    trace_id = trace_id_of(NAME, content.digest())
    return [Recording(trace_id, lambda written_ns, redaction: _run(exchanges, source, trace_id, written_ns, redaction))]


def _run(
    exchanges: Sequence[WireExchange], source: str, trace_id: bytes, written_ns: int, redaction: Redaction
) -> ImportedRun:
    run_id, name = run_id_of(trace_id, written_ns), PurePath(source).stem
    path = (f"{Kind.RUN}:{NAME}#0",)
    call = Call(Kind.RUN, NAME, SideEffect.NONE, Payload.of(b"null", "application/json"))
    last = 2 * len(exchanges) + 2
    root = Node(run_id, Kind.RUN, NAME, path, 1, last, call=call, outcome=Outcome(OutcomeStatus.OK))
    attributes: dict[str, AttributeValue] = {
        semconv.OPERATION_NAME: "invoke_agent",
        semconv.AGENT_NAME: NAME,
        semconv.IMPORT_FORMAT: NAME,
        semconv.IMPORT_SOURCE: source,
    }
    scope = InstrumentationScope(semconv.SCOPE_NAME)
    root_id = span_id_of(trace_id, 0)
    spans = [
        RecordedSpan(Span(trace_id, root_id, f"cassette {name}", written_ns, attributes=attributes, scope=scope), root)
    ]
    seen: dict[str, int] = {}
    for number, exchange in enumerate(exchanges, 1):
        call, outcome, facts = _crossed(exchange, redaction, written_ns)
        label = f"{call.kind}:{call.name}"
        occurrence = seen.get(label, 0)
        seen[label] = occurrence + 1
        node = Node(
            run_id,
            call.kind,
            call.name,
            (*path, f"{label}#{occurrence}"),
            2 * number,
            2 * number + 1,
            step=number,
            side_effect=call.side_effect,
            fidelity=Fidelity.EXCHANGE,
            call=call,
            outcome=outcome,
        )
        span_id = span_id_of(trace_id, number)
        span = Span(trace_id, span_id, call.name, written_ns, parent_span_id=root_id, attributes=facts, scope=scope)
        spans.append(RecordedSpan(span, node))
    run = Run(
        run_id=run_id,
        trace_id=trace_id,
        root_span_id=root_id,
        agent=NAME,
        started_ns=written_ns,
        status=RunStatus.OK,
        mode="import",
        coverage=Coverage(_GAPS),
    )
    return ImportedRun(RecordedRun(run, tuple(spans), dict(_payloads(spans)).get))


def _payloads(spans: Sequence[RecordedSpan]) -> Iterator[tuple[bytes, bytes]]:
    for recorded in spans:
        node = recorded.node
        asked = None if node is None or node.call is None else node.call.request
        answered = None if node is None or node.outcome is None else node.outcome.result
        for payload in (asked, answered):
            if payload is not None and payload.data is not None:
                yield payload.digest, payload.data


def _crossed(
    exchange: WireExchange, redaction: Redaction, at_ns: int
) -> tuple[Call, Outcome, Mapping[str, AttributeValue]]:
    head = exchange.request or HttpRequestHead("POST", "")
    headers = redaction.headers(head.headers)  # first: a key that they carry is then masked in the bodies too
    answered_headers = redaction.headers(
        [pair for pair in exchange.headers if pair[0].lower() not in _OF_THE_PACKED_BODY]
    )
    url, method = redaction.url(head.url), head.method.upper()
    media_type = next((value for name, value in headers if name.lower() == "content-type"), "application/json")
    request = redaction.body(exchange.request_body, media_type)
    answer = redaction.body(exchange.body, exchange.media_type)
    protocol = recognise(method, url, headers, request) or _by_answer(exchange)
    parts = urlsplit(url)
    facts: dict[str, AttributeValue] = {semconv.HTTP_METHOD: method, semconv.URL_FULL: url}
    facts |= {semconv.SERVER_ADDRESS: parts.hostname or "", semconv.HTTP_STATUS: exchange.status}
    if protocol is None:
        kind, name = Kind.HTTP, f"{method} {parts.netloc.rpartition('@')[2]}{parts.path or '/'}"
    else:
        kind, name = Kind.MODEL, protocol.operation
        facts |= _model_facts(protocol, url, request, answer, exchange, at_ns)
    effect = SideEffect.READ if protocol is not None or method in _READS else SideEffect.WRITE
    call = Call(
        kind,
        name,
        effect,
        Payload.of(request, media_type),
        HttpRequestHead(method, url, headers, head.http_version),
        {} if protocol is None else {semconv.PROTOCOL: protocol.name},
    )
    outcome = Outcome(
        OutcomeStatus.OK,
        Payload.of(answer, exchange.media_type),
        HttpResponseHead(exchange.status, "", answered_headers),
        exact=answer == exchange.body,
        notes=exchange.notes,
    )
    return call, outcome, facts


def _by_answer(exchange: WireExchange) -> Protocol | None:
    """Return the protocol of a recording whose request was left out."""
    if exchange.request_body:
        return None
    return recognise_answer(exchange.body) if exchange.status == 200 else None


def _model_facts(
    protocol: Protocol, url: str, request: bytes, answer: bytes, exchange: WireExchange, at_ns: int
) -> dict[str, AttributeValue]:
    facts: dict[str, AttributeValue] = {
        semconv.PROTOCOL: protocol.name,
        semconv.OPERATION_NAME: protocol.operation,
        semconv.PROVIDER_NAME: protocol.provider(url),
        **protocol.request_facts(request, url),
        **protocol.response_facts(answer, exchange.media_type, exchange.status),
    }
    model = facts.get(semconv.RESPONSE_MODEL) or facts.get(semconv.REQUEST_MODEL)
    cost = cost_usd(str(facts[semconv.PROVIDER_NAME]), model, facts, at_ns=at_ns) if isinstance(model, str) else None
    return facts if cost is None else {**facts, semconv.COST_USD: cost}
