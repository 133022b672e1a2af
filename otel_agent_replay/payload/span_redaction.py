"""Redaction of spans that other instrumentations emitted, before they are written. Pure; runs on hosts' threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.payload.redaction import Redaction


def redacted(span: Span, redaction: Redaction) -> Span:
    """Return `span` with every text of it redacted, and of who emitted it: the same object when nothing is."""
    resource, scope = _emitted_by(span, redaction)
    if resource is not span.resource or scope is not span.scope:
        span = replace(span, resource=resource, scope=scope)
    if _is_clean([span.name, span.status_message], _maps(span), redaction):
        return span
    return replace(
        span,
        name=redaction.text(span.name),
        status_message=redaction.text(span.status_message),
        attributes=redaction.attributes(span.attributes),
        events=[
            SpanEvent(event.time_ns, event.name, redaction.attributes(event.attributes), event.dropped_attributes)
            for event in span.events
        ],
        links=[
            SpanLink(
                link.trace_id,
                link.span_id,
                link.trace_state,
                redaction.attributes(link.attributes),
                link.dropped_attributes,
                link.flags,
            )
            for link in span.links
        ],
    )


_Emitted = tuple[Resource, InstrumentationScope]
_last: tuple[_Emitted, Redaction, _Emitted] | None = None  # spans that follow each other mostly share theirs


def _emitted_by(span: Span, redaction: Redaction) -> _Emitted:
    """Return the resource and scope of a span, redacted: the same objects when nothing is."""
    global _last
    last = _last
    if last is not None and last[0][0] is span.resource and last[0][1] is span.scope and last[1] is redaction:
        return last[2]
    resource, scope = span.resource, span.scope
    if not _is_clean([], [resource.attributes], redaction):
        resource = replace(resource, attributes=redaction.attributes(resource.attributes))
    if not _is_clean([], [scope.attributes], redaction):
        scope = replace(scope, attributes=redaction.attributes(scope.attributes))
    _last = (span.resource, span.scope), redaction, (resource, scope)
    return resource, scope


def _is_clean(texts: list[str], maps: Iterable[Mapping[str, Any]], redaction: Redaction) -> bool:
    """Return whether nothing has to be looked at one by one: most spans are short and clean, and pass at once."""
    for attributes in maps:
        for name, value in attributes.items():
            if redaction.is_named(name) or isinstance(value, Mapping):
                return False
            texts += _texts(value)
    together = "\n".join(texts)
    return "://" not in together and "{" not in together and redaction.text(together) is together


def _maps(span: Span) -> Iterator[Mapping[str, Any]]:
    yield span.attributes
    for event in span.events:
        yield event.attributes
    for link in span.links:
        yield link.attributes


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)
