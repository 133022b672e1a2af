"""Parquet files of spans -> spans: those of otlp2parquet, and of duckdb-otlp. Loads pyarrow.

Both have a row a span, with attributes, events and links as JSON text. Their times have microseconds or milliseconds,
but for ends and durations; what the JSON has lost of types (bytes, large integers) is lost here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Found, spans_of
from otel_agent_replay.imports.foreign_values import attributes_of, span_id_of, trace_id_of, whole_number
from otel_agent_replay.imports.opened_file import OpenedFile
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

_MAGIC: Final = b"PAR1"
_ROWS_AT_ONCE: Final = 4096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_CODES: Final = ("UNSET", "OK", "ERROR")


def fits(file: OpenedFile) -> bool:
    """Whether it is a Parquet file."""
    return file.head[:4] == _MAGIC


def read(file: OpenedFile) -> Found:
    """Return the spans of the file. Raises DamagedRecording for a Parquet file of something else."""
    anomalies: list[Anomaly] = []
    notes = ["a Parquet file with attributes as JSON text: times as exact, and types as many, as it has"]
    return Found("span-parquet", spans_of(_read(file), anomalies), anomalies=anomalies, notes=notes)


def _read(file: OpenedFile) -> Iterator[Span | Anomaly]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file.path)
        columns = {_plain(name): name for name in opened.schema_arrow.names}
        if "traceid" not in columns or not {"spanname", "name"} & set(columns):
            raise DamagedRecording(
                f"{file.path} is a Parquet file without the columns of otlp2parquet or duckdb-otlp: it has "
                + ", ".join(opened.schema_arrow.names[:12])
            )
        for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE):
            for row in _exact(batch).to_pylist():
                yield _checked({_plain(name): value for name, value in row.items()})
    except pa.ArrowException as error:
        raise DamagedRecording(f"{file.path} cannot be read as Parquet: {error}") from error


def _exact(batch: Any) -> Any:
    """The batch with its times as whole nanoseconds: Python's own times have microseconds."""
    import pyarrow as pa

    arrays = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            arrays.append(column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64()))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain(name: str) -> str:
    """A column's name in one spelling: otlp2parquet has `SpanName`, duckdb-otlp `span_name`."""
    return name.replace("_", "").replace(".", "").lower()


def _checked(row: Mapping[str, Any]) -> Span | Anomaly:
    trace_id, span_id = _id(row.get("traceid"), trace_id_of), _id(row.get("spanid"), span_id_of)
    if not any(trace_id) or not any(span_id):
        return Anomaly(AnomalyCode.INVALID_ID, "a row without ids was left out", trace_id, span_id)
    return _span(row, trace_id, span_id)


def _id(found: Any, read: Any) -> bytes:
    return bytes(found) if isinstance(found, bytes) else bytes(read(found))


def _span(row: Mapping[str, Any], trace_id: bytes, span_id: bytes) -> Span:
    start_ns, end_ns = _times(row)
    resource = _attributes(row.get("resourceattributes"))
    for column, key in (
        ("servicename", "service.name"),
        ("servicenamespace", "service.namespace"),
        ("serviceinstanceid", "service.instance.id"),
    ):
        if row.get(column):
            resource.setdefault(key, row[column])
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=str(row.get("spanname") or row.get("name") or ""),
        start_ns=start_ns,
        end_ns=end_ns,
        parent_span_id=_id(row.get("parentspanid"), span_id_of),
        kind=_enumerated(row.get("spankind", row.get("kind")), "SPAN_KIND_", _KINDS),
        status_code=_enumerated(row.get("statuscode"), "STATUS_CODE_", _CODES),
        status_message=str(row.get("statusmessage") or ""),
        attributes=_attributes(row.get("spanattributes", row.get("attributes"))),
        events=_events(row),
        links=_links(row),
        trace_state=str(row.get("tracestate") or ""),
        flags=whole_number(row.get("flags")),
        dropped_attributes=whole_number(row.get("droppedattributescount")),
        dropped_events=whole_number(row.get("droppedeventscount")),
        dropped_links=whole_number(row.get("droppedlinkscount")),
        resource=Resource(resource),
        scope=InstrumentationScope(
            str(row.get("scopename") or ""), str(row.get("scopeversion") or ""), _attributes(row.get("scopeattributes"))
        ),
    )


def _times(row: Mapping[str, Any]) -> tuple[int, int]:
    """Begin and end. Of duckdb-otlp the end and the duration are exact and the begin is not: it is told by them."""
    start, end = whole_number(row.get("timestamp")), whole_number(row.get("endtimestamp"))
    duration = row.get("duration")
    if duration is None:
        return max(0, start), max(0, end)
    if end:
        return max(0, end - whole_number(duration)), end
    return max(0, start), max(0, start + whole_number(duration))


def _attributes(found: Any) -> dict[str, AttributeValue]:
    """Attributes as JSON text, as an object, or as the pairs of a map."""
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {"unreadable": found}
    if isinstance(found, list):
        found = dict(pair for pair in found if isinstance(pair, tuple) and len(pair) == 2)
    return attributes_of(found)


def _enumerated(found: Any, prefix: str, names: tuple[str, ...]) -> int:
    if isinstance(found, str) and not found.isdigit():
        short = found.upper().removeprefix(prefix)
        return names.index(short) if short in names else 0
    return whole_number(found)


def _listed(row: Mapping[str, Any], column: str) -> list[Any]:
    found = row.get(column)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return []
    return found if isinstance(found, list) else []


def _events(row: Mapping[str, Any]) -> tuple[SpanEvent, ...]:
    """Events in one column of JSON, or in a column each of times, names and attributes."""
    listed = _listed(row, "eventsjson") or _listed(row, "events")
    if listed:
        return tuple(
            SpanEvent(_moment(_one(item, "timeunixnano", "timestamp", "time")), str(_one(item, "name") or ""),
                      _attributes(_one(item, "attributes")))
            for item in listed
        )  # fmt: skip
    times, names, attributes = (_listed(row, f"events{part}") for part in ("timestamp", "name", "attributes"))
    return tuple(
        SpanEvent(_moment(time), str(_at(names, place) or ""), _attributes(_at(attributes, place)))
        for place, time in enumerate(times)
    )


def _links(row: Mapping[str, Any]) -> tuple[SpanLink, ...]:
    listed = _listed(row, "linksjson") or _listed(row, "links")
    if listed:
        return tuple(
            SpanLink(_id(_one(item, "traceid"), trace_id_of), _id(_one(item, "spanid"), span_id_of),
                     str(_one(item, "tracestate") or ""), _attributes(_one(item, "attributes")))
            for item in listed
        )  # fmt: skip
    parts = ("traceid", "spanid", "tracestate", "attributes")
    traces, spans, states, attributes = (_listed(row, f"links{part}") for part in parts)
    return tuple(
        SpanLink(_id(trace, trace_id_of), _id(_at(spans, place), span_id_of), str(_at(states, place) or ""),
                 _attributes(_at(attributes, place)))
        for place, trace in enumerate(traces)
    )  # fmt: skip


def _one(item: Any, *names: str) -> Any:
    members = {_plain(str(key)): value for key, value in item.items()} if isinstance(item, Mapping) else {}
    return next((members[name] for name in names if members.get(name) is not None), None)


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _moment(found: Any) -> int:
    """A time inside a list, which Arrow gives as Python's own."""
    if isinstance(found, datetime):
        aware = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return max(0, (aware - _EPOCH) // timedelta(microseconds=1) * 1000)
    return max(0, whole_number(found))
