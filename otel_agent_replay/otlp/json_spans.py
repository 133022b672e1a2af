"""OTLP JSON -> model spans: one document. Pure; one direction only (`json_messages` writes).

Reads what exporters really write: ids in hexadecimal of either case or in base64, 64-bit integers as text or number,
kinds as number or name, keys in camelCase or snake_case. What is unusual is told as an anomaly; a span whose ids cannot
be read is left out and told, its neighbours are not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

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
from otel_agent_replay.otlp.entities import with_entities
from otel_agent_replay.otlp.texts import has_lone_surrogate

_CAPITAL = re.compile(r"[A-Z]")
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_CODES = ("UNSET", "OK", "ERROR")
_TRACE_ID, _SPAN_ID = 16, 8  # bytes
_INT32, _INT64, _UINT64 = 1 << 31, 1 << 63, 1 << 64


def is_trace_document(document: Any) -> bool:
    """Whether a parsed JSON document is OTLP's of spans."""
    return isinstance(document, dict) and isinstance(_get(document, "resourceSpans"), list)


def spans_of_document(document: Any, *, broken_text: bool = True) -> Iterator[Span | Anomaly]:
    """Yield the spans of a document that `is_trace_document`, and what was wrong on the way.

    Half a character (a lone surrogate) is looked for unless `broken_text` says that the document has no escape of one.
    """
    for group in _list(document, "resourceSpans"):
        odd: list[str] = []
        resource = _resource(group, odd)
        for inner in _list(group, "scopeSpans") or _list(group, "instrumentationLibrarySpans"):
            scope = _scope(inner, odd)
            for item in _list(inner, "spans"):
                reader = _SpanReader(item)
                try:
                    span = reader.span(resource, scope)
                except (ValueError, TypeError, OverflowError, RecursionError) as error:
                    reader.tell(AnomalyCode.UNREADABLE, f"it was left out: {error}")
                else:
                    if span is not None:
                        if broken_text and has_lone_surrogate(span):
                            reader.tell(AnomalyCode.LONE_SURROGATE, "a text of it holds half a character")
                        yield span
                yield from reader.anomalies
        if odd:
            yield Anomaly(AnomalyCode.UNREADABLE, f"who emitted spans: {'; '.join(odd[:5])}")


class _SnakeNames(dict[str, str]):
    """The snake_case of camelCase names, made once each."""

    def __missing__(self, key: str) -> str:
        made = self[key] = _CAPITAL.sub(lambda found: "_" + found[0].lower(), key)
        return made


_SNAKE = _SnakeNames()


def _get(document: Any, key: str) -> Any:
    """Return a member by its camelCase name, or by the snake_case of it."""
    if not isinstance(document, dict):  # what JSON gives, and quicker to tell than any mapping
        return None
    found = document.get(key)
    return document.get(_SNAKE[key]) if found is None and key not in document else found


def _list(document: Any, key: str) -> Sequence[Any]:
    found = _get(document, key)
    return found if isinstance(found, list) else ()


class _Id(NamedTuple):
    """An id as bytes: b"" for none at all, None for an unreadable one; `note` says what was unusual."""

    data: bytes | None
    note: AnomalyCode | None = None


