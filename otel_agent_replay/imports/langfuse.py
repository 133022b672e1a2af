"""Langfuse exports -> spans: a trace with its observations as one document, several in a list, or one a line.

What Langfuse took out of a span's attributes lies in fields of the observation; it goes back under the names that its
SDK writes (`langfuse.observation.*`), beside the attributes that the span was sent with. Times have milliseconds,
values of attributes have become texts. Scores of a trace, or of an observation in it, are labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from otel_agent_replay.imports.files import Found, TraceLabel, spans_of
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
from otel_agent_replay.protocols.json_text import as_list, as_object

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
    labels: list[TraceLabel] = []
    found = spans_of(_read(file, labels, notes), anomalies)
    return Found("langfuse", found, anomalies=anomalies, labels=labels, notes=notes)


def _read(file: OpenedFile, labels: list[TraceLabel], notes: list[str]) -> Iterator[Span | Anomaly]:
    for document in _documents(file):
        if isinstance(document, Anomaly):
            yield document
            continue
        trace = as_object(document.get("trace")) or document
        observations = document.get("observations", trace.get("observations"))
        if not isinstance(observations, list):
            observations = [document]  # one observation by itself
            trace = {}
        for score in as_list(document.get("scores") or trace.get("scores")):
            label = _label(score, trace)
            if isinstance(label, Anomaly):
                yield label
            else:
                labels.append(label)
        corrections = as_list(trace.get("corrections"))
        if corrections:
            notes.append(f"{len(corrections)} corrections of trace {trace.get('id')} are no spans and were left out")
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


def _label(score: Any, trace: Mapping[str, Any]) -> TraceLabel | Anomaly:
    """Return a score as a label: who gave it, when it was last changed, its comment as the note."""
    if not isinstance(score, dict):
        detail = f"score {score!r} of trace {trace.get('id')} is only named, not told: it was left out"
        return Anomaly(AnomalyCode.UNREADABLE, detail, trace_id_of(trace.get("id")))
    trace_id, name, value = trace_id_of(score.get("traceId") or trace.get("id")), score.get("name"), _score(score)
    if not trace_id or not isinstance(name, str) or not name or value is None:
        detail = f"score {score.get('id')!r} has no trace, name or value: it was left out"
        return Anomaly(AnomalyCode.UNREADABLE, detail, trace_id)
    times = (time_ns_of(score.get(field)) for field in ("updatedAt", "timestamp", "createdAt"))
    who = score.get("authorUserId") or str(score.get("source") or "").lower()
    note = score.get("comment")
    return TraceLabel(
        trace_id,
        f"langfuse:{who}" if who else "langfuse",
        next(filter(None, times), 0),
        f"score.{name}",
        value,
        note if isinstance(note, str) else "",
        span_id_of(score.get("observationId")),
    )


def _score(score: Mapping[str, Any]) -> AttributeValue:
    """Return the value of a score by its type: a number, yes or no, a category or a text; None where there is none."""
    kind, value = score.get("dataType"), score.get("value")
    if kind in ("NUMERIC", "BOOLEAN", None) and isinstance(value, (bool, int, float)):
        return bool(value) if kind == "BOOLEAN" or isinstance(value, bool) else float(value)
    texts = (score.get("stringValue"), score.get("longStringValue"), value)
    return next((text for text in texts if isinstance(text, str) and text), None)


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
    scope = as_object(metadata.get("scope"))
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
    return as_object(found)


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
