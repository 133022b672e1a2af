"""Which spans are plain: nothing in them needs more than to be put into columns. Pure, and careful: in doubt not.

A span is not plain that a dialect of agents' spans may speak through, that has a name of ours, an id that is not whole,
a text or an attribute that columns hold in another way, or JSON that may be cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects import DIALECTS
from otel_agent_replay.imports.plain.attribute_columns import AttributeColumns, ends_of
from otel_agent_replay.imports.plain.request_columns import RequestColumns, fields_of, lengths_in, lengths_of, single
from otel_agent_replay.imports.plain.trace_order import SpanPlaces

_TRACE_ID, _SPAN_ID = 16, 8  # bytes
_INT64 = 1 << 63
_ERROR = 2  # OTLP StatusCode
_OURS: Final = "agent_replay"
_OF_EVENTS: Final = "gen_ai."
_LISTS_OF_EVENTS: Final = frozenset(("events", "all_messages_events"))
_HEADS: Final = frozenset(sign.partition(".")[0] for dialect in DIALECTS for sign in dialect.signs) | {
    _OURS,
    *_LISTS_OF_EVENTS,
}
_SCOPES: Final = tuple(scope for dialect in DIALECTS for scope in dialect.scopes)
_SPAN_NAMES: Final = tuple(name for dialect in DIALECTS for name in dialect.span_names)


def may_speak(name: str) -> bool:
    """Whether an attribute of that name may make its span an agent's, or ours."""
    return name.partition(".")[0] in _HEADS


@dataclass(frozen=True, slots=True)
class Members:
    """Events or links of many spans: `begins` and `lengths` say which are a span's, `fields` are theirs together."""

    fields: dict[str, Any]
    begins: Any
    lengths: Any
    attributes: AttributeColumns

    @classmethod
    def of(cls, lists: Any) -> Members | None:
        """Return the members of lists of events or links; None where there is none."""
        if not len(lists.values):
            return None
        fields = fields_of(lists.values)
        begins = lists.offsets.to_numpy()[:-1].astype(np.int64)
        return cls(fields, begins, lengths_of(lists).astype(np.int64), AttributeColumns(fields["attributes"]))

    def owners_of(self, members: Any) -> Any:
        """Return which owners have any of the members, which a mask tells."""
        owner: Any = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return np.bincount(owner[members], minlength=len(self.lengths)) > 0


class PlainSpans:
    """The spans of requests, and which of them are `odd`: not plain, each by itself."""

    def __init__(self, columns: RequestColumns) -> None:
        self.columns = columns
        fields = columns.fields
        self.attributes = AttributeColumns(fields["attributes"])
        self.events = Members.of(fields["events"])
        self.links = Members.of(fields["links"])
        traces = fields["trace_id"].dictionary_encode()
        self.trace_ids: list[bytes] = traces.dictionary.to_pylist()
        span_id, has_id = _numbers(fields["span_id"])
        parent_id, has_parent = _numbers(fields["parent_span_id"])
        start, end = fields["start_time_unix_nano"].to_numpy(), fields["end_time_unix_nano"].to_numpy()
        status, in_parts = single(fields["status"])
        self.status = fields_of(status)
        self.failed = self.status["code"].fill_null(0).to_numpy() == _ERROR
        named = lengths_in(fields["parent_span_id"]) > 0
        self.odd = ~has_id | (span_id == 0) | (named & ~has_parent) | (start >= _INT64) | (end >= _INT64)
        self.odd |= in_parts | self._odd_texts() | self._odd_attributes() | self._odd_events() | self._odd_links()
        self.places = SpanPlaces(
            len(self.trace_ids),
            traces.indices.to_numpy().astype(np.int64),
            span_id,
            named,
            parent_id,
            start.astype(np.int64),
            end.astype(np.int64),
            fields["name"],
        )

    def whole_ids(self) -> Any:
        """Return which traces have an id that is whole, and neither begins nor ends with another one here, cut off."""
        cut = {trace_id for trace_id in self.trace_ids if len(trace_id) < _TRACE_ID}
        lengths = {len(part) for part in cut} - {0}

        def is_whole(trace_id: bytes) -> bool:
            return (
                len(trace_id) == _TRACE_ID
                and any(trace_id)
                and not any(trace_id[:length] in cut or trace_id[-length:] in cut for length in lengths)
            )

        return np.array(list(map(is_whole, self.trace_ids)), bool)

    def _odd_texts(self) -> Any:
        fields = self.columns.fields
        odd = _begins_with_nul(fields["trace_state"]) | _begins_with_nul(self.status["message"])
        names = fields["name"].dictionary_encode()
        speaking = [name[:1] == "\0" or name.startswith(_SPAN_NAMES) for name in names.dictionary.to_pylist()]
        scopes = [scope.name.startswith(_SCOPES) for scope in self.columns.scopes]
        return odd | np.array(speaking, bool)[names.indices.to_numpy()] | np.array(scopes, bool)[self.columns.scope]

    def _odd_attributes(self) -> Any:
        attributes = self.attributes
        odd = attributes.odd() | attributes.having(may_speak) | attributes.cut_json()
        return odd | attributes.other_than_text(semconv.ERROR_TYPE)

    def _odd_events(self) -> Any:
        if self.events is None:
            return False
        fields = self.events.fields
        speaking = pc.starts_with(fields["name"], pattern=_OF_EVENTS).to_numpy(zero_copy_only=False)
        late = fields["time_unix_nano"].to_numpy() >= _INT64
        odd = speaking | late | _begins_with_nul(fields["name"]) | self.events.attributes.odd()
        return self.events.owners_of(odd)

    def _odd_links(self) -> Any:
        if self.links is None:
            return False
        return self.links.owners_of(_begins_with_nul(self.links.fields["trace_state"]) | self.links.attributes.odd())


def _begins_with_nul(texts: Any) -> Any:
    return ends_of(texts)[0] == 0


def _numbers(ids: Any) -> tuple[Any, Any]:
    """Return ids of eight bytes as numbers in the order of bytes, and which of the ids are that long."""
    whole = lengths_in(ids) == _SPAN_ID
    numbers: Any = np.zeros(len(ids), np.uint64)
    members = ids if whole.all() else ids.filter(pa.array(whole))
    if len(members):
        _, offsets, data = members.buffers()
        first = int(np.frombuffer(offsets, np.int32)[members.offset])
        numbers[whole] = np.frombuffer(data, ">u8", len(members), first)
    return numbers, whole
