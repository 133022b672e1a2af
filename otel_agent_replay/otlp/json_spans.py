"""OTLP JSON -> model spans: one document, one a line, or a bare list of `resourceSpans`. Pure; one direction only.

Reads what exporters really write: ids in hexadecimal of either case or in base64, 64-bit integers as text or number,
kinds as number or name, keys in camelCase or snake_case. A span whose ids cannot be read is left out and told, its
neighbours are not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import AttributeValue, InstrumentationScope, Resource, Span, SpanEvent, SpanLink

_CAPITAL = re.compile(r"[A-Z]")
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_CODES = ("UNSET", "OK", "ERROR")
_TRACE_ID, _SPAN_ID = 16, 8  # bytes


def spans_from_json(text: str, source: str) -> tuple[list[Span], list[str]]:
    """Return the spans of OTLP JSON and a sentence for each that could not be read. `source` is named in errors.

    Raises DamagedRecording for text that is no OTLP JSON at all.
    """
    spans: list[Span] = []
    refused: list[str] = []
    for document in _documents(text, source):
        for group in _list(document, "resourceSpans"):
            resource = _resource(group)
            for inner in _list(group, "scopeSpans") or _list(group, "instrumentationLibrarySpans"):
                scope = _scope(inner)
                for item in _list(inner, "spans"):
                    found = _readable(item, resource, scope)
                    if isinstance(found, Span):
                        spans.append(found)
                    else:
                        refused.append(f"span {_get(item, 'spanId')!r} of {source} was left out: {found}")
    return spans, refused


def _readable(item: Any, resource: Resource, scope: InstrumentationScope) -> Span | str:
    """Return a span, or why it cannot be read."""
    try:
        return _span(item, resource, scope)
    except (ValueError, TypeError) as error:
        return str(error)


def _documents(text: str, source: str) -> Iterator[Mapping[str, Any]]:
    try:
        found = [json.loads(text)]
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise DamagedRecording(
                f"{source} is no OTLP JSON ({error}): one document, or one a line, is wanted"
            ) from error
    for document in found:
        if not isinstance(document, Mapping) or not isinstance(_get(document, "resourceSpans"), list):
            raise DamagedRecording(f"{source} is no OTLP JSON: a document in it has no `resourceSpans`")
        yield document


def _get(document: Any, key: str) -> Any:
    """Return a member by its camelCase name, or by the snake_case of it."""
    if not isinstance(document, Mapping):
        return None
    if key in document:
        return document[key]
    return document.get(_CAPITAL.sub(lambda found: "_" + found[0].lower(), key))


def _list(document: Any, key: str) -> Sequence[Any]:
    found = _get(document, key)
    return found if isinstance(found, list) else ()


def _span(item: Any, resource: Resource, scope: InstrumentationScope) -> Span:
    status = _get(item, "status")
    trace_id, span_id = _id(_get(item, "traceId"), _TRACE_ID), _id(_get(item, "spanId"), _SPAN_ID)
    if not any(trace_id) or not any(span_id):
        raise ValueError("an id of it is all zeros or missing")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=str(_get(item, "name") or ""),
        start_ns=_integer(_get(item, "startTimeUnixNano")),
        end_ns=_integer(_get(item, "endTimeUnixNano")),
        parent_span_id=_id(_get(item, "parentSpanId"), _SPAN_ID),
        kind=_enumerated(_get(item, "kind"), "SPAN_KIND_", _KINDS),
        status_code=_enumerated(_get(status, "code"), "STATUS_CODE_", _CODES),
        status_message=str(_get(status, "message") or ""),
        attributes=_attributes(item),
        events=tuple(
            SpanEvent(_integer(_get(one, "timeUnixNano")), str(_get(one, "name") or ""), _attributes(one))
            for one in _list(item, "events")
        ),
        links=tuple(
            SpanLink(_id(_get(one, "traceId"), _TRACE_ID), _id(_get(one, "spanId"), _SPAN_ID))
            for one in _list(item, "links")
        ),
        trace_state=str(_get(item, "traceState") or ""),
        flags=_integer(_get(item, "flags")),
        dropped_attributes=_integer(_get(item, "droppedAttributesCount")),
        dropped_events=_integer(_get(item, "droppedEventsCount")),
        dropped_links=_integer(_get(item, "droppedLinksCount")),
        resource=resource,
        scope=scope,
    )


def _resource(group: Any) -> Resource:
    return Resource(_attributes(_get(group, "resource")), 0, str(_get(group, "schemaUrl") or ""))


def _scope(inner: Any) -> InstrumentationScope:
    scope = _get(inner, "scope") or _get(inner, "instrumentationLibrary")
    name, version = str(_get(scope, "name") or ""), str(_get(scope, "version") or "")
    return InstrumentationScope(name, version, _attributes(scope), 0, str(_get(inner, "schemaUrl") or ""))


def _attributes(item: Any) -> dict[str, AttributeValue]:
    return {str(_get(one, "key")): _value(_get(one, "value")) for one in _list(item, "attributes")}


def _value(found: Any) -> AttributeValue:
    if not isinstance(found, Mapping):
        return None
    for key in ("stringValue", "boolValue", "doubleValue"):
        simple = _get(found, key)
        if simple is not None:
            return float(simple) if key == "doubleValue" else simple
    whole = _get(found, "intValue")
    if whole is not None:
        return _integer(whole)
    data = _get(found, "bytesValue")
    if data is not None:
        return base64.b64decode(data)
    array = _get(found, "arrayValue")
    if array is not None:
        return tuple(_value(one) for one in _list(array, "values"))
    pairs = _get(found, "kvlistValue")
    if pairs is not None:
        return {str(_get(one, "key")): _value(_get(one, "value")) for one in _list(pairs, "values")}
    return None


def _id(found: Any, size: int) -> bytes:
    """Return an id: hexadecimal as OTLP says, or base64 as protobuf's own JSON has it. Raises ValueError."""
    if not found:
        return b""
    text = str(found)
    try:
        data = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"its id {text!r} is neither hexadecimal nor base64") from error
    if len(data) != size:
        raise ValueError(f"its id {text!r} has not {size} bytes")
    return data


def _integer(found: Any) -> int:
    return 0 if found is None else int(found)


def _enumerated(found: Any, prefix: str, names: Sequence[str]) -> int:
    if isinstance(found, str) and not found.isdigit():
        short = found.upper().removeprefix(prefix)
        return names.index(short) if short in names else 0
    return _integer(found)
