"""The span processor: spans of other instrumentations that end inside a recorded run go to the journal beside it.

It runs inside the host's calls, and an exception here would reach the host's code, so every entry is guarded. Our own
spans are left out: the journal has them already, whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agent_replay import semconv
from otel_agent_replay.boundary.session import active
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.readable_span import foreign_record, resource_bytes
from otel_agent_replay.model import Loss, LossReason
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_log = logging.getLogger("otel_agent_replay")
_MOST_OPEN = 1 << 16
_MOST_KEPT = 1 << 16
_NO_RUN = (b"", "")


class KeptSpans:
    """The span ids that this process has lately put into a journal as part of a run, at most `most` of them."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._ids: dict[int, None] = {}
        self._most = most

    def add(self, span_id: int) -> None:
        """Note a span; the oldest is forgotten when there are too many."""
        while len(self._ids) >= self._most:
            self._ids.pop(next(iter(self._ids)), None)
        self._ids[span_id] = None

    def take(self, span_id: int) -> bool:
        """Return whether the span was noted, and forget it."""
        return self._ids.pop(span_id, False) is None


kept_spans = KeptSpans()
"""Shared with the exporter of the same process, so that a span is not kept twice."""


class ReplaySpanProcessor(SpanProcessor):
    """Joins the service's spans to the runs that they belong to.

    A span belongs to a run when it starts inside one or below a span that does. `on_root_end(trace_id)` is told of each
    local root span that ends; `run_of(trace_id, span_id)` returns the id of the run whose open span that is, and of a
    replay its mode, empty for none; `redaction` None stands for the built-in rules. Every span of a replayed run is
    marked as such, and in a process that is a replay as a whole (of mode `replay_mode`) every span. Spans that the
    service's sampler left out never come here.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        redaction: Redaction | None = None,
        on_root_end: Callable[[int], None] | None = None,
        run_of: Callable[[int, int], tuple[bytes, str]] = lambda _trace_id, _span_id: _NO_RUN,
        replay_mode: str = "",
    ) -> None:
        self._journal = journal
        self._redaction = redaction or Redaction.default()
        self._on_root_end = on_root_end
        self._run_of_ours = run_of
        self._replay_mode = replay_mode
        self._own_scope = InstrumentationScope("")  # our tracer's, once a span of it was seen
        # Open foreign spans inside a run: span id -> run id, and the run's mode where it is a replay.
        self._runs: dict[int, tuple[bytes, str]] = {}
        self._complained = False
        self._described = False
        self._retired = False

    def retire(self) -> None:
        """Take no more spans: a provider does not give its processors back."""
        self._retired = True

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        """Note the run that a span starts in."""
        if self._retired:
            return
        try:
            if not self._described:
                self._described = True
                self._journal.describe(
                    resource=resource_bytes(span.resource),
                    service=str(span.resource.attributes.get(semconv.SERVICE_NAME, "")),
                )
            scope = span.instrumentation_scope
            if scope is self._own_scope or self._is_ours(scope):
                return
            run_id, mode = member = self._run_of(span)
            if run_id:
                if len(self._runs) >= _MOST_OPEN:  # spans that were never ended
                    self._runs.pop(next(iter(self._runs)), None)
                self._runs[span.context.span_id] = member
            if mode or self._replay_mode:
                span.set_attributes({semconv.REPLAY: True, semconv.RUN_MODE: mode or self._replay_mode})
        except Exception as error:
            self._failed("start", b"", error)

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that ended inside a run."""
        if self._retired:
            return
        run_id = b""
        try:
            if self._runs and span.instrumentation_scope is not self._own_scope:
                span_id = span.context.span_id
                run_id = self._runs.pop(span_id, _NO_RUN)[0]
                if run_id:
                    kept_spans.add(span_id)
                    self._journal.append(foreign_record(span, run_id, self._redaction))
        except Exception as error:
            self._failed("end", run_id, error)
        if self._on_root_end is not None:
            parent = span.parent
            if parent is None or parent.is_remote:
                try:
                    self._on_root_end(span.context.trace_id)
                except Exception as error:
                    self._failed("root's end", run_id, error)

    def shutdown(self) -> None:
        """Nothing to do: what has ended is written; the journal belongs to whoever opened it."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the signature of the SDK
        """Return True: every ended span is written already."""
        return True

    def _is_ours(self, scope: InstrumentationScope | None) -> bool:
        if scope is None or scope.name != semconv.SCOPE_NAME:
            return False
        self._own_scope = scope
        return True

    def _run_of(self, span: Span) -> tuple[bytes, str]:
        """Return the id of the run that a foreign span starts in and the mode of a replayed one; empty for none."""
        here = active()
        if here is not None:
            return here[0].membership
        parent = span.parent
        if parent is None:
            return _NO_RUN
        return self._runs.get(parent.span_id) or self._run_of_ours(parent.trace_id, parent.span_id)

    def _failed(self, where: str, run_id: bytes, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            _log.error(
                "agent replay lost a span at its %s; the service goes on, what is lost is counted",
                where,
                exc_info=error,
            )
        loss = Loss(LossReason.INTERNAL, "foreign span", 1, type(error).__name__, run_id)
        self._journal.append(wire.Record(loss=convert.loss_to_wire(loss)))
