"""Spans as SDKs print or dump them -> spans: JavaScript's `ReadableSpan` as JSON, Python's `ConsoleSpanExporter`.

A list of objects, one object, or objects one behind the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.foreign_values import (
    attributes_of,
    span_id_of,
    time_ns_of,
    trace_id_of,
    whole_number,
)
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import Anomaly, AnomalyCode, InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.protocols.json_text import as_object

_MARKS: Final = (b'"spanContext"', b'"trace_id"')
_KINDS: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES: Final = {"UNSET": 0, "OK": 1, "ERROR": 2}
_SECOND: Final = 10**9


def fits(file: OpenedFile) -> bool:
    """Whether it looks like spans of an SDK."""
    head = file.head
    if head[:1] not in (b"{", b"[") or b'"attributes"' not in head:
        return False
    return b'"spanContext"' in head or (b'"context"' in head and b'"trace_id"' in head)


def read(file: OpenedFile) -> Found:
    """Return the spans of the file."""
    anomalies: list[Anomaly] = []
    return Found("sdk-json", spans_of(_read(file), anomalies), anomalies=anomalies)


def _read(file: OpenedFile) -> Iterator[Span | Anomaly]:
    for item in _objects(file):
        if isinstance(item, Anomaly):
            yield item
            continue
        context = as_object(item.get("spanContext")) or as_object(item.get("context"))
        trace_id = trace_id_of(context.get("traceId", context.get("trace_id")))
        span_id = span_id_of(context.get("spanId", context.get("span_id")))
        if trace_id and span_id:
            yield _span(item, trace_id, span_id)
        else:
            yield Anomaly(AnomalyCode.INVALID_ID, f"span {item.get('name')!r} has no ids: it was left out")


def _objects(file: OpenedFile) -> Iterator[dict[str, Any] | Anomaly]:
    whole = file.document
    if whole is None:
        whole = list(_one_behind_the_other(file))
    for item in whole if isinstance(whole, list) else [whole]:
        if isinstance(item, (dict, Anomaly)):
            yield item
        else:
            yield Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: an item of it is no object")


def _one_behind_the_other(file: OpenedFile) -> Iterator[Any]:
    """The objects that a console exporter printed; what is no JSON ends them."""
    text, at = file.data().decode("utf-8", "replace"), 0
    decoder = json.JSONDecoder()
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: what follows character {at} is no JSON ({error})")
            return
        yield value


def _span(item: Mapping[str, Any], trace_id: bytes, span_id: bytes) -> Span:
    status = as_object(item.get("status"))
    scope = as_object(item.get("instrumentationScope")) or as_object(item.get("instrumentationLibrary"))
    parent = as_object(item.get("parentSpanContext")).get("spanId") or item.get("parentSpanId") or item.get("parent_id")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=str(item.get("name") or ""),
        start_ns=_time(item, "startTime", "start_time"),
        end_ns=_time(item, "endTime", "end_time"),
        parent_span_id=span_id_of(parent),
        kind=_kind(item.get("kind")),
        status_code=_status(status.get("code", status.get("status_code"))),
        status_message=str(status.get("message", status.get("description")) or ""),
        attributes=attributes_of(item.get("attributes")),
        events=tuple(_event(event) for event in item.get("events") or () if isinstance(event, dict)),
        links=tuple(_link(link) for link in item.get("links") or () if isinstance(link, dict)),
        resource=Resource(attributes_of(as_object(item.get("resource")).get("attributes"))),
        scope=InstrumentationScope(str(scope.get("name") or ""), str(scope.get("version") or "")),
    )


def _time(item: Mapping[str, Any], *names: str) -> int:
    """A time as JavaScript has it ([seconds, nanoseconds]), or in ISO 8601."""
    found = next((item[name] for name in names if item.get(name) is not None), None)
    if isinstance(found, list) and len(found) == 2:
        return max(0, whole_number(found[0]) * _SECOND + whole_number(found[1]))
    return time_ns_of(found)


def _kind(found: Any) -> int:
    """JavaScript counts kinds from nought, Python names them."""
    if isinstance(found, str):
        return _KINDS.get(found.rpartition(".")[2].upper(), 0)
    return whole_number(found) + 1 if isinstance(found, int) else 0


def _status(found: Any) -> int:
    return _STATUSES.get(found.upper(), 0) if isinstance(found, str) else whole_number(found)


def _event(event: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        _time(event, "time", "timestamp"), str(event.get("name") or ""), attributes_of(event.get("attributes"))
    )


def _link(link: Mapping[str, Any]) -> SpanLink:
    context = as_object(link.get("context"))
    return SpanLink(
        trace_id_of(context.get("traceId", context.get("trace_id"))),
        span_id_of(context.get("spanId", context.get("span_id"))),
        attributes=attributes_of(link.get("attributes")),
    )
