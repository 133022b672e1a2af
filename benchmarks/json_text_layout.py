"""The same corpus as others keep spans in Parquet: one row a span, attributes, resource and events as JSON text.

The columns are those of otlp2parquet's traces table (duckdb-otlp's are alike): ids, times, name, kind, service and
status have columns, everything else is text. Contents lie where OpenTelemetry puts them when they are captured:
`gen_ai.input.messages`, `gen_ai.tool.call.arguments` ... among the attributes. Rows, row groups, partition folders and
compression are the lake's. A lean variant leaves the contents out.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from lake_copies import SPANS_OF_A_FILE, Change, is_stamped, made_by, short, write_stamp
from lake_corpus import recorded_runs

from otel_agent_replay import semconv
from otel_agent_replay.lake.layout import Partition
from otel_agent_replay.lake.writer import ROW_GROUP_ROWS
from otel_agent_replay.model import Kind, Node, RecordedRun, RecordedSpan, Span, run_started_ms
from otel_agent_replay.payload import codec

_KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT"}
_STATUS = {0: "Unset", 1: "Ok", 2: "Error"}
_RUN_ID_FIRST = f'{{"{semconv.RUN_ID}":"'

SCHEMA = pa.schema(
    [
        ("Timestamp", pa.timestamp("ns")),
        ("EndTimestamp", pa.timestamp("ns")),
        ("Duration", pa.int64()),
        ("TraceId", pa.binary()),
        ("SpanId", pa.binary()),
        ("ParentSpanId", pa.binary()),
        ("SpanName", pa.string()),
        ("SpanKind", pa.string()),
        ("StatusCode", pa.string()),
        ("StatusMessage", pa.string()),
        ("ServiceName", pa.string()),
        ("ResourceAttributes", pa.string()),
        ("ScopeName", pa.string()),
        ("ScopeVersion", pa.string()),
        ("SpanAttributes", pa.string()),
        ("Events", pa.string()),
        ("Links", pa.string()),
    ]
)

_SCHEMA = pa.schema([("run_id", pa.binary(16)), *SCHEMA])
"""Of the recorded hour: the text of a copy is made with the run id, its attributes are what follows it."""


def layout_of(spans: int, folder: Path, *, lean: bool = False) -> Path:
    """Return the folder with that many spans in this layout, made when it is not there as this code makes it."""
    copies = max(1, round(spans / SPANS_OF_A_FILE))
    stamp = {"made by": made_by(Path(__file__)), "copies": copies}
    name = "json-lean" if lean else "json"
    target = folder / f"{name}-{short(copies * SPANS_OF_A_FILE)}"
    if not is_stamped(target, stamp):
        shutil.rmtree(target, ignore_errors=True)
        hour = _hour_in(folder, lean=lean)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_copy, [hour] * copies, [target] * copies, range(copies), chunksize=4))
        write_stamp(target, stamp)
    return target


def connect_text(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection with the view `spans` over a folder of `layout_of`."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET parquet_metadata_cache = true")
    pattern = str(folder / "*" / "*" / "*.parquet").replace("'", "''")
    types = "{'date': DATE, 'hour': INTEGER}"
    connection.execute(
        f"CREATE VIEW spans AS SELECT * FROM read_parquet('{pattern}', hive_partitioning = true, hive_types = {types})"
    )
    return connection


def _hour_in(folder: Path, *, lean: bool) -> Path:
    path = folder / f"json-{'lean' if lean else 'full'}-hour.parquet"
    rows = [_row(recorded, member, lean=lean) for recorded in recorded_runs() for member in recorded.spans]
    for row in rows:
        row["SpanAttributes"] = row["SpanAttributes"].removeprefix(_RUN_ID_FIRST + row["run_id"].hex())
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), path, compression="zstd")
    return path


def _row(recorded: RecordedRun, member: RecordedSpan, *, lean: bool) -> dict[str, Any]:
    run_id = {semconv.RUN_ID: recorded.run.run_id.hex()}
    row = row_of(replace(member.span, attributes={**run_id, **with_contents(recorded, member, lean=lean)}))
    return {"run_id": recorded.run.run_id, **row}


def with_contents(recorded: RecordedRun, member: RecordedSpan, *, lean: bool = False) -> dict[str, Any]:
    """Return the attributes of a span, contents among them."""
    if member.node is None or lean:
        return dict(member.span.attributes)
    return {**member.span.attributes, **_contents(recorded, member.node)}


def row_of(span: Span) -> dict[str, Any]:
    """Return the row of a span."""
    events = [
        {"time": event.time_ns, "name": event.name, "attributes": dict(event.attributes)} for event in span.events
    ]
    return {
        "Timestamp": span.start_ns,
        "EndTimestamp": span.end_ns,
        "Duration": span.end_ns - span.start_ns,
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "ParentSpanId": span.parent_span_id or None,
        "SpanName": span.name,
        "SpanKind": _KINDS[span.kind],
        "StatusCode": _STATUS[span.status_code],
        "StatusMessage": span.status_message or None,
        "ServiceName": span.resource.attributes.get(semconv.SERVICE_NAME),
        "ResourceAttributes": json.dumps(dict(span.resource.attributes), separators=(",", ":")),
        "ScopeName": span.scope.name,
        "ScopeVersion": span.scope.version,
        "SpanAttributes": json.dumps(dict(span.attributes), separators=(",", ":")),
        "Events": json.dumps(events, separators=(",", ":")),
        "Links": "[]",
    }


def _contents(recorded: RecordedRun, node: Node) -> dict[str, str]:
    """Return what a call was asked and answered, as the conventions put it on a span: JSON text."""
    request = None if node.call is None else recorded.payload(node.call.request.digest)
    result = None
    if node.outcome is not None and node.outcome.result is not None:
        result = recorded.payload(node.outcome.result.digest)
    if node.kind is Kind.MODEL:
        asked, answered = json.loads(request or b"{}"), json.loads(result or b"{}")
        return {
            semconv.INPUT_MESSAGES: _text([_message(message) for message in asked["messages"]]),
            semconv.OUTPUT_MESSAGES: _text([_message(choice["message"]) for choice in answered["choices"]]),
            "gen_ai.tool.definitions": _text(asked["tools"]),
        }
    if node.kind is Kind.TOOL:
        contents = {semconv.TOOL_CALL_ARGUMENTS: _text(codec.decode_call(request or b"")[1])}
        return contents if result is None else contents | {semconv.TOOL_CALL_RESULT: _text(codec.decode(result))}
    return {
        name: data.decode()
        for name, data in ((semconv.REQUEST_BODY, request), (semconv.RESULT_BODY, result))
        if data is not None
    }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@cache
def _hour(path: Path) -> pa.Table:
    return pq.read_table(path).cast(_SCHEMA).combine_chunks()


def _copy(hour: Path, target: Path, number: int) -> None:
    change = Change.of(number)
    column = {name: values.chunk(0) for name, values in zip(_SCHEMA.names, _hour(hour).columns, strict=True)}
    run_ids = change.run_ids(column.pop("run_id"))
    ids = [run_id.hex() for run_id in run_ids.to_pylist()]
    rest = column["SpanAttributes"].to_pylist()
    for name in ("Timestamp", "EndTimestamp"):
        column[name] = change.later(column[name].cast(pa.int64())).cast(pa.timestamp("ns"))
    column["TraceId"] = change.masked(column["TraceId"], change.trace_mask)
    for name in ("SpanId", "ParentSpanId"):
        column[name] = change.masked(column[name], change.span_mask)
    column["SpanAttributes"] = pa.array(
        [_RUN_ID_FIRST + run_id + text for run_id, text in zip(ids, rest, strict=True)], pa.string()
    )
    partition = Partition.of_ms(run_started_ms(run_ids[0].as_py()))
    path = target / f"date={partition.date}" / f"hour={partition.hour}" / f"{number:04}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(column), path, compression="zstd", row_group_size=ROW_GROUP_ROWS)


QUERIES = {
    "cost by model and day": """
        SELECT date, facts[1] AS request_model, sum(facts[2]::DOUBLE) AS usd, count(*) AS calls
        FROM (
            SELECT date, json_extract_string(SpanAttributes, [
                '$."gen_ai.request.model"', '$."agent_replay.cost.usd"', '$."agent_replay.source"'
            ]) AS facts
            FROM spans WHERE SpanName LIKE 'chat %'
        )
        WHERE coalesce(facts[3], 'live') = 'live' GROUP BY ALL ORDER BY date, usd DESC""",
    "slowest tools": """
        SELECT SpanName[14:] AS name, count(*) AS calls, quantile_cont(Duration / 1e6, 0.95) AS p95_ms
        FROM spans
        WHERE SpanName LIKE 'execute_tool %'
            AND coalesce(json_extract_string(SpanAttributes, '$."agent_replay.source"'), 'live') = 'live'
        GROUP BY name ORDER BY p95_ms DESC""",
    "tool calls whose arguments look like something": """
        SELECT json_extract_string(SpanAttributes, '$."agent_replay.run.id"') AS run_id,
            json_extract(SpanAttributes, '$."agent_replay.step"')::INT AS step, SpanName[14:] AS name,
            json_extract_string(SpanAttributes, '$."gen_ai.tool.call.arguments"') AS arguments
        FROM spans WHERE SpanName LIKE 'execute_tool %' AND arguments LIKE '%"order_id":"17"%'""",
    "error rate by agent version": """
        SELECT facts[1] AS agent, facts[2] AS version_agent, avg(failed::INT) AS error_rate, count(*) AS runs
        FROM (
            SELECT StatusCode = 'Error' AS failed, json_extract_string(SpanAttributes, [
                '$."gen_ai.agent.name"', '$."agent_replay.version.agent"', '$."agent_replay.replay"'
            ]) AS facts
            FROM spans WHERE SpanName LIKE 'invoke_agent %'
        )
        WHERE facts[3] IS DISTINCT FROM 'true' GROUP BY ALL""",
    "prompts that contain something": """
        SELECT DISTINCT json_extract_string(SpanAttributes, '$."agent_replay.run.id"') AS run_id,
            json_extract(SpanAttributes, '$."agent_replay.step"')::INT AS step
        FROM spans
        WHERE SpanName LIKE 'chat %'
            AND json_extract_string(SpanAttributes, '$."gen_ai.input.messages"') ILIKE '%refund policy%'""",
}
"""The README's queries in this layout, each the fastest form found, by the first words of each there."""
