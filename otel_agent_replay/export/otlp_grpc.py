"""Messages of spans -> an OTLP endpoint over gRPC, on raw bytes: what is sent is a message already."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_agent_replay.export.otlp_http import look_at
from otel_agent_replay.export.otlp_retry import TRIES, Insistence, NotTaken

_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_TRY_AGAIN = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""As the specification of OTLP says; RESOURCE_EXHAUSTED too, where it comes with RetryInfo."""

_NO_HANDSHAKE = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS (--insecure, or OTEL_EXPORTER_OTLP_INSECURE=true, leaves it out)",
    "CERTIFICATE_VERIFY_FAILED": "nobody known vouches for its certificate (OTEL_EXPORTER_OTLP_CERTIFICATE)",
}
"""What gRPC calls unavailable though it will never be otherwise, by a word of BoringSSL's."""

_NOBODY = ("failed to connect to all addresses", "DNS resolution failed", "errors resolving")
"""How gRPC itself, and no endpoint, says that nothing was reached."""

_DETAILS = "grpc-status-details-bin"


@dataclass(slots=True)
class OtlpGrpcSender:
    """Sends to `address`, HOST:PORT. `credentials` are those of TLS, None: without TLS.

    `headers` go with every call. `tries` is how often a message is sent before that is given up; `wait` sleeps (tests
    give their own).
    """

    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    credentials: Any = None
    timeout_s: float = 30.0
    tries: int = TRIES
    wait: Callable[[float], None] = time.sleep
    _export: Any = None
    _insistence: Insistence | None = None

    def send(self, message: TracesData) -> None:
        """Send one message. Raises ExportRefused when it was not taken, or not wholly."""
        body = message.SerializeToString()  # an ExportTraceServiceRequest has the same fields
        if self._insistence is None:
            self._insistence = Insistence(self._who(), tries=self.tries, wait=self.wait)
        self._insistence.until_taken(lambda: self._call(body))

    def _call(self, body: bytes) -> None:
        if self._export is None:
            compression = grpc.Compression.Gzip
            channel = (
                grpc.insecure_channel(self.address, compression=compression)
                if self.credentials is None
                else grpc.secure_channel(self.address, self.credentials, compression=compression)
            )
            self._export = channel.unary_unary(_METHOD)
        metadata = tuple((name.lower(), value) for name, value in self.headers.items())
        try:
            answer = self._export(body, timeout=self.timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise _not_taken(error) from error
        look_at(answer, self._who())

    def _who(self) -> str:
        return f"{self.address} (gRPC{'' if self.credentials is None else ', TLS'})"


def credentials_of(authority: str, certificate: str, key: str) -> Any:
    """Return credentials of TLS out of PEM files; empty names: the system's authorities, no certificate of ours.

    Raises OSError for a file that cannot be read.
    """
    root, ours, its_key = (Path(path).read_bytes() if path else None for path in (authority, certificate, key))
    return grpc.ssl_channel_credentials(root, its_key, ours)


def _not_taken(error: Any) -> NotTaken:
    code, details = error.code(), str(error.details())
    hint = next((hint for mark, hint in _NO_HANDSHAKE.items() if mark in details), "")
    if hint:
        return NotTaken(hint, again=False)
    asked_s = _retry_s(error)
    again = code in _TRY_AGAIN or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and asked_s is not None)
    nobody = code is grpc.StatusCode.UNAVAILABLE and any(words in details for words in _NOBODY)
    return NotTaken(f"{code.name}: {details[:300]}", again=again, asked_s=asked_s or 0.0, answered=not nobody)


def _retry_s(error: Any) -> float | None:
    """Return what the `RetryInfo` of a refusal asks for, None where there is none."""
    for name, value in error.trailing_metadata() or ():
        if name == _DETAILS:
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                return None
            for detail in status.details:
                info = error_details_pb2.RetryInfo()
                if detail.Unpack(info):
                    return float(info.retry_delay.ToMilliseconds() / 1000)
    return None
