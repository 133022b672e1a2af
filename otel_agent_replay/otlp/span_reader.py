"""Spans out of the bytes of OTLP requests, quickly: what requests repeat is decoded once. Pure.

Gives what `spans.spans_of` gives of the same message. A span's attributes, and its status, come as bytes
(`wire/v1/otlp_slices.proto`); bytes that came before say the same again. Not safe to share between threads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeMessage
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_agent_replay.model import AttributeValue, InstrumentationScope, Resource, Span, make_span
from otel_agent_replay.otlp.spans import event_from_otlp, link_from_otlp, resource_from_otlp, scope_from_otlp
from otel_agent_replay.otlp.values import value_from_otlp
from otel_agent_replay.wire.v1.otlp_slices_pb2 import RequestSlices, SpanSlices

_K = TypeVar("_K")
_T = TypeVar("_T")

_MOST_KNOWN = 1 << 16
_MOST_ORIGINS = 1 << 10
_LONGEST_KNOWN = 256  # bytes: longer ones seldom repeat

_ONE_BYTE = 0x7F  # the longest whose lengths take one byte each
_KEY, _VALUE = 0x0A, 0x12  # tags in a KeyValue
_STRING, _INTEGER, _DOUBLE = 0x0A, 0x18, 0x21  # tags in its value
_DIGITS = 4  # bytes of an integer that is looked at here
_MORE = 0x80  # set in each byte of an integer but the last
_double = struct.Struct("<d").unpack_from


class _Known(dict[bytes, _T]):
    """What bytes say, decoded at the first look."""

    def __init__(self, decode: Callable[[bytes], _T]) -> None:
        super().__init__()
        self._decode = decode

    def __missing__(self, data: bytes) -> _T:
        decoded = self._decode(data)
        if len(data) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[data] = decoded
        return decoded


class SpanReader:
    """Reads request after request; spans emitted alike share resource and scope, also across requests."""

    def __init__(self) -> None:
        self._keys = _Known(lambda data: data.decode())
        self._attributes = _Known(self._attribute)
        self._statuses = _Known(_status)
        self._resources: dict[tuple[bytes, str], Resource] = {}
        self._scopes: dict[tuple[bytes, str], InstrumentationScope] = {}

    def spans(self, request: bytes, traces: Collection[bytes] | None = None) -> list[Span]:
        """Return the spans of an ExportTraceServiceRequest or TracesData, or those of `traces`. Raises DecodeError."""
        found: list[Span] = []
        try:
            for group in RequestSlices.FromString(request).resource_spans[:]:
                resource = self._resource(group.resource, group.schema_url)
                for scoped in group.scope_spans[:]:
                    scope = self._scope(scoped.scope, scoped.schema_url)
                    found += [
                        self._span(slices, resource, scope)
                        for slices in scoped.spans[:]
                        if traces is None or slices.trace_id in traces
                    ]
        except UnicodeDecodeError as error:
            raise DecodeError(f"a text in it is not UTF-8: {error}") from error
        return found

    def _span(self, slices: SpanSlices, resource: Resource, scope: InstrumentationScope) -> Span:
        status_code, status_message = self._statuses[slices.status]
        events, links = slices.events[:], slices.links[:]
        return make_span(
            slices.trace_id,
            slices.span_id,
            slices.name,
            slices.start_time_unix_nano,
            slices.end_time_unix_nano,
            slices.parent_span_id,
            slices.kind,
            status_code,
            status_message,
            dict(map(self._attributes.__getitem__, slices.attributes[:])),
            tuple([event_from_otlp(SpanMessage.Event.FromString(event)) for event in events]) if events else (),
            tuple([link_from_otlp(SpanMessage.Link.FromString(link)) for link in links]) if links else (),
            slices.trace_state,
            slices.flags,
            slices.dropped_attributes_count,
            slices.dropped_events_count,
            slices.dropped_links_count,
            resource,
            scope,
        )

    def _attribute(self, data: bytes) -> tuple[str, AttributeValue]:
        """Return name and value of a serialised KeyValue; of the plainest kinds without making messages."""
        if 6 < len(data) <= _ONE_BYTE:
            at = 2 + data[1]  # where the value begins, should the name be short
            if data[0] == _KEY and at + 3 < len(data) == at + 2 + data[at + 1] and data[at] == _VALUE:
                kind = data[at + 2]
                if kind == _STRING and data[at + 3] == len(data) - at - 4:
                    return self._keys[data[2:at]], data[at + 4 :].decode()
                if (
                    kind == _INTEGER
                    and len(data) <= at + 7
                    and data[-1] < _MORE <= min(data[at + 3 : -1], default=_MORE)
                ):
                    number = 0
                    for byte in data[: at + 2 : -1]:
                        number = number << 7 | byte & _MORE - 1
                    return self._keys[data[2:at]], number
                if kind == _DOUBLE and len(data) == at + 11:
                    return self._keys[data[2:at]], _double(data, at + 3)[0]
        message = KeyValue.FromString(data)
        return message.key, value_from_otlp(message.value)

    def _resource(self, data: bytes, schema_url: str) -> Resource:
        known = self._resources.get((data, schema_url))
        if known is None:
            known = resource_from_otlp(ResourceMessage.FromString(data), schema_url)
            _keep(self._resources, (data, schema_url), known)
        return known

    def _scope(self, data: bytes, schema_url: str) -> InstrumentationScope:
        known = self._scopes.get((data, schema_url))
        if known is None:
            known = scope_from_otlp(ScopeMessage.FromString(data), schema_url)
            _keep(self._scopes, (data, schema_url), known)
        return known


def _keep(known: dict[_K, _T], key: _K, value: _T) -> None:
    if len(known) >= _MOST_ORIGINS:
        known.clear()
    known[key] = value


def _status(data: bytes) -> tuple[int, str]:
    message = Status.FromString(data)
    return message.code, message.message
