"""A run as JSON, for scripts: its facts, spans, steps in full, coverage.

Every document says its schema and version; the rules are those of `json_report`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.model import Attempt, Node, Outcome, Payload, RecordedRun, RecordedSpan, Run, allowed_words
from otel_agent_replay.payload.canonical import is_json
from otel_agent_replay.protocols import PROTOCOLS
from otel_agent_replay.report.self_time import self_times

SCHEMA_VERSION = 1


def run_facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run."""
    versions = run.versions
    names = ("agent", "prompt", "tool_schema", "model_route", "policy", "index", "code", "source")
    return {
        "run_id": run.run_id.hex(),
        "trace_id": run.trace_id.hex(),
        "agent": run.agent,
        "status": run.status.value,
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns or None,
        "mode": run.mode,
        "origin_run_id": run.origin_run_id.hex() or None,
        "fork_step": run.fork_step or None,
        "attempt": run.attempt,
        "thread_id": run.thread_id or None,
        "service": run.service or None,
        "entry": run.entry or None,
        "versions": {name: value for name in names if (value := getattr(versions, name))},
        "packages": dict(versions.packages),
    }


def run_json(recorded: RecordedRun) -> dict[str, Any]:
    """Return a run with its spans in order, `schema` "agent-replay/run"; bodies are left out, digests are there.

    `superseded` are spans of earlier attempts that a later one made again; they are not among `spans`. `self_ns` of a
    span is its time without that of its children; `allows` says what an imported run may be used for.
    """
    return {
        "schema": "agent-replay/run",
        "schema_version": SCHEMA_VERSION,
        "run": run_facts(recorded.run),
        "attempts": [_attempt(attempt) for attempt in recorded.attempts],
        "allows": allowed_words(recorded) or None,
        "coverage": coverage_json(recorded),
        "superseded": [span_json(item) for item in recorded.superseded],
        "spans": [
            {**span_json(item), "self_ns": own}
            for item, own in zip(recorded.spans, self_times(recorded.spans), strict=True)
        ],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "status": attempt.status.value,
        "started_ns": attempt.started_ns,
        "ended_ns": attempt.ended_ns or None,
        "mode": attempt.mode,
        "process": attempt.process or None,
        "trace_id": attempt.trace_id.hex(),
        "span_id": attempt.span_id.hex(),
    }


def coverage_document(recorded: RecordedRun) -> dict[str, Any]:
    """Return the coverage of a run as a document of its own, `schema` "agent-replay/coverage"."""
    head = {"schema": "agent-replay/coverage", "schema_version": SCHEMA_VERSION}
    return {**head, "run_id": recorded.run.run_id.hex(), **coverage_json(recorded)}


