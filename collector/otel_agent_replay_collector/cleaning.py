"""Masking in OTLP messages, in place: every text of a request passes the rules of `payload.redaction`.

Nothing of a message is turned into anything else, so what is not masked stays byte for byte what it was; but fields
that OTLP does not know cannot be looked into and are left out. What our own recorder sent beside its spans
(`agent_replay.record`) is looked into by the built-in rules alone, by which it was masked before its digests were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from otel_agent_replay.otlp.own_contents import NAMES, masked_contents
from otel_agent_replay.payload.redaction import Redaction

MayHold = Callable[[bytes], bool]


def clean_traces(request: Any, redaction: Redaction, may_hold: MayHold | None) -> None:
    """Mask in an ExportTraceServiceRequest. Spans for which `may_hold` is false are clean; None: look into all."""
    for group in request.resource_spans:
        _attributes(group.resource.attributes, redaction)
        _texts(group, ("schema_url",), redaction)
        for scoped in group.scope_spans:
            _scope(scoped, redaction)
            for span in scoped.spans:
                if may_hold is None or may_hold(span.SerializeToString()):
                    _span(span, redaction)


def clean_logs(request: Any, redaction: Redaction, may_hold: MayHold | None) -> None:
    """Mask in an ExportLogsServiceRequest; `may_hold` as for spans."""
    for group in request.resource_logs:
        _attributes(group.resource.attributes, redaction)
        _texts(group, ("schema_url",), redaction)
        for scoped in group.scope_logs:
            _scope(scoped, redaction)
            for record in scoped.log_records:
                if may_hold is None or may_hold(record.SerializeToString()):
                    _texts(record, ("severity_text", "event_name"), redaction)
                    _attributes(record.attributes, redaction)
                    _value("body", record.body, redaction)


def _scope(scoped: Any, redaction: Redaction) -> None:
    _texts(scoped, ("schema_url",), redaction)
    _texts(scoped.scope, ("name", "version"), redaction)
    _attributes(scoped.scope.attributes, redaction)


def _span(span: Any, redaction: Redaction) -> None:
    _texts(span, ("name", "trace_state"), redaction)
    _texts(span.status, ("message",), redaction)
    own = [pair for pair in span.attributes if pair.key in NAMES and pair.value.HasField("bytes_value")]
    for pair in own:
        pair.value.bytes_value = masked_contents(pair.key, pair.value.bytes_value, redaction)
    _attributes([pair for pair in span.attributes if pair not in own] if own else span.attributes, redaction)
    for event in span.events:
        _texts(event, ("name",), redaction)
        _attributes(event.attributes, redaction)
    for link in span.links:
        _texts(link, ("trace_state",), redaction)
        _attributes(link.attributes, redaction)


def _texts(message: Any, fields: Iterable[str], redaction: Redaction) -> None:
    for field in fields:
        text = getattr(message, field)
        if text:
            masked = redaction.text(text)
            if masked != text:
                setattr(message, field, masked)


def _attributes(pairs: Any, redaction: Redaction) -> None:
    for pair in pairs:
        _value(pair.key, pair.value, redaction)
        _texts(pair, ("key",), redaction)


def _value(name: str, value: Any, redaction: Redaction) -> None:
    which = value.WhichOneof("value")
    if which == "string_value":
        masked = redaction.named(name, value.string_value)
        if masked != value.string_value:
            value.string_value = masked
    elif which == "bytes_value":
        value.bytes_value = redaction.body(value.bytes_value, "application/octet-stream")
    elif which == "array_value":
        for item in value.array_value.values:
            _value(name, item, redaction)
    elif which == "kvlist_value":
        _attributes(value.kvlist_value.values, redaction)
