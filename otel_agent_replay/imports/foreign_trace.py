"""A trace that another instrumentation emitted -> a run, as far as its attributes go: for comparing, never for replay.

Spans that say they are a model call, a tool, a retrieval or an agent (`gen_ai.*`, or OpenInference's names) become
steps with what they asked and answered; all others stay as they are and are compared by name and status. Their order
is that of causes (a child never begins before its parent), then of time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.errors import CannotJudge, DamagedRecording
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.trace_structure import Placed, Structure, structure_of
from otel_agent_replay.model import (
    AnomalyCode,
    Call,
    Failure,
    Fidelity,
    Kind,
    Loss,
    LossReason,
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

IMPORTED = "import"
"""The mode of a run that another tool recorded: it can be looked at, compared and judged, not run again."""

_DEEPEST = 200
"""Parts of a logical place; what lies deeper has the place of its ancestor there."""

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
    """Return the trace in a file of spans, of any format that `imports.files` reads.

    `trace` is the beginning of a trace id in hexadecimal, needed where a file holds several. Raises DamagedRecording
    for a file of no known format or without a span, CannotJudge where it is not clear which trace is meant.
    """
    found = read_spans(path)
    by_trace: dict[str, list[Span]] = {}
    for span in found.spans:
        name = span.trace_id.hex()
        if name.startswith(trace.lower()):
            by_trace.setdefault(name, []).append(span)
    if not by_trace:
        raise DamagedRecording(f"{path} holds no span" + (f" of a trace {trace}" if trace else ""))
    if len(by_trace) > 1:
        raise CannotJudge(f"{path} holds {len(by_trace)} traces: name one as {path}#{min(by_trace)[:8]}")
    (chosen,) = by_trace.values()
    return ForeignTrace(run_of_spans(chosen), [str(anomaly.detail) for anomaly in found.anomalies])


def run_of_spans(spans: Sequence[Span], source: str = "") -> RecordedRun:
    """Return the spans of one trace as a run; see `run_of_structure`."""
    return run_of_structure(structure_of(spans), source)


def run_of_structure(structure: Structure, source: str = "", run_id: bytes = b"") -> RecordedRun:
    """Return a trace as a run, its root span being the run's root; `source` names where it came from.

    Anomalies that say more than that a span came twice are its losses. `run_id` is that of the run when the lake has it
    already, else it is made of the trace id and the time of the root.
    """
    placed = structure.spans
    root = placed[structure.root]
    run = _run(structure, source, run_id)
    builder = _Builder(structure, run.run_id)
    made: list[RecordedSpan | None] = [None] * len(placed)
    builder.add(made, structure.root)
    for index in range(len(placed)):
        if index != structure.root:
            builder.add(made, index)
    spans = [item for _, item in sorted(zip((one.begin for one in placed), made, strict=True), key=_by_begin) if item]
    losses = tuple(
        Loss(LossReason.DAMAGED, anomaly.code.value, 1, anomaly.detail, run.run_id, anomaly.span_id, root.span.start_ns)
        for anomaly in structure.anomalies
        if anomaly.code is not AnomalyCode.DUPLICATE_SPAN
    )
    return RecordedRun(run, tuple(spans), builder.payloads.get, losses)


def _by_begin(pair: tuple[int, RecordedSpan | None]) -> int:
    return pair[0]


def imported_run_id(trace_id: bytes, started_ns: int) -> bytes:
    """Return the id of the run that a trace of others becomes: the same for the same trace and moment, a UUIDv7."""
    milliseconds = min(max(started_ns, 0) // 1_000_000, (1 << 48) - 1)
    drawn = int.from_bytes(hashlib.sha256(b"imported trace\0" + trace_id).digest()[:10], "big")
    random_a, random_b = drawn >> 68, drawn & (1 << 62) - 1
    return (milliseconds << 80 | 0x7 << 76 | random_a << 64 | 0b10 << 62 | random_b).to_bytes(16, "big")


class _Builder:
    """Makes recorded spans of placed ones, parents first; a span that is no step of an agent has no node."""

    def __init__(self, structure: Structure, run_id: bytes) -> None:
        self._placed = structure.spans
        self._root = structure.root
        self._run_id = run_id
        self._paths: dict[int, tuple[str, ...]] = {}
        self._seen: dict[tuple[tuple[str, ...], str, str], int] = {}
        self._steps = self._numbered()
        self.payloads: dict[bytes, bytes] = {}

    def _numbered(self) -> dict[int, int]:
        """Return the step of each crossing, in the order of begins."""
        kinds = ((item.begin, index, _kind_of(item.span)) for index, item in enumerate(self._placed))
        crossing = sorted(
            (begin, index) for begin, index, kind in kinds if kind and kind.is_crossing and index != self._root
        )
        return {index: step for step, (_, index) in enumerate(crossing, start=1)}

    def add(self, made: list[RecordedSpan | None], index: int) -> None:
        """Put the recorded span of place `index` into `made`."""
        item = self._placed[index]
        above = self._paths.get(self._root if item.parent is None else item.parent, ())
        kind = Kind.RUN if index == self._root else _kind_of(item.span)
        if kind is None:
            self._paths[index] = above
            made[index] = RecordedSpan(item.span)
            return
        node = _node(item, kind, above[:_DEEPEST], self._seen, self._steps.get(index), self._run_id)
        self._paths[index] = node.path
        asked = None if node.call is None else node.call.request
        answered = None if node.outcome is None else node.outcome.result
        for payload in (asked, answered):
            if payload is not None and payload.data is not None:
                self.payloads[payload.digest] = payload.data
        made[index] = RecordedSpan(_with_counts(item.span), node)


def _kind_of(span: Span) -> Kind | None:
    said = span.attributes.get(semconv.OPERATION_NAME) or span.attributes.get(_OPENINFERENCE_KIND)
    kind = _OPERATIONS.get(str(said).lower()) if said else None
    return Kind.TOOL if kind is None and semconv.TOOL_NAME in span.attributes else kind


def _node(
    placed: Placed,
    kind: Kind,
    above: tuple[str, ...],
    seen: dict[tuple[tuple[str, ...], str, str], int],
    step: int | None,
    run_id: bytes,
) -> Node:
    span = placed.span
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
        run_id,
        kind,
        name,
        (*above, f"{kind}:{name}#{number}"),
        placed.begin,
        placed.end,
        step=step,
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


def _run(structure: Structure, source: str, run_id: bytes) -> Run:
    root = structure.spans[structure.root].span
    name = root.attributes.get(semconv.AGENT_NAME) or root.name
    service = root.resource.attributes.get(semconv.SERVICE_NAME, "")
    thread = root.attributes.get(semconv.CONVERSATION_ID, "")
    error = root.status_code == 2
    return Run(
        run_id=run_id or imported_run_id(root.trace_id, root.start_ns),
        trace_id=root.trace_id,
        root_span_id=root.span_id,
        agent=str(name),
        started_ns=root.start_ns,
        ended_ns=root.end_ns,
        status=RunStatus.ERROR if error else RunStatus.OK if root.end_ns else RunStatus.PENDING,
        thread_id=str(thread),
        service=str(service),
        process=source,
        mode=IMPORTED,
    )
