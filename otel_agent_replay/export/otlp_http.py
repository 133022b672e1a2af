"""Messages of spans -> an OTLP endpoint over HTTP, as protobuf, packed."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_agent_replay.errors import ExportRefused
from otel_agent_replay.export.otlp_retry import TRIES, Insistence, NotTaken

_TRY_AGAIN = frozenset({429, 502, 503, 504})  # as the specification of OTLP says
_PATH = "/v1/traces"
_CONNECT_S = 5.0


@dataclass(slots=True)
class OtlpHttpSender:
    """Sends to `endpoint`: a base URL, to which `/v1/traces` is added, or one that ends in it.

    `headers` go with every request, `session` holds keys of TLS. `tries` is how often a message is
    sent before that is given up; `wait` sleeps (tests give their own).
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0
    tries: int = TRIES
    wait: Callable[[float], None] = time.sleep
    session: requests.Session = field(default_factory=requests.Session)
    _insistence: Insistence | None = None

    @property
    def url(self) -> str:
        """Where requests go."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(_PATH) else base + _PATH

    def send(self, message: TracesData) -> None:
        """Send one message. Raises ExportRefused when it was not taken, or not wholly."""
        body = gzip.compress(message.SerializeToString(), 1)
        if self._insistence is None:
            self._insistence = Insistence(self.url, tries=self.tries, wait=self.wait)
        self._insistence.until_taken(lambda: self._post(body))

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **self.headers}
        try:
            times = (min(_CONNECT_S, self.timeout_s), self.timeout_s)
            answer = self.session.post(self.url, data=body, headers=headers, timeout=times)
        except requests.RequestException as error:
            raise NotTaken(_cause(error), again=True, answered=False) from error
        if not answer.ok:
            why = f"HTTP {answer.status_code} {answer.reason}: {answer.text[:300]}"
            asked_s = _seconds(answer.headers.get("Retry-After", ""))
            raise NotTaken(why, again=answer.status_code in _TRY_AGAIN, asked_s=asked_s)
        look_at(answer.content, self.url)


def look_at(answer: bytes, to: str) -> None:
    """Raise ExportRefused where an ExportTraceServiceResponse says that some spans were not taken."""
    try:
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
    except DecodeError:
        return  # an answer in JSON, or none: the status says that all was taken
    if partial.rejected_spans:
        raise ExportRefused(f"{to} took all but {partial.rejected_spans} spans: {partial.error_message}")


def _cause(error: BaseException) -> str:
    """Return what the system said at the bottom of a client's error."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return str(error)


def _seconds(text: str) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0  # a date: what we wait anyway will do
