"""From what a case says of an answer to the outcome that an interceptor serves.

Every shape has two faces: for HTTP (and models) bytes and a head, or a fault of the connection; for declared functions
a value, or the error that their client would raise. Owns both. No time, no matching: see `fixtures`.
"""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.transport_faults import Fault, TransportFault
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import (
    Approval,
    Call,
    Chunk,
    Failure,
    FailurePhase,
    HttpResponseHead,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
)
from otel_agent_replay.payload.classes import find_class
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.payload.failure import failure_of
from otel_agent_replay.replay.component.case import Attempt, Case, attempt_of, duration_ns
from otel_agent_replay.replay.component.rendered import Message, Renderer, as_bytes, renderer

_JSON = ("content-type", "application/json")
_EVENTS = ("content-type", "text/event-stream")
_OVER_HTTP = frozenset((Kind.HTTP, Kind.MODEL))
_CUT_JSON = '{"id": "fixture", "choices": [{"index": 0, "mess'
_FAULTS = {"refused": Fault.REFUSED, "reset": Fault.RESET}
_OWN_ERRORS: Mapping[str, tuple[str, str]] = {
    "timeout": ("builtins:TimeoutError", "timed out"),
    "refused": ("builtins:ConnectionRefusedError", "[Errno 111] Connection refused"),
    "reset": ("builtins:ConnectionResetError", "[Errno 104] Connection reset by peer"),
}
_RAISING = frozenset((*_OWN_ERRORS, "conflict", "rate_limited"))
_HTTP_ONLY = frozenset(("message", "response", "stream_broken"))


