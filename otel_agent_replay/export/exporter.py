"""The span exporter: the ended spans of a plain service, straight to the lake's journal.

For services that want their traces in the lake without recording runs. Where runs are recorded in the same process, the
spans inside them are left out here: the span processor has kept them with their run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_agent_replay import semconv
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.on_demand import on_demand_sealer
from otel_agent_replay.export.outgoing import journal_root
from otel_agent_replay.export.processor import kept_spans
from otel_agent_replay.export.readable_span import foreign_record, resource_bytes
from otel_agent_replay.model import Loss, LossReason
from otel_agent_replay.redaction import redaction_of
from otel_agent_replay.settings import Settings
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_log = logging.getLogger("otel_agent_replay")
_monotonic = time.monotonic
_ROTATE_AFTER_S = 1.0


class LakeSpanExporter(SpanExporter):
    """Entry point `agent_replay` of `opentelemetry_traces_exporter`.

    Options are fields of `Settings` (`lake`, `seal`, `fsync`, `segment_mb` ...); what is not given comes from the
    environment. Raises ConfigurationError for an unknown one. Each batch is written to the journal and can be sealed at
    once; single spans share a segment for a second.
    """

    def __init__(self, **options: Any) -> None:
        if "lake" in options:
            options["lake"] = Path(options["lake"])
        settings = Settings.load(options)
        self._redaction = redaction_of(settings)
        self._sealer = on_demand_sealer(settings)
        self._journal = Journal(
            journal_root(settings),
            segment_bytes=settings.segment_mb << 20,
            lock_timeout_s=settings.lock_timeout_ms / 1000,
            fsync=settings.fsync,
            on_segment_end=None if self._sealer is None else self._sealer.segment_ended,
        )
        self._described = False
        self._complained = False
        self._rotated = _monotonic()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch. Never raises; FAILURE means that it was counted as lost."""
        records = [record for span in spans if (record := self._record(span)) is not None]
        if not records:
            return SpanExportResult.SUCCESS
        if not self._journal.append(*records, durable=True):
            return SpanExportResult.FAILURE
        # A batch is sealable at once. A processor that exports span by span does not get a file for each.
        if len(records) > 1 or _monotonic() - self._rotated >= _ROTATE_AFTER_S:
            self._rotate()
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the signature of the SDK
        """End the open segment, so that what was exported can be sealed."""
        self._rotate()
        return True

    def shutdown(self) -> None:
        """Close the journal, and have it sealed when this process may start a sealer."""
        self._journal.close()
        if self._sealer is not None:
            self._sealer.finish()

    def _rotate(self) -> None:
        self._rotated = _monotonic()
        self._journal.rotate()

    def _record(self, span: ReadableSpan) -> wire.Record | None:
        """Return the record of a span, or of its loss; None for one that a journal has already."""
        try:
            scope = span.instrumentation_scope
            if (scope is not None and scope.name == semconv.SCOPE_NAME) or kept_spans.take(span.context.span_id):
                return None
            if not self._described:
                self._described = True
                service = str(span.resource.attributes.get(semconv.SERVICE_NAME, ""))
                self._journal.describe(resource=resource_bytes(span.resource), service=service)
            return foreign_record(span, b"", self._redaction)
        except Exception as error:
            if not self._complained:
                self._complained = True
                _log.error("agent replay could not keep span %r; what is lost is counted", span.name, exc_info=error)
            loss = Loss(LossReason.INTERNAL, "foreign span", 1, type(error).__name__)
            return wire.Record(loss=convert.loss_to_wire(loss))