class _SpanReader:
    """One span being read; what is unusual gathers in `anomalies`."""

    def __init__(self, item: Any) -> None:
        self._item = item
        self._odd: list[str] = []
        self.anomalies: list[Anomaly] = []
        self._trace = _id(_get(item, "traceId"), _TRACE_ID)
        self._span = _id(_get(item, "spanId"), _SPAN_ID)

    def tell(self, code: AnomalyCode, detail: str) -> None:
        """Note what is wrong with this span."""
        named = f"span {str(_get(self._item, 'spanId'))[:40]!r}: {detail}"
        self.anomalies.append(Anomaly(code, named, self._trace.data or b"", self._span.data or b""))

    def span(self, resource: Resource, scope: InstrumentationScope) -> Span | None:
        """Return the span, None when its ids cannot be read. Raises ValueError or TypeError for what is no span."""
        item = self._item
        parent = _id(_get(item, "parentSpanId"), _SPAN_ID)
        if not any(self._trace.data or b"") or not any(self._span.data or b""):
            which = "trace id" if not any(self._trace.data or b"") else "span id"
            value = _get(item, "traceId" if which == "trace id" else "spanId")
            self.tell(AnomalyCode.INVALID_ID, f"it was left out: its {which} {str(value)[:80]!r} is no id")
            return None
        self._tell_ids((("traceId", self._trace), ("spanId", self._span), ("parentSpanId", parent)))
        status = _get(item, "status")
        span = Span(
            trace_id=self._trace.data or b"",
            span_id=self._span.data or b"",
            name=_text(item, "name"),
            start_ns=_whole_number(item, "startTimeUnixNano", _UINT64),
            end_ns=_whole_number(item, "endTimeUnixNano", _UINT64),
            parent_span_id=parent.data or b"",
            kind=self._enumerated(_get(item, "kind"), "SPAN_KIND_", _KINDS),
            status_code=self._enumerated(_get(status, "code"), "STATUS_CODE_", _CODES),
            status_message=_text(status, "message"),
            attributes=self._attributes(item),
            events=tuple(self._event(one) for one in _list(item, "events")),
            links=tuple(self._link(one) for one in _list(item, "links")),
            trace_state=_text(item, "traceState"),
            flags=_whole_number(item, "flags"),
            dropped_attributes=_whole_number(item, "droppedAttributesCount"),
            dropped_events=_whole_number(item, "droppedEventsCount"),
            dropped_links=_whole_number(item, "droppedLinksCount"),
            resource=resource,
            scope=scope,
        )
        if self._odd:
            self.tell(AnomalyCode.UNREADABLE, "; ".join(self._odd[:5]))
        return span

    def _tell_ids(self, ids: Sequence[tuple[str, _Id]]) -> None:
        for code in (AnomalyCode.ID_ENCODING, AnomalyCode.CUT_ID):
            unusual = [
                f"{name} {str(_get(self._item, name))[:80]!r} was read as {found.data.hex()}"
                for name, found in ids
                if found.note is code and found.data is not None
            ]
            if unusual:
                self.tell(code, "; ".join(unusual))
        for name, found in ids:
            if found.data is None:
                self.tell(AnomalyCode.INVALID_ID, f"{name} {str(_get(self._item, name))[:80]!r} is no id: left empty")

    def _event(self, one: Any) -> SpanEvent:
        time_ns = _whole_number(one, "timeUnixNano", _UINT64)
        dropped = _whole_number(one, "droppedAttributesCount")
        return SpanEvent(time_ns, _text(one, "name"), self._attributes(one), dropped)

    def _link(self, one: Any) -> SpanLink:
        trace, span = _id(_get(one, "traceId"), _TRACE_ID), _id(_get(one, "spanId"), _SPAN_ID)
        if trace.data is None or span.data is None:
            self.tell(AnomalyCode.INVALID_ID, "a link of it has an id that is none: left empty")
        return SpanLink(
            trace.data or b"",
            span.data or b"",
            _text(one, "traceState"),
            self._attributes(one),
            _whole_number(one, "droppedAttributesCount"),
            _whole_number(one, "flags"),
        )

    def _attributes(self, item: Any) -> dict[str, AttributeValue]:
        given = _list(item, "attributes")
        found = _pairs(given, self._odd)
        if len(found) != len(given):
            self.tell(AnomalyCode.DUPLICATE_ATTRIBUTE, f"{len(given) - len(found)} attributes came twice")
        return found

    def _enumerated(self, found: Any, prefix: str, names: Sequence[str]) -> int:
        if isinstance(found, str) and not found.lstrip("-").isdigit():
            short = found.upper().removeprefix(prefix)
            if short in names:
                return names.index(short)
            self.tell(AnomalyCode.UNKNOWN_ENUM, f"{found[:80]!r} is none of {', '.join(names)}: kept as unspecified")
            return 0
        number = _integer(found)
        if not -_INT32 <= number < _INT32:
            raise ValueError(f"{str(found)[:40]} is no {prefix.rstrip('_').lower()}")
        return number


