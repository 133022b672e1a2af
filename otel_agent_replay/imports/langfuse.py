"""Langfuse exports -> spans: a trace with its observations as one document, several in a list, or one a line.

What Langfuse took out of a span's attributes lies in fields of the observation; it goes back under the names that its
SDK writes (`langfuse.observation.*`), beside the attributes that the span was sent with. Times have milliseconds,
values of attributes have become texts. Scores are not spans: they are told of, and left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.foreign_values import attribute_of, attributes_of, span_id_of, time_ns_of, trace_id_of
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.model import (
    Anomaly,
    AnomalyCode,
    AttributeValue,
    InstrumentationScope,
    Resource,
    Span,
)

_MARKS: Final = (b'"observations"', b'"parentObservationId"')
_PREFIX: Final = "langfuse.observation."
_APART: Final = ("attributes", "resourceAttributes", "scope")
_FIELDS: Final = {
    "type": "type",
    "level": "level",
    "statusMessage": "status_message",
    "version": "version",
    "completionStartTime": "completion_start_time",
    "promptName": "prompt.name",
    "promptVersion": "prompt.version",
    "model": "model.name",
}
_JSON_FIELDS: Final = {
    "input": "input",
    "output": "output",
    "modelParameters": "model.parameters",
    "usageDetails": "usage_details",
    "costDetails": "cost_details",
}
_TRACE_FIELDS: Final = {"name": "name", "release": "release", "version": "version", "tags": "tags", "public": "public"}


def fits(file: OpenedFile) -> bool:
    """Whether it looks like an export of traces with observations, or of observations."""
    return file.head[:1] in (b"{", b"[") and any(mark in file.head for mark in _MARKS)


def read(file: OpenedFile) -> Found:
    """Return the spans of the file, one an observation."""
    anomalies: list[Anomaly] = []
    notes = ["a Langfuse export: times in milliseconds, and text where attributes had numbers"]
    return Found("langfuse", spans_of(_read(file, notes), anomalies), anomalies=anomalies, notes=notes)


def _read(file: OpenedFile, notes: list[str]) -> Iterator[Span | Anomaly]:
    for document in _documents(file):
        if isinstance(document, Anomaly):
            yield document
            continue
        trace = _object(document.get("trace")) or document
        observations = document.get("observations", trace.get("observations"))
        if not isinstance(observations, list):
            observations = [document]  # one observation by itself
            trace = {}
        scores = trace.get("scores")
        if isinstance(scores, list) and scores:
            notes.append(f"{len(scores)} scores of trace {trace.get('id')} are no spans and were left out")
        for observation in observations:
            yield _checked(observation, trace)


def _documents(file: OpenedFile) -> Iterator[dict[str, Any] | Anomaly]:
    whole = file.document
    if isinstance(whole, dict):
        yield whole
    elif isinstance(whole, list):
        for item in whole:
            yield item if isinstance(item, dict) else _unreadable(file, "an item of its list is no object")
    else:
        for number, line in enumerate(file.lines(), start=1):
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield _unreadable(file, f"line {number} is no JSON ({error})")
                continue
            yield item if isinstance(item, dict) else _unreadable(file, f"line {number} is no object")


def _unreadable(file: OpenedFile, what: str) -> Anomaly:
    return Anomaly(AnomalyCode.UNREADABLE, f"{file.path}: {what}")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _checked(observation: Any, trace: Mapping[str, Any]) -> Span | Anomaly:
    if not isinstance(observation, dict):
        return Anomaly(AnomalyCode.UNREADABLE, "an observation is no object: it was left out")
    trace_id = trace_id_of(observation.get("traceId") or trace.get("id"))
    span_id = span_id_of(observation.get("id"))
    if not trace_id or not span_id:
        detail = f"observation {observation.get('id')!r} has no id of its own or of its trace: it was left out"
        return Anomaly(AnomalyCode.INVALID_ID, detail, trace_id, span_id)
    return _span(observation, trace, trace_id, span_id)


def _span(observation: Mapping[str, Any], trace: Mapping[str, Any], trace_id: bytes, span_id: bytes) -> Span:
    metadata = _metadata(observation.get("metadata"))
    scope = _object(metadata.get("scope"))
    start_ns = time_ns_of(observation.get("startTime"))
    failed = observation.get("level") == "ERROR"
    is_event = observation.get("type") == "EVENT"
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=str(observation.get("name") or ""),
        start_ns=start_ns,
        end_ns=start_ns if is_event else time_ns_of(observation.get("endTime")),
        parent_span_id=span_id_of(observation.get("parentObservationId")),
        status_code=2 if failed else 0,
        status_message=str(observation.get("statusMessage") or "") if failed else "",
        attributes=_attributes(observation, metadata, trace),
        resource=Resource(attributes_of(metadata.get("resourceAttributes"))),
        scope=InstrumentationScope(
            str(scope.get("name") or ""), str(scope.get("version") or ""), attributes_of(scope.get("attributes"))
        ),
    )


def _metadata(found: Any) -> dict[str, Any]:
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {"text": found}
    return _object(found)


def _attributes(
    observation: Mapping[str, Any], metadata: Mapping[str, Any], trace: Mapping[str, Any]
) -> dict[str, AttributeValue]:
    found = attributes_of(metadata.get("attributes"))
    for field, name in _FIELDS.items():
        if observation.get(field) is not None:
            found[_PREFIX + name] = attribute_of(observation[field])
    for field, name in _JSON_FIELDS.items():
        value = observation.get(field)
        if isinstance(value, dict):
            value = {key: item for key, item in value.items() if item is not None} or None
        if value is not None:
            found[_PREFIX + name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for key, value in metadata.items():
        if key not in _APART:
            found[f"{_PREFIX}metadata.{key}"] = attribute_of(value)
    if "type" in observation:
        found[_PREFIX + "type"] = str(observation["type"]).lower()
    if trace.get("sessionId"):
        found["session.id"] = attribute_of(trace["sessionId"])
    if trace.get("userId"):
        found["user.id"] = attribute_of(trace["userId"])
    environment = observation.get("environment") or trace.get("environment")
    if environment:
        found["langfuse.environment"] = attribute_of(environment)
    if not observation.get("parentObservationId"):
        for field, name in _TRACE_FIELDS.items():
            if trace.get(field) not in (None, []):
                found[f"langfuse.trace.{name}"] = attribute_of(trace[field])
    return found