@dataclass(frozen=True, slots=True)
class Shapes:
    """Makes the outcomes of one case's answers."""

    case: Case

    def check(self, attempt: Attempt, kind: Kind, where: str) -> None:
        """Raise ConfigurationError for an answer that calls of that kind can never get."""
        if attempt.shape == "operation":
            for name in ("unknown", "running", "done"):
                inner = attempt.given.get(name)
                if inner is not None:
                    beside = sorted({"takes", "begins", "calls_back"} & set(inner))
                    if beside:
                        raise ConfigurationError(f"{where}: {', '.join(beside)} belongs beside operation, not inside")
                    self.check(attempt_of(inner), kind, f"{where}.operation.{name}")
            return
        over_http = kind in _OVER_HTTP
        if attempt.raises and (over_http or attempt.shape not in _RAISING):
            why = "over HTTP each client raises its own error" if over_http else f"{attempt.shape!r} raises none"
            raise ConfigurationError(f"{where}: `raises` says nothing here: {why}")
        if attempt.shape in _HTTP_ONLY and not over_http:
            raise ConfigurationError(f"{where}: {attempt.shape!r} is an answer over HTTP, and this is a {kind.value}")
        if attempt.shape == "message" and kind is not Kind.MODEL:
            raise ConfigurationError(f"{where}: a message is a model's answer, and this is a {kind.value}")
        if attempt.shape in ("value", "value_file", "approval") and over_http:
            raise ConfigurationError(f"{where}: over HTTP say `response` (or `message` of a model), not a value")
        if attempt.shape in ("conflict", "rate_limited") and not over_http and not attempt.raises:
            raise ConfigurationError(
                f"{where}: which error does the client of this {kind.value} raise for it? Say `raises: pkg.mod:Class`"
            )

    def outcome(self, attempt: Attempt, call: Call) -> Outcome:
        """Return what the call gets. Raises ConfigurationError for what cannot be made for it."""
        if attempt.shape == "error":
            return Outcome(OutcomeStatus.ERROR, failure=self._error(attempt.given))
        if call.kind in _OVER_HTTP:
            return self._over_http(attempt, call)
        return self._of_function(attempt)

    # --- declared functions ---

    def _of_function(self, attempt: Attempt) -> Outcome:
        given = attempt.given
        if attempt.shape in _RAISING:
            name, text = _OWN_ERRORS[attempt.shape] if attempt.shape in _OWN_ERRORS else ("", _told(attempt))
            failure = self._failure(attempt.raises or name, text, {})
            return Outcome(OutcomeStatus.ERROR, failure=failure)
        if attempt.shape == "value_file":
            data = self.case.read(given)
            decode(data)
            return _value(data)
        value: Any = given
        if attempt.shape == "approval":
            value = Approval(
                given["granted"], given.get("by", ""), given.get("policy", ""), tuple(given.get("allowed", ()))
            )
        elif attempt.shape == "needs_confirmation":
            value = {"status": "needs_confirmation", **given}
        elif attempt.shape == "malformed":
            value = given if isinstance(given, str) else _CUT_JSON
        return _value(encode(value).data)

    def _error(self, given: Mapping[str, Any]) -> Failure:
        state = given.get("state_file")
        if state is not None:
            data = self.case.read(state)
            self._class(given["type"])
            return Failure(given["type"], given.get("message", ""), FailurePhase.CALL, data)
        return self._failure(given["type"], given.get("message", ""), given.get("attributes", {}))

    def _failure(self, name: str, text: str, attributes: Mapping[str, Any]) -> Failure:
        self._class(name)
        state = encode({"args": [text] if text else [], "dict": dict(attributes)}).data
        return Failure(name, text, FailurePhase.CALL, state)

    @staticmethod
    def _class(name: str) -> None:
        found = find_class(name)
        if found is None or not issubclass(found, BaseException):
            raise ConfigurationError(
                f"{name!r} is no error class that is loaded: a fixture raises it, so the entry's module must import it"
            )

    # --- HTTP ---

    def _over_http(self, attempt: Attempt, call: Call) -> Outcome:
        given = attempt.given
        make: Mapping[str, Callable[[], Outcome]] = {
            "message": lambda: self._message(given, call),
            "response": lambda: self._response(given),
            "malformed": lambda: _malformed(given, call),
            "conflict": lambda: _answer(409, [_JSON], _error_body(call, 409, given)),
            "rate_limited": lambda: _answer(429, _retry_headers(given), _error_body(call, 429, None)),
            "needs_confirmation": lambda: _answer(202, [_JSON], as_bytes({"status": "needs_confirmation", **given})),
            "stream_broken": lambda: self._broken(given, call),
            "timeout": lambda: _fault(Fault.CONNECT_TIMEOUT if given == "connect" else Fault.READ_TIMEOUT),
        }
        maker = make.get(attempt.shape)
        return _fault(_FAULTS[attempt.shape]) if maker is None else maker()

    def _message(self, given: Mapping[str, Any], call: Call) -> Outcome:
        speaks, message, streamed = _asked(given, call)
        if not streamed:
            return _answer(200, [_JSON], as_bytes(speaks.whole(message)))
        return _in_pieces(200, [_EVENTS], speaks.events(message))

    def _broken(self, given: Mapping[str, Any], call: Call) -> Outcome:
        speaks, message, streamed = _asked(given["message"], call)
        if streamed:
            events = speaks.events(message)
            whole = _in_pieces(200, [_EVENTS], events[: given.get("after_events", len(events) // 2)])
        else:
            body = as_bytes(speaks.whole(message))
            whole = _answer(200, [_JSON], body[: len(body) // 2])
        return _broken_off(whole, failure_of(TransportFault(Fault.CUT), FailurePhase.BODY))

    def _response(self, given: Mapping[str, Any]) -> Outcome:
        headers = [(str(name), str(value)) for name, value in given.get("headers", ())]
        known = {name.lower() for name, _ in headers}
        if "body_file" in given:
            body = self.case.read(given["body_file"])
        elif "json" in given:
            body = as_bytes(given["json"])
            headers += [] if "content-type" in known else [_JSON]
        else:
            body = given.get("text", "").encode()
        pieces = _cut(body, given.get("pieces", ()))
        outcome = _in_pieces(given.get("status", 200), headers, pieces)
        if "error" in given:
            failure = self._error(given["error"])
            body_failure = Failure(failure.type, failure.message, FailurePhase.BODY, failure.state)
            return _broken_off(outcome, body_failure)
        if "broken" in given:
            return _broken_off(outcome, failure_of(TransportFault(Fault(given["broken"])), FailurePhase.BODY))
        return outcome


def _value(data: bytes) -> Outcome:
    return Outcome(OutcomeStatus.OK, Payload.of(data, MediaType.VALUE.value))


def _told(attempt: Attempt) -> str:
    if attempt.shape == "conflict":
        return f"409 Conflict: {json.dumps(attempt.given, ensure_ascii=False)}"
    after = attempt.given.get("retry_after")
    return "429 Too Many Requests" + (f": retry after {duration_ns(after) / 1e9:g} s" if after is not None else "")


def _malformed(given: str | bool, call: Call) -> Outcome:
    streamed = call.kind is Kind.MODEL and bool(_request_of(call).get("stream"))
    cut = f"data: {_CUT_JSON}\n\n" if streamed else _CUT_JSON
    text = given if isinstance(given, str) else cut
    return _answer(200, [_EVENTS if streamed else _JSON], text.encode())


def _request_of(call: Call) -> Mapping[str, Any]:
    try:
        request = json.loads(call.request.data or b"{}")
    except ValueError:
        return {}
    return request if isinstance(request, dict) else {}


def _fault(fault: Fault) -> Outcome:
    return Outcome(OutcomeStatus.ERROR, failure=failure_of(TransportFault(fault)))


def _broken_off(outcome: Outcome, failure: Failure) -> Outcome:
    return Outcome(OutcomeStatus.ERROR, outcome.result, outcome.head, outcome.chunks, failure=failure)


def _answer(status: int, headers: Sequence[tuple[str, str]], body: bytes) -> Outcome:
    return _in_pieces(status, headers, [body] if body else [])


def _in_pieces(status: int, headers: Sequence[tuple[str, str]], pieces: Sequence[bytes]) -> Outcome:
    body = b"".join(pieces)
    try:
        reason = http.HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    head = HttpResponseHead(status, reason, tuple(headers), "HTTP/1.1")
    media_type = next((value for name, value in headers if name.lower() == "content-type"), MediaType.BYTES.value)
    payload = Payload.of(body, media_type.partition(";")[0].strip().lower())
    return Outcome(OutcomeStatus.OK, payload, head, tuple(Chunk(len(piece), 0) for piece in pieces))


def _cut(body: bytes, sizes: Sequence[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(body[start : start + size])
        start += size
    return [piece for piece in (*pieces, body[start:]) if piece]


def _retry_headers(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    after = given.get("retry_after")
    return [_JSON] if after is None else [_JSON, ("retry-after", f"{duration_ns(after) / 1e9:g}")]


def _error_body(call: Call, status: int, given: Any) -> bytes:
    speaks = renderer(str(call.attributes.get(semconv.PROTOCOL, "")))
    if given is not None and not (speaks is not None and isinstance(given, str)):
        return as_bytes(given)
    text = given or {429: "Rate limit reached", 409: "Conflict"}.get(status, "error")
    return as_bytes({"error": text} if speaks is None else speaks.error(status, text))


def _asked(given: Mapping[str, Any], call: Call) -> tuple[Renderer, Message, bool]:
    """Return who renders the message for the call's protocol, the message, and whether it is to be streamed."""
    protocol = str(call.attributes.get(semconv.PROTOCOL, ""))
    speaks = renderer(protocol)
    if speaks is None:
        raise ConfigurationError(
            f"a message cannot be made for protocol {protocol or 'unknown'!r}: give its bytes by `response: body_file`"
        )
    request = _request_of(call)
    return speaks, Message.of(given, str(request.get("model", "fixture"))), bool(request.get("stream"))
