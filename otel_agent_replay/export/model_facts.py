"""What a model exchange says, read in full when it is sealed: usage, finish reasons, cost, what cannot be parsed.

Pure, and never on the host's threads: bodies are unpacked and parsed whole here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.model import AttributeValue, Call, Outcome, Payload
from otel_agent_replay.protocols import PROTOCOLS, Protocol, cost_usd, recognise

Facts = dict[str, AttributeValue]
Bodies = Callable[[bytes], bytes | None]


def model_facts(call: Call, outcome: Outcome | None, bodies: Bodies, *, start_ns: int) -> Facts:
    """Return the span attributes of a model exchange, over those that were taken while it ran.

    `bodies(digest)` gives a body's bytes. A body that is not there, or is of no known protocol, adds nothing.
    """
    facts: Facts = {}
    problems: list[str] = []
    request = _plain(call.request, () if call.head is None else call.head.headers, bodies, problems)
    protocol = _protocol(call, request)
    if protocol is not None:
        facts[semconv.PROTOCOL] = protocol.name
        facts[semconv.OPERATION_NAME] = protocol.operation
        url = "" if call.head is None else call.head.url
        facts[semconv.PROVIDER_NAME] = protocol.provider(url)
        if request is not None:
            facts.update(protocol.request_facts(request, url))
        if outcome is not None:
            _add_answer(protocol, outcome, bodies, facts, problems)
        _add_cost({**call.attributes, **(outcome.attributes if outcome else {}), **facts}, facts, start_ns)
    if problems:
        facts[semconv.MALFORMED] = tuple(problems)
    return facts


def _protocol(call: Call, request: bytes | None) -> Protocol | None:
    name = call.attributes.get(semconv.PROTOCOL)
    if isinstance(name, str) and name in PROTOCOLS:
        return PROTOCOLS[name]
    if call.head is None or request is None:
        return None
    return recognise(call.head.method, call.head.url, call.head.headers, request)


def _add_answer(protocol: Protocol, outcome: Outcome, bodies: Bodies, facts: Facts, problems: list[str]) -> None:
    head, result = outcome.head, outcome.result
    if head is None or result is None:
        return
    body = _plain(result, head.headers, bodies, problems)
    if body is None:
        return
    facts.update(protocol.response_facts(body, result.media_type, head.status))
    problems += protocol.fold(body, result.media_type, head.status).problems
    if outcome.chunks and protocol.framing(body[:64], result.media_type) is not None:
        facts[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] = outcome.chunks[0].after_ns / 1e9


def _add_cost(known: Mapping[str, AttributeValue], facts: Facts, start_ns: int) -> None:
    model = known.get(semconv.RESPONSE_MODEL) or known.get(semconv.REQUEST_MODEL)
    provider = known.get(semconv.PROVIDER_NAME)
    if isinstance(model, str) and isinstance(provider, str):
        cost = cost_usd(provider, model, known, at_ns=start_ns)
        if cost is not None:
            facts[semconv.COST_USD] = cost


def _plain(payload: Payload, headers: tuple[tuple[str, str], ...], bodies: Bodies, problems: list[str]) -> bytes | None:
    data = payload.data if payload.data is not None else bodies(payload.digest)
    if data is None:
        return None
    try:
        return decoded_body(data, headers)
    except CodingError as error:
        problems.append(f"content coding: {error}")
        return None
