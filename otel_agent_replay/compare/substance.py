"""What of a node counts when two runs are compared, as JSON trees, and what is volatile beside it.

Owns the line between a change and noise: provider ids, creation times, fingerprints, chunking, spelling of
JSON and loopback ports are volatile (counted, never a change); everything else is substance. A payload of which
only the digest was kept is compared by digest and says so.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.compare.model_forms import finish_in_one_form, request_in_one_form
from otel_agent_replay.compare.model_messages import settled_request
from otel_agent_replay.model import Call, Failure, Kind, MediaType, Node, Outcome, Payload, RecordedRun, RecordedSpan
from otel_agent_replay.model.exchange import MEANINGFUL_HEADERS
from otel_agent_replay.payload.canonical import is_json
from otel_agent_replay.protocols import PROTOCOLS, Protocol, recognise

_IDS = "ids of tool calls and messages"
_LOOPBACK = re.compile(r"\b(127\.0\.0\.1|localhost|\[::1\]):\d+")

KEPT_BYTES = 16 * 1024 * 1024
"""Payloads of a run whose trees are kept, in bytes: pairing looks at a node once, telling its differences again."""


@dataclass(frozen=True, slots=True)
class Substance:
    """One side of an exchange: `tree` is what counts, `volatile` what does not, by name.

    `known` is False when the bytes were not kept: then only `digest` can be compared.
    """

    tree: Any
    digest: bytes
    known: bool = True
    volatile: Mapping[str, Any] = field(default_factory=dict)


def without_loopback_ports(text: str) -> str:
    """Return `text` with the ports of this machine's own addresses as `*`: they are drawn anew by every test server."""
    return _LOOPBACK.sub(r"\1:*", text) if ":" in text else text


