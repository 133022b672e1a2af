"""The recorded model steps of a run as questions that can be asked again, each with its recorded answer.

Owns which steps those are: a step whose request or answer is not there byte for byte is left out, with the reason.
Reads the recording only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.errors import CannotJudge, RecordingError
from otel_agent_replay.model import (
    AnswerSource,
    Fidelity,
    Kind,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RecordedSpan,
)
from otel_agent_replay.payload.masks import MASKED
from otel_agent_replay.protocols import PROTOCOLS, Protocol, recognise
from otel_agent_replay.protocols.json_text import as_count
from otel_agent_replay.replay.ask.answer import Answer

_ENOUGH = frozenset((Fidelity.WIRE, Fidelity.EXCHANGE))


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A question that was put to a model, and what it answered.

    `body` is the request as it was recorded; `masked`: redaction replaced something in it. `url` is "" where an
    imported recording does not say. Tokens and cost are the recorded ones, None where nobody told them.
    """

    run_id: bytes
    step: int
    protocol: Protocol
    provider: str
    model: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    answer: Answer
    masked: bool
    output_limit: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A model step that cannot be asked again, and why."""

    run_id: bytes
    step: int
    reason: str


def model_steps(recorded: RecordedRun) -> Iterator[RecordedStep | SkippedStep]:
    """Yield the model steps of a run in order, one at a time: bodies are read as they are asked for."""
    for item in recorded.spans:
        node = item.node
        if node is not None and node.kind is Kind.MODEL and node.step is not None:
            yield _step(recorded, item, node, node.step)


def model_step(recorded: RecordedRun, number: int) -> RecordedStep:
    """Return one model step. Raises CannotJudge, with the reason, where it cannot be asked again."""
    run = recorded.run.run_id.hex()
    there = []
    for item in recorded.spans:
        node = item.node
        if node is None or node.step is None:
            continue
        if node.kind is Kind.MODEL:
            there.append(node.step)
        if node.step == number:
            if node.kind is not Kind.MODEL:
                raise CannotJudge(f"step {number} of run {run} is no model call but {node.kind} {node.name!r}")
            found = _step(recorded, item, node, number)
            if isinstance(found, SkippedStep):
                raise CannotJudge(f"step {number} of run {run} cannot be asked again: {found.reason}")
            return found
    shown = ", ".join(map(str, there[:20])) or "none"
    raise CannotJudge(f"run {run} has no step {number}; its model steps: {shown}")


def _step(recorded: RecordedRun, item: RecordedSpan, node: Node, number: int) -> RecordedStep | SkippedStep:
    try:
        return _asked(recorded, item, node, number)
    except _CannotAsk as why:
        return SkippedStep(recorded.run.run_id, number, str(why))


class _CannotAsk(Exception):
    """Why a step cannot be asked again, in a few words."""


def _asked(recorded: RecordedRun, item: RecordedSpan, node: Node, number: int) -> RecordedStep:
    if node.fidelity not in _ENOUGH:
        raise _CannotAsk(f"it was recorded with fidelity `{node.fidelity}`: the request itself is not there")
    if node.source is not AnswerSource.LIVE:
        raise _CannotAsk(f"no model answered it: the answer is from `{node.source}`")
    call = node.call
    if call is None:
        raise _CannotAsk("its request was not recorded")
    body = _data(recorded, call.request, "request")
    head = call.head
    url = "" if head is None else head.url
    protocol = _protocol(item, node, body)
    if protocol is None:
        raise _CannotAsk("its protocol is not known here")
    answer = _answered(recorded, item, node.outcome)
    facts = {**protocol.request_facts(body, url), **item.span.attributes}
    model = facts.get(semconv.REQUEST_MODEL)
    limit = facts.get(semconv.REQUEST_MAX_TOKENS)
    cost = facts.get(semconv.COST_USD)
    return RecordedStep(
        recorded.run.run_id,
        number,
        protocol,
        protocol.provider(url),
        model if isinstance(model, str) else "",
        url,
        () if head is None else tuple(head.headers),
        body,
        answer,
        MASKED.search(body.decode("utf-8", "replace")) is not None,
        limit if isinstance(limit, int) else None,
        as_count(facts.get(semconv.USAGE_INPUT_TOKENS)),
        as_count(facts.get(semconv.USAGE_OUTPUT_TOKENS)),
        float(cost) if isinstance(cost, (int, float)) else None,
    )


def _answered(recorded: RecordedRun, item: RecordedSpan, outcome: Outcome | None) -> Answer:
    if outcome is None or outcome.status is OutcomeStatus.PENDING:
        raise _CannotAsk("it was never answered")
    if outcome.status is not OutcomeStatus.OK:
        raise _CannotAsk(f"its recorded call ended as `{outcome.status}`: there is no answer to compare with")
    status = 200 if outcome.head is None else outcome.head.status
    if status >= 400:
        raise _CannotAsk(f"its recorded answer is an error (HTTP {status}): there is no action to compare with")
    if outcome.closed_early:
        raise _CannotAsk("its recorded answer was left before its end")
    if outcome.result is None:
        raise _CannotAsk("its answer was not recorded")
    headers = () if outcome.head is None else outcome.head.headers
    try:
        body = decoded_body(_data(recorded, outcome.result, "answer"), headers)
    except CodingError as error:
        raise _CannotAsk(f"its recorded answer cannot be unpacked: {error}") from error
    took = item.span.end_ns - item.span.start_ns if item.span.end_ns else None
    first = outcome.chunks[0].after_ns if outcome.chunks else None
    return Answer(status, outcome.result.media_type, body, took, first)


def _data(recorded: RecordedRun, payload: Payload, side: str) -> bytes:
    try:
        data = recorded.bytes_of(payload)
    except RecordingError as error:
        raise _CannotAsk(f"its {side} cannot be read: {error}") from error
    if data is None:
        raise _CannotAsk(f"its {side} was kept by digest only, or is gone")
    return data


def _protocol(item: RecordedSpan, node: Node, body: bytes) -> Protocol | None:
    call = node.call
    named = item.span.attributes.get(semconv.PROTOCOL) or (call.attributes.get(semconv.PROTOCOL) if call else None)
    if isinstance(named, str) and named in PROTOCOLS:
        return PROTOCOLS[named]
    if call is None or call.head is None:
        return None
    return recognise(call.head.method, call.head.url, call.head.headers, body)
