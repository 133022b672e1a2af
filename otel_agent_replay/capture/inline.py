"""What the span that everyone sees carries when recording is inline: whole messages, arguments and results.

In the words of the GenAI conventions where they have them, as JSON texts, else the payload itself. Payloads are
redacted before they come here. Only asked for with `inline`: parsing a whole exchange takes the host's time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import decoded_body
from otel_agent_replay.model import Call, HttpResponseHead, Kind, Outcome, Payload
from otel_agent_replay.protocols import PROTOCOLS, Protocol

_log = logging.getLogger("otel_agent_replay")
_MOST_OF_A_BODY = 64 << 20  # bytes of one body that came in parts

Attributes = dict[str, "str | bytes"]


class Inline:
    """Builds the heavy attributes of one run's spans. Never raises; a defect is logged once."""

    def __init__(self) -> None:
        self._parts: dict[bytes, list[bytes]] = {}
        self._complained = False

    def part(self, span_id: bytes, data: bytes) -> None:
        """Keep a part of a body that is still arriving."""
        parts = self._parts.setdefault(span_id, [])
        if sum(map(len, parts)) + len(data) <= _MOST_OF_A_BODY:
            parts.append(data)

    def ended(self, span_id: bytes, call: Call, outcome: Outcome) -> Attributes:
        """Return the attributes of a crossing that has ended."""
        try:
            result = outcome.result
            parts = self._parts.pop(span_id, None)
            answer = None if result is None else result.data
            if parts is not None and result is not None and sum(map(len, parts)) == result.size:
                answer = b"".join(parts)
            return _of_crossing(call, outcome, answer)
        except Exception:
            if not self._complained:
                self._complained = True
                _log.exception("what a span should carry inline could not be put together; the recording has it")
            return {}


def payload_attribute(key: str, payload: Payload | None) -> Attributes:
    """Return the attribute `key` that holds a payload, text where it is text; {} when nothing was kept of it."""
    return {} if payload is None or payload.data is None else {key: _readable(payload.data)}


def _of_crossing(call: Call, outcome: Outcome, answer: bytes | None) -> Attributes:
    if call.kind is Kind.MODEL:
        found = _messages(call, outcome, answer)
    elif call.kind is Kind.TOOL:
        return _named((semconv.TOOL_CALL_ARGUMENTS, call.request.data), (semconv.TOOL_CALL_RESULT, answer))
    elif call.kind is Kind.RETRIEVAL:
        return _named((semconv.RETRIEVAL_QUERY, _query(call.request.data)), (semconv.RETRIEVAL_DOCUMENTS, answer))
    else:
        found = {}
    return {**found, **_named((semconv.REQUEST_BODY, call.request.data), (semconv.RESULT_BODY, answer))}


def _messages(call: Call, outcome: Outcome, answer: bytes | None) -> Attributes:
    protocol = PROTOCOLS.get(str(call.attributes.get(semconv.PROTOCOL, "")))
    if protocol is None:
        return {}
    found: Attributes = {}
    if call.request.data:
        given = protocol.request_messages(call.request.data)
        _add(found, semconv.SYSTEM_INSTRUCTIONS, given.system)
        _add(found, semconv.INPUT_MESSAGES, given.messages)
        _add(found, semconv.TOOL_DEFINITIONS, given.tools)
    if answer is not None and outcome.head is not None and outcome.result is not None:
        _add(found, semconv.OUTPUT_MESSAGES, _output(protocol, outcome.head, outcome.result.media_type, answer))
    return found


def _output(protocol: Protocol, head: HttpResponseHead, media_type: str, answer: bytes) -> Sequence[Mapping[str, Any]]:
    return protocol.fold(decoded_body(answer, head.headers), media_type, head.status).output_messages


def _add(found: Attributes, key: str, items: Sequence[Mapping[str, Any]]) -> None:
    if items:
        text = json.dumps(list(items), ensure_ascii=False, separators=(",", ":"))
        # Half of a surrogate pair has no form in OTLP: one would cost the exporter its whole batch.
        found[key] = text.encode("utf-8", "replace").decode("utf-8")


def _query(arguments: bytes | None) -> bytes | None:
    """Return what was searched for: the argument `query`, or the only text among them; else all of them."""
    if arguments is None:
        return None
    given = json.loads(arguments)
    if isinstance(given, dict):
        texts = [value for value in given.values() if isinstance(value, str)]
        query = given.get("query")
        if isinstance(query, str) or len(texts) == 1:
            return (query if isinstance(query, str) else texts[0]).encode("utf-8", "replace")
    return arguments


def _named(*found: tuple[str, bytes | None]) -> Attributes:
    return {key: _readable(data) for key, data in found if data is not None}


def _readable(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data