def _resource(group: Any, odd: list[str]) -> Resource:
    inner = _get(group, "resource")
    entities = tuple(
        {
            "schema_url": _text(one, "schemaUrl"),
            "type": _text(one, "type"),
            "id_keys": tuple(map(str, _list(one, "idKeys"))),
            "description_keys": tuple(map(str, _list(one, "descriptionKeys"))),
        }
        for one in _list(inner, "entityRefs")
    )
    attributes = with_entities(_pairs(_list(inner, "attributes"), odd), entities)
    return Resource(attributes, _count_or_none(inner, odd), _text(group, "schemaUrl"))


def _scope(inner: Any, odd: list[str]) -> InstrumentationScope:
    scope = _get(inner, "scope") or _get(inner, "instrumentationLibrary")
    return InstrumentationScope(
        _text(scope, "name"),
        _text(scope, "version"),
        _pairs(_list(scope, "attributes"), odd),
        _count_or_none(scope, odd),
        _text(inner, "schemaUrl"),
    )


def _count_or_none(item: Any, odd: list[str]) -> int:
    try:
        return _whole_number(item, "droppedAttributesCount")
    except (ValueError, TypeError, OverflowError) as error:
        odd.append(f"{error}: taken for none")
        return 0


def _pairs(items: Sequence[Any], odd: list[str]) -> dict[str, AttributeValue]:
    """Return attributes; a value that is not what it says is kept as text, and told in `odd`."""
    found: dict[str, AttributeValue] = {}
    for one in items:
        name, given = str(_get(one, "key") or ""), _get(one, "value")
        try:
            found[name] = _value(given, odd)
        except (ValueError, TypeError, OverflowError) as error:
            odd.append(f"attribute {name[:60]!r} is kept as text: {error}")
            found[name] = json.dumps(given)
    return found


def _value(found: Any, odd: list[str]) -> AttributeValue:
    if not isinstance(found, dict):
        return None
    for key, read in _SCALARS.items():
        held = _get(found, key)
        if held is not None:
            return read(held)
    array = _get(found, "arrayValue")
    if array is not None:
        return tuple(_value(one, odd) for one in _list(array, "values"))
    pairs = _get(found, "kvlistValue")
    return None if pairs is None else _pairs(_list(pairs, "values"), odd)


def _whole(held: Any) -> int | str:
    number = _integer(held)
    return number if -_INT64 <= number < _INT64 else str(number)


_SCALARS: dict[str, Callable[[Any], AttributeValue]] = {
    "stringValue": str,
    "boolValue": bool,
    "intValue": _whole,
    "doubleValue": float,  # "NaN", "Infinity" and "-Infinity" too, as the JSON mapping of protobuf writes them
    "bytesValue": base64.b64decode,
}


def _whole_number(item: Any, key: str, limit: int = 1 << 32) -> int:
    """Return a number that is never less than nothing, and less than `limit`. Raises ValueError, TypeError."""
    number = _integer(_get(item, key))
    if not 0 <= number < limit:
        raise ValueError(f"{key} {str(_get(item, key))[:40]} is out of range")
    return number


def _text(item: Any, key: str) -> str:
    return str(_get(item, key) or "")


def _id(found: Any, size: int) -> _Id:
    """Return an id: hexadecimal as OTLP says, or base64 as protobuf's own JSON has it."""
    if not found:
        return _Id(b"")
    text = str(found)
    try:
        data = bytes.fromhex(text.strip())
    except ValueError:
        try:
            data = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            return _Id(None)
        return _Id(data, AnomalyCode.ID_ENCODING) if len(data) == size else _Id(None)
    if len(data) == size:
        return _Id(data)
    return _Id(data, AnomalyCode.CUT_ID) if len(data) < size else _Id(None)


def _integer(found: Any) -> int:
    if found is None or found == "":
        return 0
    if isinstance(found, float):
        if not found.is_integer():
            raise ValueError(f"{found!r} is no whole number")
        return int(found)
    return int(found)
