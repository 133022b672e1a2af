"""OTLP requests -> the spans in them as Arrow arrays: no object a span. Owns how bytes become columns, judges nothing.

The protobuf is read by `ptars` (in the extra `collector`), by a description of the same messages that nests nothing in
itself (`wire/v1/otlp_columns.proto`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeMessage
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from ptars import HandlerPool

from otel_agent_replay.model import InstrumentationScope, Resource
from otel_agent_replay.otlp.spans import resource_from_otlp, scope_from_otlp
from otel_agent_replay.wire.v1 import otlp_columns_pb2


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """The spans of requests, in order. `fields` are arrays by OTLP's names, a list or a struct where OTLP has one.

    `resource` and `scope` say of each span which of the distinct `resources` and `scopes` emitted it.
    """

    fields: dict[str, Any]
    resource: Any
    scope: Any
    resources: Sequence[Resource]
    scopes: Sequence[InstrumentationScope]

    def __len__(self) -> int:
        return len(self.resource)

    @property
    def attribute_count(self) -> int:
        """How many attributes the spans have, all together; those of their events and links not counted."""
        return len(self.fields["attributes"].values)


class ColumnsReader:
    """Reads requests together. Raises ImportError where `ptars` is not installed."""

    def __init__(self) -> None:
        pool = HandlerPool([otlp_columns_pb2.DESCRIPTOR])
        self._handler = pool.get_for_message(otlp_columns_pb2.ColumnsRequest.DESCRIPTOR)

    def read(self, requests: Sequence[bytes]) -> RequestColumns:
        """Return the spans of ExportTraceServiceRequests. Raises DecodeError when one of them is none."""
        try:
            batch = self._handler.list_to_record_batch(requests)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise DecodeError(str(error)) from error  # a panic of the library is no Exception
        groups = batch.column(0)
        group_fields = fields_of(groups.values)
        scoped = group_fields["scope_spans"]
        scoped_fields = fields_of(scoped.values)
        spans = scoped_fields["spans"]
        resources, resource_of_group = _distinct(group_fields["resource"], group_fields["schema_url"], _resource)
        scopes, scope_of_scoped = _distinct(scoped_fields["scope"], scoped_fields["schema_url"], _scope)
        sizes = lengths_of(spans)
        return RequestColumns(
            fields_of(spans.values),
            np.repeat(np.repeat(resource_of_group, lengths_of(scoped)), sizes),
            np.repeat(scope_of_scoped, sizes),
            resources,
            scopes,
        )


def lengths_of(lists: Any) -> Any:
    """Return how many members each list of an array has."""
    return np.diff(lists.offsets.to_numpy())


def single(lists: Any) -> tuple[Any, Any]:
    """Return the first member of each list of an array, null where there is none, and a mask of longer lists."""
    lengths = lengths_of(lists)
    if not len(lists.values):
        return pa.nulls(len(lists), lists.type.value_type), lengths > 1
    begins = lists.offsets.to_numpy()[:-1]
    return lists.values.take(pa.array(begins, mask=lengths == 0)), lengths > 1


def lengths_in(values: Any) -> Any:
    """Return the bytes of each text or bytes of an array, 0 for null."""
    lengths: Any = pc.binary_length(values)
    return lengths.fill_null(0).to_numpy()


def fields_of(structs: Any) -> dict[str, Any]:
    """Return the fields of an array of structs; where a struct is null, they are."""
    return dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))


def _resource(data: bytes, schema_url: str) -> Resource:
    return resource_from_otlp(ResourceMessage.FromString(data), schema_url)


def _scope(data: bytes, schema_url: str) -> InstrumentationScope:
    return scope_from_otlp(ScopeMessage.FromString(data), schema_url)


def _distinct(data: Any, schema_urls: Any, decode: Any) -> tuple[list[Any], Any]:
    """Return what the distinct pairs of bytes and schema url say, and which of them each pair is."""
    places: dict[tuple[bytes, str], int] = {}
    which = [
        places.setdefault(pair, len(places)) for pair in zip(data.to_pylist(), schema_urls.to_pylist(), strict=True)
    ]
    return [decode(*pair) for pair in places], np.array(which, np.int64)