class RunSubstance:
    """The substance of one run's nodes, read when asked for; that of the last few is kept, up to `KEPT_BYTES`.

    With `in_one_form` model calls are read as messages, whatever form they were recorded in (see `model_forms`).
    """

    def __init__(self, run: RecordedRun, *, in_one_form: bool = False) -> None:
        self._payload = run.payload
        self._in_one_form = in_one_form
        self._kept: OrderedDict[tuple[int, bool], tuple[RecordedSpan, Substance | None]] = OrderedDict()
        self._kept_bytes = 0
        self.unreadable: set[bytes] = set()
        """Digests of payloads that were asked for and not kept."""

    def request(self, recorded: RecordedSpan) -> Substance | None:
        """Return what was asked, None where nothing is."""
        return self._remembered(recorded, True, self._request)

    def result(self, recorded: RecordedSpan) -> Substance | None:
        """Return what came back, None where nothing did (a failure is not here: see `failure_tree`)."""
        return self._remembered(recorded, False, self._result)

    def _remembered(
        self, recorded: RecordedSpan, asked: bool, read: Callable[[RecordedSpan], Substance | None]
    ) -> Substance | None:
        key = id(recorded), asked
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[1]
        found = read(recorded)
        self._kept[key] = recorded, found  # with the span, so that its id is not given to another
        self._kept_bytes += _size(recorded, asked)
        while self._kept_bytes > KEPT_BYTES:
            (_, was_asked), (oldest, _) = self._kept.popitem(last=False)
            self._kept_bytes -= _size(oldest, was_asked)
        return found

    def _request(self, recorded: RecordedSpan) -> Substance | None:
        call = None if recorded.node is None else recorded.node.call
        if call is None:
            return None
        body = self._decoded(call.request, () if call.head is None else call.head.headers)
        protocol = self._protocol(recorded) if self._in_one_form and call.kind is Kind.MODEL else None
        if protocol is not None and body is not None:
            url = "" if call.head is None else call.head.url
            settled, ids = settled_request(request_in_one_form(protocol, body, url, recorded.span.attributes))
            return Substance(settled, call.request.digest, True, _drawn(ids))
        if call.head is None:
            tree = None if body is None else _tree(body, call.request.media_type)
            if call.kind is not Kind.MODEL or not isinstance(tree, dict):
                return Substance(tree, call.request.digest, body is not None)
            tree, ids = settled_request(tree)
            return Substance(tree, call.request.digest, True, _drawn(ids))
        tree, volatile = self._http_request(call, body)
        return Substance(tree, call.request.digest, body is not None, volatile)

    def _result(self, recorded: RecordedSpan) -> Substance | None:
        node = recorded.node
        outcome = None if node is None else node.outcome
        if node is None or outcome is None or (outcome.result is None and outcome.head is None):
            return None
        payload = outcome.result or Payload.of(b"", MediaType.BYTES.value)
        if (
            node.kind is Kind.CHECKPOINT
        ):  # the state is the request: what lies beside it are a framework's ids and times
            return Substance(None, payload.digest, True, {"what lies beside a checkpoint's state": payload.digest})
        body = self._decoded(payload, () if outcome.head is None else outcome.head.headers)
        if outcome.head is None:
            if node.kind is Kind.MODEL and body is not None:
                answer = self._model_answer(recorded, outcome, body, payload.media_type)
                if answer is not None:
                    return answer
            tree = None if body is None else _tree(body, payload.media_type)
            return Substance(tree, payload.digest, body is not None)
        if body is None:
            return Substance({"status": outcome.head.status}, payload.digest, False)
        if node.kind is Kind.MODEL:
            answer = self._model_answer(recorded, outcome, body, payload.media_type)
            if answer is not None:
                return answer
        headers = {"response headers": sorted(outcome.head.headers)}
        tree = {"status": outcome.head.status, "body": _tree(body, payload.media_type)}
        return Substance(tree, payload.digest, True, headers)

    def _decoded(self, payload: Payload, headers: Sequence[tuple[str, str]]) -> bytes | None:
        data = payload.data if payload.data is not None else self._payload(payload.digest)
        if data is None:
            self.unreadable.add(payload.digest)
            return None
        return _without_coding(data, headers)

    def _http_request(self, call: Call, body: bytes | None) -> tuple[Any, Mapping[str, Any]]:
        head = call.head
        if head is None:
            raise AssertionError("asked for the HTTP side of a call that has none")
        url = without_loopback_ports(head.url)
        volatile: dict[str, Any] = {"loopback port": head.url} if url != head.url else {}
        meaning = {name.lower(): value for name, value in head.headers if name.lower() in _COMPARED_HEADERS}
        tree: dict[str, Any] = {"method": head.method.upper(), "url": url, "headers": meaning}
        if body is None:
            return tree, volatile
        content = _tree(body, call.request.media_type)
        if call.kind is Kind.MODEL and isinstance(content, dict):
            content, ids = settled_request(content)
            volatile.update(_drawn(ids))
        tree["body"] = content
        return tree, volatile

    def _model_answer(self, recorded: RecordedSpan, outcome: Outcome, body: bytes, media_type: str) -> Substance | None:
        protocol = self._protocol(recorded)
        if protocol is None or outcome.result is None:
            return None
        status = 200 if outcome.head is None else outcome.head.status
        folded = protocol.fold(body, media_type, status)
        calls = [
            {"name": call.name, "arguments": call.arguments if call.arguments_valid_json else call.arguments_raw}
            for call in folded.tool_calls
        ]
        reason = finish_in_one_form(folded.finish_reason) if self._in_one_form else folded.finish_reason
        tree: dict[str, Any] = {"finish_reason": reason, "text": folded.text, "tool_calls": calls}
        if folded.refusal is not None:
            tree["refusal"] = folded.refusal
        if folded.model is not None:
            tree["answering model"] = folded.model
        if status != 200:
            tree["status"] = status
        if folded.error is not None:
            error = folded.error
            tree["error"] = {"type": error.type, "message": error.message, "code": error.code}
        if not folded.complete:
            tree["complete"] = False
        choices = _other_choices(folded.output_messages)
        if choices:
            tree["other choices"] = choices
        volatile = {
            "response id": folded.response_id,
            _IDS: [call.id for call in folded.tool_calls],
            "spelling of tool arguments": [call.arguments_raw for call in folded.tool_calls],
            "reasoning text": folded.reasoning,
        }
        return Substance(tree, outcome.result.digest, True, volatile)

    def _protocol(self, recorded: RecordedSpan) -> Protocol | None:
        node = recorded.node
        if node is None or node.call is None:
            return None
        name = recorded.span.attributes.get(semconv.PROTOCOL) or node.call.attributes.get(semconv.PROTOCOL)
        if isinstance(name, str) and name in PROTOCOLS:
            return PROTOCOLS[name]
        head = node.call.head
        if head is None:
            return None
        body = self._decoded(node.call.request, head.headers)
        return None if body is None else recognise(head.method, head.url, head.headers, body)


