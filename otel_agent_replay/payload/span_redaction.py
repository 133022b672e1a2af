"""Redaction of spans that other instrumentations emitted, before they are written. Pure; runs on hosts' threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_agent_replay.model import Span, SpanEvent, SpanLink
from otel_agent_replay.payload.redaction import Redaction


def redacted(span: Span, redaction: Redaction) -> Span:
    """Return `span` with every text of it redacted: the same object when nothing is."""
    if _is_clean(span, redaction):
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


def _is_clean(span: Span, redaction: Redaction) -> bool:
    """Return whether nothing has to be looked at one by one: most spans are short and clean, and pass at once."""
    texts = [span.name, span.status_message]
    for attributes in _maps(span):
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
