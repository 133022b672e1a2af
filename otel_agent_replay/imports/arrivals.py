"""Spans as they come, put where they belong: traces of others by trace id, runs of ours by their attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Anomaly, AnomalyCode, AttributeValue, CaptureLevel, Span
from otel_agent_replay.otlp.own_contents import NAMES, masked_contents
from otel_agent_replay.otlp.parts import PartJoiner
from otel_agent_replay.otlp.runs import AttemptKey, OwnSpan, is_own, own_span
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.payload.span_redaction import redacted

_WHOLE_ID = 16  # bytes


class Arrivals:
    """What came. Pieces of a span are joined, spans redacted, records that cannot be read kept as spans.

    What our own recorder sent is redacted by the built-in rules alone, by which it masks itself.

    `masked` are the trace and span ids of spans in which something was redacted.
    """

    def __init__(self, redaction: Redaction | None) -> None:
        self.traces: dict[bytes, list[Span]] = {}
        self.attempts: dict[AttemptKey, list[OwnSpan]] = {}
        self.anomalies: list[Anomaly] = []
        self.masked: list[tuple[bytes, bytes]] = []
        self._redaction = redaction
        self._joiner = PartJoiner()

    def add(self, span: Span) -> None:
        """Put a span where it belongs."""
        if not any(span.trace_id) or not any(span.span_id):
            self._tell(AnomalyCode.INVALID_ID, span, f"span {span.name[:60]!r} has no id or no trace: left out")
            return
        kept: Span | None = span
        try:
            kept = self._joiner.whole(span)
            if kept is not None and is_own(kept):
                part = own_span(self._own(kept, joined=kept is not span))
                self.attempts.setdefault(part.key, []).append(part)
                return
        except DamagedRecording as error:
            self._tell(AnomalyCode.UNREADABLE, span, f"{error}: it is kept as a span of others")
            if kept is not None and kept is not span:
                # Nobody could look into its record before it was joined, and nobody can now.
                kept = replace(kept, attributes=_but_contents(kept))
        if kept is not None:
            redaction = self._redaction or (Redaction.default() if kept is not span else None)
            clean = kept if redaction is None else redacted(kept, redaction)
            if clean is not kept:
                self.masked.append((kept.trace_id, kept.span_id))
            self.traces.setdefault(kept.trace_id, []).append(clean)

    def _own(self, span: Span, *, joined: bool) -> Span:
        """Return a span of ours as it may be kept. One in pieces could not be looked into before it was `joined`."""
        redaction = self._redaction or (Redaction.default() if joined else None)
        if redaction is None:
            return span
        contents = {
            name: masked_contents(name, value, redaction)
            for name in NAMES
            if isinstance(value := span.attributes.get(name), bytes)
        }
        bare = replace(
            span, attributes={name: value for name, value in span.attributes.items() if name not in contents}
        )
        clean = redacted(bare, redaction.at(CaptureLevel.FULL))
        if clean is bare and all(span.attributes[name] == value for name, value in contents.items()):
            return span
        self.masked.append((span.trace_id, span.span_id))
        return replace(clean, attributes={**clean.attributes, **contents})

    def end(self) -> None:
        """Say which spans were not whole, and join cut trace ids with the one trace that they are part of."""
        for span in self._joiner.incomplete():
            self._tell(AnomalyCode.UNREADABLE, span, "not all of its pieces came: it was left out")
        for cut, fitting in _fitting(self.traces).items():
            spans, taken_for = self.traces[cut], cut
            detail = f"trace id {cut.hex()} has {len(cut)} bytes of {_WHOLE_ID}"
            if len(fitting) == 1:
                (taken_for,) = fitting
                self.traces[taken_for] += self.traces.pop(cut)
                detail += f": taken for the trace {taken_for.hex()}"
            self.anomalies += [Anomaly(AnomalyCode.CUT_ID, detail, taken_for, span.span_id) for span in spans]

    def _tell(self, code: AnomalyCode, span: Span, detail: str) -> None:
        self.anomalies.append(Anomaly(code, detail, span.trace_id, span.span_id))


def _fitting(trace_ids: Iterable[bytes]) -> dict[bytes, set[bytes]]:
    """Return the cut ones among trace ids, in order, each with the whole ones that begin or end with it."""
    fitting: dict[bytes, set[bytes]] = {}
    whole = []
    for trace_id in trace_ids:
        if len(trace_id) < _WHOLE_ID:
            fitting[trace_id] = set()
        else:
            whole.append(trace_id)
    for length in {len(cut) for cut in fitting}:
        for trace_id in whole:
            for part in (trace_id[:length], trace_id[-length:]):
                if part in fitting:
                    fitting[part].add(trace_id)
    return fitting


def _but_contents(span: Span) -> dict[str, AttributeValue]:
    """Return the attributes of a span but for what our recorder sent beside it."""
    return {name: value for name, value in span.attributes.items() if name not in NAMES or not isinstance(value, bytes)}