def step_json(recorded: RecordedRun, step: int, checkpoint: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one step with its bodies, `schema` "agent-replay/step".

    `messages` is a model exchange in OpenTelemetry's GenAI form (`gen_ai.input.messages` and so on), null for others.
    `checkpoint` is what `checkpoint_facts` says of one. A JSON body is there as JSON, another as text or, when it is
    not UTF-8, as hexadecimal under `bytes`; null when it was not kept. Raises CannotJudge for a step that is not there.
    """
    node = node_of_step(recorded, step)
    span = next(item for item in recorded.spans if item.node is node)
    outcome = node.outcome
    head = None if node.call is None else node.call.head
    return {
        "schema": "agent-replay/step",
        "schema_version": SCHEMA_VERSION,
        "run_id": recorded.run.run_id.hex(),
        **span_json(span),
        "request_head": None
        if head is None
        else {"method": head.method, "url": head.url, "headers": list(head.headers)},
        "request_body": None if node.call is None else _body(recorded, node.call.request),
        "result_body": None if outcome is None or outcome.result is None else _body(recorded, outcome.result),
        "messages": _messages(recorded, span),
        "checkpoint": None if checkpoint is None else plain(checkpoint),
        "notes": [*(node.call.notes if node.call else ()), *(outcome.notes if outcome else ())],
        "reads": [
            {"kind": read.kind.value, "name": read.name, "value": plain(read.value), "masked": read.masked}
            for read in node.reads
        ],
    }


def node_of_step(recorded: RecordedRun, step: int) -> Node:
    """Return the node of a step. Raises CannotJudge when the run has none of that number."""
    steps = {node.step: node for node in recorded.nodes if node.step is not None}
    if step not in steps:
        there = f"it has steps {min(steps)} to {max(steps)}" if steps else "it has no steps"
        raise CannotJudge(f"run {recorded.run.run_id.hex()} has no step {step}; {there}")
    return steps[step]


def _messages(recorded: RecordedRun, span: RecordedSpan) -> dict[str, Any] | None:
    node = span.node
    protocol = PROTOCOLS.get(str(span.span.attributes.get(semconv.PROTOCOL, "")))
    if protocol is None or node is None or node.call is None:
        return None
    request = recorded.bytes_of(node.call.request)
    given = None if request is None else protocol.request_messages(request)
    outcome = node.outcome
    answer = None
    if outcome is not None and outcome.result is not None:
        body = recorded.bytes_of(outcome.result)
        headers, status = ((), 200) if outcome.head is None else (outcome.head.headers, outcome.head.status)
        if body is not None:
            with suppress(CodingError):  # what cannot be unpacked has no messages; its bytes stand beside
                answer = protocol.fold(decoded_body(body, headers), outcome.result.media_type, status)
    return {
        semconv.SYSTEM_INSTRUCTIONS: None if given is None else plain(given.system),
        semconv.INPUT_MESSAGES: None if given is None else plain(given.messages),
        semconv.TOOL_DEFINITIONS: None if given is None else plain(given.tools),
        semconv.OUTPUT_MESSAGES: None if answer is None else plain(answer.output_messages),
    }


def _body(recorded: RecordedRun, payload: Payload) -> Any:
    data = recorded.bytes_of(payload)
    if data is None:
        return None
    if is_json(payload.media_type):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            pass  # malformed JSON is given as the text it is
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": data.hex()}


def coverage_json(recorded: RecordedRun) -> dict[str, Any]:
    """Return what was captured, what was not, and what was lost."""
    return {
        "captured": [
            {"what": entry.what, "state": entry.state, "detail": entry.detail}
            for entry in recorded.run.coverage.entries
        ],
        "losses": [
            {"reason": loss.reason.value, "what": loss.what, "count": loss.count, "detail": loss.detail}
            for loss in recorded.losses
        ],
    }


def span_json(recorded: RecordedSpan) -> dict[str, Any]:
    """Return one span; `node` is null for a span of another library."""
    span, node = recorded.span, recorded.node
    result: dict[str, Any] = {
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex() or None,
        "name": span.name,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns or None,
        "attributes": plain(span.attributes),
        "node": None,
    }
    if node is not None:
        result["node"] = {
            "run_id": node.run_id.hex(),
            "step": node.step,
            "kind": node.kind.value,
            "name": node.name,
            "path": list(node.path),
            "side_effect": node.side_effect.value,
            "source": node.source.value,
            "request": None if node.call is None else payload_facts(node.call.request),
            "outcome": None if node.outcome is None else _outcome(node.outcome),
            "reads": len(node.reads),
        }
    return result


def payload_facts(payload: Payload) -> dict[str, Any]:
    """Return digest, size and media type of a payload."""
    return {"sha256": payload.digest.hex(), "size": payload.size, "media_type": payload.media_type}


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: bytes as hexadecimal, anything unknown as its repr."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    return repr(value)


def _outcome(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    return {
        "status": outcome.status.value,
        "result": None if outcome.result is None else payload_facts(outcome.result),
        "http_status": None if outcome.head is None else outcome.head.status,
        "chunks": len(outcome.chunks),
        "closed_early": outcome.closed_early,
        "failure": None if failure is None else {"type": failure.type, "message": failure.message},
    }
