"""Whether a request may be kept, and as which bytes: decoded once, masked where it must be, its bad parts left out.

What comes out is always protobuf: the sender's own bytes where nothing in them had to change. Pure, but for time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_agent_replay.payload.redaction import Redaction, Rule
from otel_agent_replay_collector.cleaning import clean_logs, clean_traces
from otel_agent_replay_collector.fast_zlib import TooLarge, gunzip
from otel_agent_replay_collector.json_requests import request_from_json
from otel_agent_replay_collector.refusal import too_large, undecodable
from otel_agent_replay_collector.request_file import LOGS, TRACES
from otel_agent_replay_collector.scanner import make_scanner
from otel_agent_replay_collector.wire_salvage import salvaged

_LARGE_JSON = 8 << 20
"""Bytes from which JSON is read one request at a time: as Python's objects it may take twenty times its size."""

_CLASSES: dict[int, Any] = {TRACES: ExportTraceServiceRequest, LOGS: ExportLogsServiceRequest}


@dataclass(slots=True)
class Admitted:
    """What to keep of a request: `data` None stands for the bytes that came. `rejected` items were left out (`why`)."""

    kind: int
    items: int
    data: bytes | None = None
    rejected: int = 0
    why: str = ""
    masked: bool = False

    def answer(self) -> Any:
        """Return the response message; an empty one when all was taken."""
        if self.kind == TRACES:
            traces = ExportTraceServiceResponse()
            if self.rejected:
                traces.partial_success.rejected_spans = self.rejected
                traces.partial_success.error_message = self.why
            return traces
        logs = ExportLogsServiceResponse()
        if self.rejected:
            logs.partial_success.rejected_log_records = self.rejected
            logs.partial_success.error_message = self.why
        return logs


class Admission:
    """Looks at requests by the built-in redaction rules and `rules`. May be used from several threads.

    `most` is the size in bytes that a request may have, also once it is decompressed.
    """

    def __init__(self, *, most: int, rules: Sequence[Rule] = (), key: bytes = b"") -> None:
        self._most = most
        self._scanner = make_scanner()
        self._redaction: Callable[[], Redaction] = lambda: Redaction(rules, key=key)
        self._only_built_in = not rules
        self._two_at_a_time = threading.BoundedSemaphore(2)
        self._one_large = threading.Lock()

    @property
    def scanner(self) -> str:
        """Name of the engine that looks for what must be masked."""
        return str(self._scanner.name)

    def at_once(self, data: memoryview, kind: int) -> Admitted | None:
        """Return a plain protobuf request that can be kept as it is; None when it needs `thorough`."""
        if not self._only_built_in:
            return None
        try:
            message = _CLASSES[kind].FromString(data)
        except DecodeError:
            return None
        return None if self._scanner.may_hold(data) else Admitted(kind, _count(message, kind))

    def thorough(self, data: bytes | memoryview, kind: int, *, is_json: bool, gzipped: bool) -> Admitted:
        """Return what to keep of any request. Raises Refused. Two requests are looked at at a time, others wait.

        More would not be quicker in one interpreter, and each may take a multiple of its size in memory.
        """
        with self._two_at_a_time:
            return self._thorough(data, kind, is_json=is_json, gzipped=gzipped)

    def _thorough(self, data: bytes | memoryview, kind: int, *, is_json: bool, gzipped: bool) -> Admitted:
        if gzipped:
            try:
                data = gunzip(data, self._most)
            except TooLarge:
                raise too_large("more than the allowed", self._most) from None
            except ValueError as error:
                raise undecodable(str(error)) from None
        message, admitted = self._decoded(bytes(data), kind, is_json=is_json)
        if gzipped and admitted.data is None:
            admitted.data = bytes(data)
        current = data if admitted.data is None else admitted.data
        if not self._only_built_in or self._scanner.may_hold(current):
            before = message.SerializeToString(deterministic=True)
            self._clean(message, kind)
            after = message.SerializeToString(deterministic=True)
            if after != before:
                admitted.data, admitted.masked = after, True
        return admitted

    def _decoded(self, data: bytes, kind: int, *, is_json: bool) -> tuple[Any, Admitted]:
        if is_json:
            try:
                with self._one_large if len(data) > _LARGE_JSON else contextlib.nullcontext():
                    message, rejected, why = request_from_json(data, _CLASSES[kind])
            except ValueError as error:
                raise undecodable(_shown(error)) from None
            count = _count(message, kind)
            return message, Admitted(kind, count, message.SerializeToString(), rejected, _shown(why))
        try:
            message = _CLASSES[kind].FromString(data)
            return message, Admitted(kind, _count(message, kind))
        except DecodeError as error:
            first = error
        try:
            message, rejected = salvaged(data, _CLASSES[kind])
        except ValueError as error:
            raise undecodable(f"{first}; {error}") from None
        why = f"{rejected} of its items cannot be decoded"
        return message, Admitted(kind, _count(message, kind), message.SerializeToString(), rejected, why)

    def _clean(self, message: Any, kind: int) -> None:
        message.DiscardUnknownFields()
        clean = clean_traces if kind == TRACES else clean_logs
        redaction = self._redaction()
        clean(message, redaction, self._scanner.may_hold if self._only_built_in else None)
        if redaction.has_learnt:  # a secret that one text gave away may stand in any other
            clean(message, redaction, None)


def _count(message: Any, kind: int) -> int:
    if kind == TRACES:
        return sum(len(scoped.spans) for group in message.resource_spans for scoped in group.scope_spans)
    return sum(len(scoped.log_records) for group in message.resource_logs for scoped in group.scope_logs)


def _shown(why: object) -> str:
    """Return a reason without what it quotes: the sender's values may be secret, and are long."""
    return str(why).partition("\n")[0][:200]
