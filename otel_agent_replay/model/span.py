"""An OpenTelemetry span as pure data, lossless against the OTLP message (opentelemetry-proto trace/v1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.model.making import maker_of

AttributeValue = Any
"""OTLP AnyValue: None, bool, int, float, str, bytes, a sequence or a mapping of these, nested."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Who emitted: resource attributes, entity references left in `attributes`."""

    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    dropped_attributes: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True)
class InstrumentationScope:
    """Which library emitted."""

    name: str = ""
    version: str = ""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    dropped_attributes: int = 0
    schema_url: str = ""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment of a span. `time_ns` is Unix nanoseconds."""

    time_ns: int
    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    dropped_attributes: int = 0


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A pointer to another span."""

    trace_id: bytes
    span_id: bytes
    trace_state: str = ""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    dropped_attributes: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are bytes (16 and 8), times Unix nanoseconds, `kind` and `status_code` OTLP enum numbers.

    `end_ns` is 0 for a span that never ended (OTLP has no other word for it).
    """

    trace_id: bytes
    span_id: bytes
    name: str
    start_ns: int
    end_ns: int = 0
    parent_span_id: bytes = b""
    kind: int = 1
    status_code: int = 0
    status_message: str = ""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanLink] = ()
    trace_state: str = ""
    flags: int = 0
    dropped_attributes: int = 0
    dropped_events: int = 0
    dropped_links: int = 0
    resource: Resource = field(default_factory=Resource)
    scope: InstrumentationScope = field(default_factory=InstrumentationScope)


make_span = maker_of(Span)
"""Makes a `Span` from the same arguments, quicker."""
