"""The span that everyone sees: made through the OpenTelemetry API in whatever provider the service has.

With no provider, or a disabled one, nothing is made and the recorder uses ids of its own. A span that the
service's sampler left out still has valid ids, which the recording shares.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from otel_agent_replay import semconv

_time_ns = time.time_ns
_MANY = 3  # attributes that cost less together than one by one
_current_context = otel_context.get_current
_attach, _detach = otel_context.attach, otel_context.detach
_current_span = trace.get_current_span
_with_span = trace.set_span_in_context


class LiveSpan:
    """A started span with the ids that the recording shares; `within` is the context that it was last current in."""

    __slots__ = ("context", "parent_span_id", "span", "span_id", "start_ns", "within")

    def __init__(
        self, span: trace.Span, context: trace.SpanContext, span_id: bytes, parent_span_id: bytes, start_ns: int
    ) -> None:
        self.span = span
        self.context = context
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.start_ns = start_ns
        self.within: otel_context.Context | None = None

    @property
    def trace_id(self) -> bytes:
        """The 16 bytes of its trace's id."""
        return self.context.trace_id.to_bytes(16, "big")

    @property
    def flags(self) -> int:
        """The W3C trace flags."""
        return int(self.context.trace_flags)

    @property
    def trace_state(self) -> str:
        """The W3C trace state, as a header."""
        return self.context.trace_state.to_header() if self.context.trace_state else ""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current span of the enclosed code; never keep it open across a `yield` to foreign code."""
        return _Current(self)

    def end(self, end_ns: int, error_type: str, attributes: Mapping[str, Any]) -> None:
        """Set the last attributes and the status, and end the span."""
        span = self.span
        if span.is_recording():
            if len(attributes) < _MANY:
                for name, value in attributes.items():
                    span.set_attribute(name, value)
            else:
                span.set_attributes(attributes)
            if error_type:
                span.set_attribute(semconv.ERROR_TYPE, error_type)
                span.set_status(Status(StatusCode.ERROR, error_type))
        span.end(end_ns)


class Tracing:
    """Starts spans. `provider` None: the service's global one, looked up when it is needed."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer: trace.Tracer | None = None

    def use(self, provider: trace.TracerProvider) -> bool:
        """Start spans in `provider` from now on; False when another one was given before."""
        if self._provider is None:
            self._provider, self._tracer = provider, None
        return self._provider is provider

    @staticmethod
    def caller() -> tuple[bytes, bytes] | None:
        """Return the trace id and span id of whoever called, where there is one: it may lie in another process."""
        above = _current_span().get_span_context()
        return (above.trace_id.to_bytes(16, "big"), above.span_id.to_bytes(8, "big")) if above.is_valid else None

    def start(
        self, name: str, kind: SpanKind, parent: LiveSpan | None, attributes: Mapping[str, Any]
    ) -> LiveSpan | None:
        """Start a span below the current one, or below `parent` when the current one is of another trace.

        `attributes` are the span's to keep. Returns None when the service has no tracing.
        """
        tracer = self._tracer
        if tracer is None:
            tracer = self._tracer = trace.get_tracer(semconv.SCOPE_NAME, tracer_provider=self._provider)
        here = _current_context()
        if parent is not None and here is parent.within:  # as nearly always: that of the code that calls
            parent_span_id = parent.span_id
        else:
            above = _current_span(here).get_span_context()
            if parent is not None and above.trace_id != parent.context.trace_id:
                here = _with_span(parent.span, here)
                above = parent.context
            parent_span_id = above.span_id.to_bytes(8, "big") if above.span_id else b""
        start_ns = _time_ns()
        span = tracer.start_span(name, here, kind, attributes, start_time=start_ns)
        context = span.get_span_context()
        span_id = context.span_id.to_bytes(8, "big")
        if span_id == parent_span_id or not context.is_valid:
            return None
        return LiveSpan(span, context, span_id, parent_span_id, start_ns)


class _Current(AbstractContextManager[None]):
    """Attaches a span to the tracing library's context; a class, not a generator, because every call enters it."""

    __slots__ = ("_live", "_token")

    def __init__(self, live: LiveSpan) -> None:
        self._live = live

    def __enter__(self) -> None:
        live = self._live
        live.within = context = _with_span(live.span)
        self._token = _attach(context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _detach(self._token)


def exporter_traffic() -> bool:
    """Whether the running code is an exporter sending telemetry: its traffic is not the application's."""
    return bool(otel_context.get_value(_SUPPRESS))


def _suppress_key() -> str:
    try:
        from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
    except ImportError:  # a future API may rename it; then exporters' own traffic is recorded as http
        return "suppress_instrumentation"
    return _SUPPRESS_INSTRUMENTATION_KEY


_SUPPRESS = _suppress_key()
