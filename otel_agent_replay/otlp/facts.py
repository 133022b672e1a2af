"""Facts that a reader found out about a span, beside what it said itself: added so that they can be taken off again.

A span of another instrumentation tells its model, tokens or tool under names of its own. In the lake the names that
everything reads are added to its attributes; which ones were, and what stood there before, is noted on the span, so
that what goes out again is what came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.model import AttributeValue, Span


def with_facts(span: Span, facts: Mapping[str, AttributeValue]) -> Span:
    """Return the span with facts among its attributes, beside those that it was given before.

    A fact that it says itself, in the same form, is no addition.
    """
    if semconv.IMPORT_ADDED in span.attributes:
        return with_facts(without_facts(span), {**_facts_on(span), **facts})
    own = span.attributes
    new = {name: value for name, value in facts.items() if name not in own or not _is_same(own[name], value)}
    if not new:
        return span
    attributes = {**own, **new}
    attributes[semconv.IMPORT_ADDED] = tuple(name for name in new if name not in own)
    replaced = {name: own[name] for name in new if name in own}
    if replaced:
        attributes[semconv.IMPORT_REPLACED] = replaced
    return replace(span, attributes=attributes)


def without_facts(span: Span) -> Span:
    """Return the span as it was before `with_facts`."""
    attributes = span.attributes
    added = attributes.get(semconv.IMPORT_ADDED)
    if not isinstance(added, (list, tuple)):
        return span
    before = attributes.get(semconv.IMPORT_REPLACED)
    replaced = before if isinstance(before, Mapping) else {}
    left_out = {*added, semconv.IMPORT_ADDED, semconv.IMPORT_REPLACED}
    own = {name: replaced.get(name, value) for name, value in attributes.items() if name not in left_out}
    return replace(span, attributes=own)


def _facts_on(span: Span) -> dict[str, AttributeValue]:
    replaced = span.attributes.get(semconv.IMPORT_REPLACED, {})
    return {name: span.attributes[name] for name in (*span.attributes[semconv.IMPORT_ADDED], *replaced)}


def _is_same(one: AttributeValue, other: AttributeValue) -> bool:
    return type(one) is type(other) and bool(one == other)
