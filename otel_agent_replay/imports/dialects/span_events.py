"""What events say of a span's messages: OpenTelemetry's events up to 1.36, those since, and OpenLIT's. Pure.

An event may lie on its span, in an attribute of it (Pydantic AI, Logfire), or come as a log record: `event_of_record`
makes the same of all, and `joined` puts records to the spans that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from otel_agent_replay.imports.dialects.plain_values import plain
from otel_agent_replay.model import AttributeValue, Span, SpanEvent
from otel_agent_replay.protocols.json_text import as_objects, parse

DETAILS: Final = "gen_ai.client.inference.operation.details"
_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE: Final = "gen_ai.choice"
_PROMPT: Final = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}
_LISTS: Final = ("events", "all_messages_events")
_NAME_KEYS: Final = ("event.name",)
_BODIES: Final = ("body", "event.body", "log.body")


@dataclass(frozen=True, slots=True)
class EventMessages:
    """Messages in the form in which events have them; `attributes` are what an event says in attributes of the span."""

    asked: Any = None
    answered: Any = None
    attributes: Mapping[str, AttributeValue] | None = None


def messages_of_events(span: Span) -> EventMessages:
    """Return what the span's events, and lists of events in its attributes, say of its messages."""
    asked: list[Any] = []
    answered: list[Any] = []
    texts: dict[str, Any] = {}
    said: dict[str, AttributeValue] = {}
    for name, content in _events(span):
        if name in _ROLES:
            asked.append({"role": _ROLES[name], **content})
        elif name == _CHOICE:
            answered.append(content if "message" in content else {"role": "assistant", **content})
        elif name in _PROMPT:
            texts[name] = content.get(_PROMPT[name])
        elif name == DETAILS:
            said.update(content)
    return EventMessages(
        asked or texts.get("gen_ai.content.prompt"), answered or texts.get("gen_ai.content.completion"), said or None
    )


def _events(span: Span) -> Iterable[tuple[str, dict[str, Any]]]:
    for event in span.events:
        if event.name.startswith("gen_ai."):
            yield event.name, _content(event.attributes)
    for key in _LISTS:
        listed = span.attributes.get(key)
        if listed is None:
            continue
        for item in as_objects(parse(listed) if isinstance(listed, str) else plain(listed)):
            name = item.get("event.name")
            if isinstance(name, str):
                yield name, {key: value for key, value in item.items() if key not in _NAME_KEYS}


def _content(attributes: Mapping[str, AttributeValue]) -> dict[str, Any]:
    """The event's own members, its body's among them. JSON in a text is read: attributes could hold no more."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in _BODIES:
            body = _read(value)
            found.update(body if isinstance(body, dict) else {"content": body})
        elif key not in _NAME_KEYS:
            found[key] = _read(value)
    return found


def _read(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        found = parse(value)
        return value if found is None else found
    return plain(value)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record of a span, as far as events need it. Ids are bytes, the time Unix nanoseconds, `body` any value."""

    trace_id: bytes
    span_id: bytes
    time_ns: int
    event_name: str = ""
    body: AttributeValue = None
    attributes: Mapping[str, AttributeValue] | None = None


def event_of_record(record: LogRecord) -> SpanEvent | None:
    """Return the record as an event of its span; None where it is no event of GenAI, or names no span."""
    attributes = dict(record.attributes or {})
    name = record.event_name or attributes.get("event.name")
    if not isinstance(name, str) or not name.startswith("gen_ai.") or not any(record.span_id):
        return None
    if record.body is not None:
        attributes["body"] = record.body
    return SpanEvent(record.time_ns, name, attributes)


def joined(spans: Sequence[Span], records: Iterable[LogRecord]) -> tuple[list[Span], list[LogRecord]]:
    """Return the spans with the events that records make on them, and the records that belong to none of them.

    An event that its span has already is not added again: a record may come twice.
    """
    events: dict[tuple[bytes, bytes], list[SpanEvent]] = {}
    here = {(span.trace_id, span.span_id) for span in spans}
    left = []
    for record in records:
        event = event_of_record(record)
        place = record.trace_id, record.span_id
        if event is None or place not in here:
            left.append(record)
        else:
            events.setdefault(place, []).append(event)
    return [_with_events(span, events.get((span.trace_id, span.span_id), [])) for span in spans], left


def _with_events(span: Span, added: list[SpanEvent]) -> Span:
    new: list[SpanEvent] = []
    for event in added:
        if event not in span.events and event not in new:
            new.append(event)
    if not new:
        return span
    return replace(span, events=tuple(sorted((*span.events, *new), key=lambda event: event.time_ns)))
