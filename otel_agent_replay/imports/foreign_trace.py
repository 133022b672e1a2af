"""A trace that another instrumentation emitted -> a run, as far as its attributes go: for comparing, never for replay.

Spans that say they are a model call, a tool, a retrieval or an agent (`gen_ai.*`, or OpenInference's names) become
steps with what they asked and answered; all others stay as they are and are compared by name and status. Their order
is that of causes (a child never begins before its parent), then of time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.errors import CannotJudge, DamagedRecording
from otel_agent_replay.model import (
    Call,
    Failure,
    Fidelity,
    Kind,
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
)
from otel_agent_replay.otlp.json_spans import spans_from_json

_GZIP = b"\x1f\x8b"
_OPENINFERENCE_KIND = "openinference.span.kind"
_OPERATIONS = {
    "chat": Kind.MODEL,
    "text_completion": Kind.MODEL,
    "generate_content": Kind.MODEL,
    "llm": Kind.MODEL,
    "execute_tool": Kind.TOOL,
    "tool": Kind.TOOL,
    "retrieval": Kind.RETRIEVAL,
    "retriever": Kind.RETRIEVAL,
    "invoke_agent": Kind.SCOPE,
    "invoke_workflow": Kind.SCOPE,
    "agent": Kind.SCOPE,
    "chain": Kind.SCOPE,
}
_PARAMETERS = {
    semconv.REQUEST_TEMPERATURE: "temperature",
    semconv.REQUEST_TOP_P: "top_p",
    semconv.REQUEST_TOP_K: "top_k",
    semconv.REQUEST_MAX_TOKENS: "max_tokens",
    semconv.REQUEST_SEED: "seed",
    semconv.REQUEST_STOP_SEQUENCES: "stop",
}


class ForeignTrace(NamedTuple):
    """A file as a run; `refused` says in a sentence each which spans could not be read."""

    run: RecordedRun
    refused: Sequence[str]


def read_foreign_trace(path: Path, trace: str = "") -> ForeignTrace:
    """Return the trace in an OTLP JSON file (one document, or one a line; gzip too).

    `trace` is the beginning of a trace id in hexadecimal, needed where a file holds several. Raises DamagedRecording
    for a file that is no OTLP JSON or holds no span, CannotJudge where it is not clear which trace is meant.
    """
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DamagedRecording(f"{path} cannot be read as OTLP JSON: {error}") from error
    spans, refused = spans_from_json(text, str(path))
    traces = sorted({span.trace_id.hex() for span in spans if span.trace_id.hex().startswith(trace.lower())})
    if not traces:
        raise DamagedRecording(f"{path} holds no span" + (f" of a trace {trace}" if trace else ""))
    if len(traces) > 1:
        raise CannotJudge(f"{path} holds {len(traces)} traces: name one as {path}#{traces[0][:8]}")
    chosen = [span for span in spans if span.trace_id.hex() == traces[0]]
    return ForeignTrace(run_of_spans(chosen), refused)


def run_of_spans(spans: Sequence[Span]) -> RecordedRun:
    """Return the spans of one trace as a run. Copies of a span are one; of two versions the finished one counts."""
    kept: dict[bytes, Span] = {}
    for span in spans:
        twin = kept.get(span.span_id)
        if twin is None or twin.end_ns < span.end_ns:
            kept[span.span_id] = span
    ordered = _in_order(list(kept.values()))
    roots = [item.span for item in ordered if item.depth == 0]
    root = roots[0] if len(roots) == 1 else None
    payloads: dict[bytes, bytes] = {}
    paths: dict[bytes, tuple[str, ...]] = {}
    seen: dict[tuple[tuple[str, ...], str, str], int] = {}
    recorded = []
    for item in ordered:
        span = item.span
        above = paths.get(span.parent_span_id, ())
        kind = Kind.RUN if span is root else _kind_of(span)
        if kind is None:
            paths[span.span_id] = above
            recorded.append(RecordedSpan(span))
            continue
        node = _node(span, kind, above, item, seen)
        paths[span.span_id] = node.path
        asked = None if node.call is None else node.call.request
        answered = None if node.outcome is None else node.outcome.result
        kept_payloads = [payload for payload in (asked, answered) if payload is not None]
        payloads.update({payload.digest: payload.data for payload in kept_payloads if payload.data is not None})
        recorded.append(RecordedSpan(_with_counts(span), node))
    return RecordedRun(_run(ordered, root), tuple(recorded), payloads.get)


class _Placed(NamedTuple):
    """A span with its place: `begin` and `end` number all begins and ends of the trace."""

    span: Span
    depth: int
    begin: int
    end: int


def _in_order(spans: list[Span]) -> list[_Placed]:
    by_id = {span.span_id: span for span in spans}
    below: dict[bytes, list[Span]] = {}
    for span in spans:
        parent = span.parent_span_id if span.parent_span_id in by_id and span.parent_span_id != span.span_id else b""
        below.setdefault(parent, []).append(span)
    events: list[tuple[int, int, int, int]] = []  # time, end before begin before the end of an empty one, place
    found: list[tuple[Span, int]] = []
    stack = [(span, 0, 0) for span in _by_time(below.get(b"", []))]
    while stack:
        span, depth, not_before = stack.pop()
        begun = max(span.start_ns, not_before)
        place = len(found)
        found.append((span, depth))
        events.append((begun, 1, place, 0))
        if span.end_ns:
            events.append((max(span.end_ns, begun), 0 if span.end_ns > begun else 2, place, 1))
        stack += [(child, depth + 1, begun) for child in _by_time(below.get(span.span_id, []))]
    moments: dict[tuple[int, int], int] = {}
    for number, (_, _, place, is_end) in enumerate(sorted(events), start=1):
        moments[place, is_end] = number
    return [
        _Placed(span, depth, moments[place, 0], moments.get((place, 1), 0)) for place, (span, depth) in enumerate(found)
    ]


def _by_time(spans: list[Span]) -> list[Span]:
    """Latest first, as a stack wants them; ties by what they are, never by id."""
    return sorted(spans, key=lambda span: (span.start_ns, span.name, span.end_ns), reverse=True)


def _kind_of(span: Span) -> Kind | None:
    said = span.attributes.get(semconv.OPERATION_NAME) or span.attributes.get(_OPENINFERENCE_KIND)
    kind = _OPERATIONS.get(str(said).lower()) if said else None
    return Kind.TOOL if kind is None and semconv.TOOL_NAME in span.attributes else kind


def _node(
    span: Span,
    kind: Kind,
    above: tuple[str, ...],
    placed: _Placed,
    seen: dict[tuple[tuple[str, ...], str, str], int],
) -> Node:
    facts = span.attributes
    name = str(
        (facts.get(semconv.TOOL_NAME) or facts.get("tool.name") or span.name) if kind is Kind.TOOL else span.name
    )
    number = seen.get((above, kind.value, name), 0)
    seen[above, kind.value, name] = number + 1
    effect = {Kind.MODEL: SideEffect.READ, Kind.RETRIEVAL: SideEffect.READ, Kind.TOOL: SideEffect.EXTERNAL}
    asked, answered = _asked(kind, facts), _answered(kind, facts)
    side_effect = effect.get(kind, SideEffect.NONE)
    failure = None
    status = OutcomeStatus.OK if span.end_ns else OutcomeStatus.PENDING
    if span.status_code == 2:
        status, failure = OutcomeStatus.ERROR, Failure(str(facts.get(semconv.ERROR_TYPE, "")), span.status_message)
    return Node(
        b"",
        kind,
        name,
        (*above, f"{kind}:{name}#{number}"),
        placed.begin,
        placed.end,
        side_effect=side_effect,
        fidelity=Fidelity.MESSAGES,
        call=None if asked is None else Call(kind, name, side_effect, _payload(asked)),
        outcome=Outcome(status, None if answered is None else _payload(answered), failure=failure),
    )


def _asked(kind: Kind, facts: Mapping[str, Any]) -> Any:
    if kind is Kind.TOOL:
        return _first(facts, semconv.TOOL_CALL_ARGUMENTS, "tool.parameters", "input.value")
    if kind is Kind.RETRIEVAL:
        return _first(facts, semconv.RETRIEVAL_QUERY, "input.value")
    if kind is not Kind.MODEL:
        return _first(facts, semconv.INPUT_MESSAGES, "input.value")
    request = {
        "model": _first(facts, semconv.REQUEST_MODEL, "llm.model_name"),
        "system": _first(facts, semconv.SYSTEM_INSTRUCTIONS),
        "tools": _first(facts, semconv.TOOL_DEFINITIONS),
        "messages": _without_ids(_first(facts, semconv.INPUT_MESSAGES, "gen_ai.prompt", "input.value")),
        "parameters": _first(facts, "llm.invocation_parameters"),
        **{name: _plain(facts.get(key)) for key, name in _PARAMETERS.items()},
    }
    return {key: value for key, value in request.items() if value is not None} or None


def _answered(kind: Kind, facts: Mapping[str, Any]) -> Any:
    if kind is Kind.TOOL:
        return _first(facts, semconv.TOOL_CALL_RESULT, "output.value")
    if kind is Kind.RETRIEVAL:
        return _first(facts, semconv.RETRIEVAL_DOCUMENTS, "output.value")
    if kind is not Kind.MODEL:
        return _first(facts, semconv.OUTPUT_MESSAGES, "output.value")
    answer = {
        "text": _without_ids(_first(facts, semconv.OUTPUT_MESSAGES, "gen_ai.completion", "output.value")),
        "finish_reason": _plain(facts.get(semconv.RESPONSE_FINISH_REASONS)),
        "answering model": facts.get(semconv.RESPONSE_MODEL),
    }
    return {key: value for key, value in answer.items() if value is not None} or None


def _first(facts: Mapping[str, Any], *names: str) -> Any:
    found = next((facts[name] for name in names if facts.get(name) is not None), None)
    if isinstance(found, str) and found.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(found)
        except ValueError:
            return found
    return _plain(found)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _without_ids(value: Any) -> Any:
    """Return messages without the ids of tool calls, which are drawn anew for each run."""
    if isinstance(value, Mapping):
        return {key: _without_ids(item) for key, item in value.items() if key not in ("id", "tool_call_id")}
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def _payload(value: Any) -> Payload:
    return Payload.of(json.dumps(value, ensure_ascii=True).encode(), MediaType.JSON.value)


def _with_counts(span: Span) -> Span:
    """Return the span with OpenInference's token counts under the names that everything here reads."""
    names = {"llm.token_count.prompt": semconv.USAGE_INPUT_TOKENS}
    names["llm.token_count.completion"] = semconv.USAGE_OUTPUT_TOKENS
    found = {ours: span.attributes[theirs] for theirs, ours in names.items() if theirs in span.attributes}
    return replace(span, attributes={**found, **span.attributes}) if found else span


def _run(ordered: Sequence[_Placed], root: Span | None) -> Run:
    first = root if root is not None else ordered[0].span
    name = first.attributes.get(semconv.AGENT_NAME) or first.name
    service = first.resource.attributes.get("service.name", "")
    error = first.status_code == 2
    return Run(
        run_id=first.trace_id,
        trace_id=first.trace_id,
        root_span_id=first.span_id,
        agent=str(name),
        started_ns=first.start_ns,
        ended_ns=first.end_ns,
        status=RunStatus.ERROR if error else RunStatus.OK if first.end_ns else RunStatus.PENDING,
        service=str(service),
        mode="import",
    )
