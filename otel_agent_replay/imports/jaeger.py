"""Jaeger's JSON -> spans: what its UI downloads (`{"data": [{"spans": ..., "processes": ...}]}`), or a list of spans.

Tags that Jaeger makes of an OTel span's own fields (its kind, status, scope, trace state) become those fields again.
Times have microseconds.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agent_replay import semconv
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.foreign_values import attribute_of, span_id_of, trace_id_of, whole_number
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import (
    Anomaly,
    AnomalyCode,
    AttributeValue,
    InstrumentationScope,
    Resource,
    Span,
    SpanEvent,
    SpanLink,
)
from otel_agent_replay.protocols.json_text import as_list, as_object

_MARKS: Final = (b'"operationName"', b'"traceID"')
_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUSES: Final = {"OK": 1, "ERROR": 2}
_MICROSECOND: Final = 1000
_NAME_KEYS: Final = ("event", "message")


def fits(file: OpenedFile) -> bool:
    """Whether it looks like Jaeger's JSON."""
    return file.head[:1] in (b"{", b"[") and all(mark in file.head for mark in _MARKS)


def read(file: OpenedFile) -> Found:
    """Return the spans of the file."""
    anomalies: list[Anomaly] = []
    return Found(
        "jaeger", spans_of(_read(file), anomalies), anomalies=anomalies, notes=["Jaeger's JSON: times in microseconds"]
    )


def _read(file: OpenedFile) -> Iterator[Span | Anomaly]:
    document = file.document
    if isinstance(document, dict):
        traces = document.get("data") if isinstance(document.get("data"), list) else [document]
    elif isinstance(document, list):
        traces = document if any("spans" in as_object(item) for item in document) else [{"spans": document}]
    else:
        raise DamagedRecording(f"{file.path} is no whole JSON: Jaeger's traces come as one document")
    for trace in traces or ():
        processes = as_object(as_object(trace).get("processes"))
        spans = as_object(trace).get("spans")
        for span in spans if isinstance(spans, list) else [trace]:
            yield _checked(span, processes)


def _checked(span: Any, processes: Mapping[str, Any]) -> Span | Anomaly:
    item = as_object(span)
    trace_id, span_id = trace_id_of(item.get("traceID")), span_id_of(item.get("spanID"))
    if not trace_id or not span_id:
        return Anomaly(AnomalyCode.INVALID_ID, "a span without ids was left out", trace_id, span_id)
    start, duration = item.get("startTime"), item.get("duration", 0)
    if any(isinstance(value, str) and not value.lstrip("-").isdigit() for value in (start, duration)):
        detail = f"its start {start!r} or duration {duration!r} is no number: it was left out"
        return Anomaly(AnomalyCode.UNREADABLE, detail, trace_id, span_id)
    return _span(item, as_object(item.get("process")) or as_object(processes.get(str(item.get("processID")))), trace_id)


def _span(item: Mapping[str, Any], process: Mapping[str, Any], trace_id: bytes) -> Span:
    tags = _tags(item.get("tags"))
    start_ns = max(0, whole_number(item.get("startTime"))) * _MICROSECOND
    parent, links = _references(item, trace_id)
    failed = str(tags.pop("error", "")).lower() == "true"
    status = _STATUSES.get(str(tags.pop("otel.status_code", "")).upper(), 2 if failed else 0)
    warnings = tuple(str(warning) for warning in as_list(item.get("warnings")))
    scope = InstrumentationScope(
        str(tags.pop("otel.scope.name", tags.pop("otel.library.name", ""))),
        str(tags.pop("otel.scope.version", tags.pop("otel.library.version", ""))),
    )
    return Span(
        trace_id=trace_id,
        span_id=span_id_of(item.get("spanID")),
        name=str(item.get("operationName") or ""),
        start_ns=start_ns,
        end_ns=max(0, start_ns + whole_number(item.get("duration")) * _MICROSECOND),
        parent_span_id=parent,
        kind=_KINDS.get(str(tags.pop("span.kind", "")).lower(), 0),
        status_code=status,
        status_message=str(tags.pop("otel.status_description", "")),
        trace_state=str(tags.pop("w3c.tracestate", "")),
        attributes={**tags, **({"jaeger.warnings": warnings} if warnings else {})},
        events=tuple(map(_event, as_list(item.get("logs")))),
        links=links,
        flags=whole_number(item.get("flags")),
        resource=_resource(process),
        scope=scope,
    )


def _references(item: Mapping[str, Any], trace_id: bytes) -> tuple[bytes, tuple[SpanLink, ...]]:
    """The parent (the first child-of of the same trace, or what older versions name) and the rest, as links."""
    parent = span_id_of(item.get("parentSpanID"))
    links = []
    for reference in map(as_object, as_list(item.get("references"))):
        other, span_id = trace_id_of(reference.get("traceID")), span_id_of(reference.get("spanID"))
        if not parent and reference.get("refType") == "CHILD_OF" and other == trace_id:
            parent = span_id
        elif span_id != parent or other != trace_id:
            kind = str(reference.get("refType") or "").lower()
            links.append(SpanLink(other, span_id, attributes={"opentracing.ref_type": kind} if kind else {}))
    return parent, tuple(links)


def _event(log: Any) -> SpanEvent:
    fields = _tags(as_object(log).get("fields"))
    named = next((key for key in _NAME_KEYS if isinstance(fields.get(key), str)), None)
    name = "" if named is None else str(fields.pop(named))
    return SpanEvent(max(0, whole_number(as_object(log).get("timestamp"))) * _MICROSECOND, name, fields)


def _resource(process: Mapping[str, Any]) -> Resource:
    name = process.get("serviceName")
    named = {semconv.SERVICE_NAME: str(name)} if name else {}
    return Resource({**named, **_tags(process.get("tags"))})


def _tags(found: Any) -> dict[str, AttributeValue]:
    return {str(tag.get("key")): _value(tag) for tag in map(as_object, as_list(found)) if "key" in tag}


def _value(tag: Mapping[str, Any]) -> AttributeValue:
    """A tag's value in the type that it names; one that is not of that type as it is."""
    kind, value = str(tag.get("type") or "").lower(), tag.get("value")
    try:
        if kind == "bool" and isinstance(value, str):
            return value.lower() == "true"
        if kind in ("int64", "long") and isinstance(value, str):
            return attribute_of(int(value))
        if kind in ("float64", "double") and not isinstance(value, bool):
            return float(value if value is not None else "nan")
        if kind == "binary" and isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return value
    return attribute_of(value)