_DECODE = json.JSONDecoder().decode


def _size(recorded: RecordedSpan, asked: bool) -> int:
    """Return the bytes of a span's payload, and some for what holds them."""
    node = recorded.node
    payload = None
    if node is not None and asked:
        payload = None if node.call is None else node.call.request
    elif node is not None:
        payload = None if node.outcome is None else node.outcome.result
    return 200 + (0 if payload is None else payload.size)


_COMPARED_HEADERS = MEANINGFUL_HEADERS - {"accept", "content-encoding"}
# `accept` and `content-encoding` are in a call's digest but change no meaning once both sides are decoded.


def failure_tree(failure: Failure | None) -> Any:
    """Return an exception as a tree: its class, its message, and what it was raised from."""
    if failure is None:
        return None
    tree: dict[str, Any] = {"type": failure.type, "message": without_loopback_ports(failure.message)}
    if failure.cause is not None:
        tree["cause"] = failure_tree(failure.cause)
    return tree


def environment_of(node: Node) -> dict[str, Any]:
    """Return the environment variables that the node's code read, the last value of each."""
    return {
        read.name: without_loopback_ports(read.value) if isinstance(read.value, str) else read.value
        for read in node.reads
        if read.kind is Kind.ENV and not read.masked
    }


def _drawn(ids: Sequence[str]) -> dict[str, Any]:
    return {_IDS: ids} if ids else {}


def _other_choices(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the visible parts of all choices but the first, ids left out."""
    return [
        [{key: value for key, value in part.items() if key != "id"} for part in message.get("parts", [])]
        for message in messages[1:]
    ]


def _tree(body: bytes, media_type: str) -> Any:
    """Return the body as a JSON tree; text as text, other bytes as their size and digest."""
    if is_json(media_type) or body[:1] in (b"{", b"["):
        try:
            return _load_json(body)
        except (ValueError, RecursionError):
            pass  # said by the recording itself (semconv.MALFORMED); compared as text below
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": len(body), "sha256": Payload.of(body, media_type).digest.hex()}


def _load_json(body: bytes) -> Any:
    """Return `json.loads(body)`, without first guessing among encodings where it begins as ASCII does."""
    plain = body[:2].isascii() and b"\0" not in body[:4]
    return _DECODE(body.decode("utf-8", "surrogatepass")) if plain else json.loads(body)


def _without_coding(data: bytes, headers: Sequence[tuple[str, str]]) -> bytes:
    """Undo gzip and deflate; a body cut short gives what was there, another or broken coding its bytes."""
    coding = next((value.strip().lower() for name, value in headers if name.lower() == "content-encoding"), "")
    if coding not in {"gzip", "x-gzip", "deflate"}:
        return data
    try:
        return zlib.decompressobj(wbits=47 if "gzip" in coding else zlib.MAX_WBITS).decompress(data)
    except zlib.error:
        return data
