"""The texts of a span, wherever they lie in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.model import AttributeValue, Span


def texts_of(span: Span) -> Iterator[str]:
    """Yield every text that a span says, names of attributes and who emitted it too."""
    yield from (span.name, span.status_message, span.trace_state)
    yield from _texts(span.attributes)
    for event in span.events:
        yield event.name
        yield from _texts(event.attributes)
    for link in span.links:
        yield link.trace_state
        yield from _texts(link.attributes)
    yield from _texts(span.resource.attributes)
    yield from (span.scope.name, span.scope.version)
    yield from _texts(span.scope.attributes)


def _texts(value: AttributeValue) -> Iterator[str]:
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            yield from map(str, one)
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one


def has_lone_surrogate(span: Span) -> bool:
    """Whether UTF-8 cannot hold a text of the span."""
    return any(not text.isascii() and _is_broken(text) for text in texts_of(span))


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
