"""Files of spans in other formats than OTLP: what each reader makes of them, and says of what it cannot read."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import Spans, read_file, read_spans
from otel_agent_replay.model import AnomalyCode, Span, SpanEvent, SpanLink

TRACE, ROOT, CHILD = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
AT = 1_760_000_000_123_456_789


def read(tmp_path, content, name: str = "file.json") -> Spans:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return read_spans(path)


def by_name(spans: list[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans}


# --- Langfuse ---


def observation(**fields):
    return {
        "id": CHILD,
        "traceId": TRACE,
        "type": "GENERATION",
        "name": "ask",
        "startTime": "2025-10-09T08:53:20.123Z",
        "endTime": "2025-10-09T08:53:21.5Z",
        "parentObservationId": ROOT,
        **fields,
    }


def test_a_langfuse_export(tmp_path):
    """An observation is a span with the attributes it was sent with; what Langfuse took out of them is there again."""
    metadata = {
        "attributes": {"gen_ai.usage.input_tokens": "62"},
        "resourceAttributes": {"service.name": "support"},
        "scope": {"name": "ai", "version": "5"},
        "mine": 1,
    }
    document = {
        "trace": {"id": TRACE, "name": "t", "sessionId": "s-1", "userId": "u-1", "tags": ["a"]},
        "observations": [
            observation(
                metadata=json.dumps(metadata), input='{"a": 1}', output={"b": [2]}, model="gpt-4o",
                modelParameters={"temperature": 0.5, "top_p": None}, usageDetails={"input": 62},
                costDetails={"total": 0.5},
            ),
            observation(id=ROOT, type="AGENT", name="agent", parentObservationId="", level="ERROR", statusMessage="x"),
            observation(id="0000000000000003", type="EVENT", name="event", endTime=None),
        ],
    }  # fmt: skip
    spans = by_name(read(tmp_path, document).spans)
    ask, agent = spans["ask"], spans["agent"]
    assert (ask.trace_id.hex(), ask.span_id.hex(), ask.parent_span_id.hex()) == (TRACE, CHILD, ROOT)
    assert (ask.start_ns, ask.end_ns) == (1760000000123000000, 1760000001500000000)
    assert (ask.resource.attributes, ask.scope.name, ask.scope.version) == ({"service.name": "support"}, "ai", "5")
    assert ask.attributes == {
        "gen_ai.usage.input_tokens": "62",
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "gpt-4o",
        "langfuse.observation.input": '{"a": 1}',
        "langfuse.observation.output": '{"b": [2]}',
        "langfuse.observation.model.parameters": '{"temperature": 0.5}',
        "langfuse.observation.usage_details": '{"input": 62}',
        "langfuse.observation.cost_details": '{"total": 0.5}',
        "langfuse.observation.metadata.mine": 1,
        "session.id": "s-1",
        "user.id": "u-1",
    }
    assert (agent.status_code, agent.status_message, agent.attributes["langfuse.trace.tags"]) == (2, "x", ("a",))
    assert spans["event"].start_ns == spans["event"].end_ns
    found = read_file(tmp_path / "file.json")
    assert [span.name for span in found.spans] == ["ask", "agent", "event"]
    assert found.format == "langfuse"


@pytest.mark.parametrize("form", ["list", "lines", "one"])
def test_langfuse_exports_come_in_several_forms(tmp_path, form):
    """Traces in a list, observations one a line, and one observation alone are read alike."""
    one, other = observation(), observation(id=ROOT, name="other", parentObservationId=None)
    content = {
        "list": json.dumps([{"trace": {"id": TRACE}, "observations": [one]}, {"id": TRACE, "observations": [other]}]),
        "lines": "\n".join(map(json.dumps, (one, other))) + "\n",
        "one": json.dumps(one),
    }[form]
    spans = read(tmp_path, content.encode()).spans
    assert [span.name for span in spans] == (["ask"] if form == "one" else ["ask", "other"])


def test_ids_of_any_shape_are_ids(tmp_path):
    """Ids that are no hexadecimal digits, as older SDKs drew them, give ids that stay the same and keep the tree."""
    document = {
        "trace": {"id": "my trace"},
        "observations": [
            observation(id="root-1", traceId="my trace", name="root", parentObservationId=None),
            observation(id="child-1", traceId="my trace", parentObservationId="root-1"),
        ],
    }
    spans = by_name(read(tmp_path, document).spans)
    assert len(spans["root"].trace_id) == 16
    assert spans["ask"].parent_span_id == spans["root"].span_id
    assert spans["ask"].trace_id == spans["root"].trace_id
    uuid = observation(traceId="0af76519-16cd-43dd-8448-eb211c80319c")
    assert read(tmp_path, uuid).spans[0].trace_id.hex() == TRACE


def test_observations_that_cannot_be_read_are_told(tmp_path):
    """What is no observation, or has no id, is left out and told; its neighbours are read."""
    found = read(tmp_path, {"trace": {"id": TRACE}, "observations": [7, observation(id=None), observation()]})
    assert [span.name for span in found.spans] == ["ask"]
    assert [anomaly.code for anomaly in found.anomalies] == [AnomalyCode.UNREADABLE, AnomalyCode.INVALID_ID]


# --- Jaeger ---


def jaeger_span(**fields):
    return {
        "traceID": TRACE,
        "spanID": CHILD,
        "operationName": "ask",
        "references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": ROOT}],
        "startTime": AT // 1000,
        "duration": 1500,
        "tags": [],
        "logs": [],
        "processID": "p1",
        **fields,
    }


def test_a_jaeger_trace(tmp_path):
    """Tags of an OTel span's own fields become those fields again, typed values keep their type, logs are events."""
    tags = [
        {"key": "span.kind", "type": "string", "value": "client"},
        {"key": "otel.scope.name", "type": "string", "value": "lib"},
        {"key": "otel.status_code", "type": "string", "value": "ERROR"},
        {"key": "otel.status_description", "type": "string", "value": "no"},
        {"key": "error", "type": "bool", "value": True},
        {"key": "n", "type": "int64", "value": "9007199254740993"},
        {"key": "f", "type": "float64", "value": 0.5},
        {"key": "b", "type": "binary", "value": "AAE="},
    ]
    fields = [{"key": "event", "type": "string", "value": "retry"}, {"key": "n", "type": "int64", "value": 2}]
    link = {"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "0000000000000009"}
    span = jaeger_span(tags=tags, logs=[{"timestamp": 5, "fields": fields}], warnings=["clock skew"])
    span["references"].append(link)
    document = {"data": [{"spans": [span], "processes": {"p1": {"serviceName": "support", "tags": tags[5:6]}}}]}
    (found,) = read(tmp_path, document).spans
    assert (found.kind, found.status_code, found.status_message, found.scope.name) == (3, 2, "no", "lib")
    assert (found.start_ns, found.end_ns - found.start_ns) == (AT // 1000 * 1000, 1_500_000)
    assert found.parent_span_id.hex() == ROOT
    assert found.attributes == {"n": 9007199254740993, "f": 0.5, "b": b"\0\1", "jaeger.warnings": ("clock skew",)}
    assert found.events == (SpanEvent(5000, "retry", {"n": 2}),)
    assert found.links == (
        SpanLink(found.trace_id, b"\0" * 7 + b"\x09", attributes={"opentracing.ref_type": "follows_from"}),
    )
    assert found.resource.attributes == {"service.name": "support", "n": 9007199254740993}


def test_jaeger_spans_in_a_list(tmp_path):
    """A bare list of spans, each with its process, is read too; short trace ids get noughts before them."""
    process = {"serviceName": "s", "tags": []}
    (found,) = read(tmp_path, [jaeger_span(traceID="2be38093ead7a083", process=process)]).spans
    assert found.trace_id.hex() == "00000000000000002be38093ead7a083"
    assert found.resource.attributes == {"service.name": "s"}


def test_a_jaeger_span_without_numbers_is_told(tmp_path):
    """A span whose duration is no number is left out and told."""
    found = read(tmp_path, [jaeger_span(duration="invalid"), jaeger_span(spanID=ROOT, references=[])])
    assert [span.span_id.hex() for span in found.spans] == [ROOT]
    assert [anomaly.code for anomaly in found.anomalies] == [AnomalyCode.UNREADABLE]


def test_a_broken_jaeger_file_is_refused(tmp_path):
    """JSON that breaks off is refused by name."""
    with pytest.raises(DamagedRecording, match=r"file\.json is no whole JSON"):
        read(tmp_path, json.dumps([jaeger_span()])[:-2].encode())


# --- what SDKs dump ---


def test_javascripts_spans(tmp_path):
    """A list of ReadableSpan of JavaScript: times of two numbers, kinds that count from nought."""
    item = {
        "name": "ask",
        "kind": 2,
        "spanContext": {"traceId": TRACE, "spanId": CHILD},
        "parentSpanContext": {"traceId": TRACE, "spanId": ROOT},
        "attributes": {"a": [1, "x"], "big": 1 << 70},
        "status": {"code": 2, "message": "no"},
        "startTime": [1_760_000_000, 123456789],
        "endTime": [1_760_000_001, 0],
        "events": [{"name": "e", "time": [5, 1], "attributes": {"b": True}}],
        "links": [{"context": {"traceId": TRACE, "spanId": ROOT}}],
        "resource": {"attributes": {"service.name": "s"}},
        "instrumentationScope": {"name": "ai", "version": "6"},
    }
    (found,) = read(tmp_path, [item]).spans
    assert (found.start_ns, found.end_ns, found.kind, found.status_code) == (AT, 1_760_000_001 * 10**9, 3, 2)
    assert found.attributes == {"a": (1, "x"), "big": str(1 << 70)}
    assert (found.parent_span_id.hex(), found.scope.name) == (ROOT, "ai")
    assert found.events == (SpanEvent(5_000_000_001, "e", {"b": True}),)


def test_what_pythons_console_exporter_prints(tmp_path):
    """Objects printed one behind the other, with ids in hexadecimal and times as text."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    path = tmp_path / "printed.json"
    with path.open("w") as out:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
        tracer = provider.get_tracer("lib")
        with tracer.start_as_current_span("root"), tracer.start_as_current_span("child", attributes={"a": 1}) as span:
            wanted = span.get_span_context()
        provider.shutdown()
    spans = by_name(read_spans(path).spans)
    assert int.from_bytes(spans["child"].span_id, "big") == wanted.span_id
    assert spans["child"].parent_span_id == spans["root"].span_id
    assert spans["child"].attributes == {"a": 1}
    assert spans["child"].kind == 1
    assert 0 < spans["root"].start_ns < spans["root"].end_ns


# --- Parquet ---


def moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // 10**6, timezone.utc).replace(microsecond=microseconds % 10**6)


def test_parquet_of_otlp2parquet(tmp_path):
    """Its columns, named like those of ClickHouse, give the span with its events and links."""
    micro = pa.timestamp("us", "UTC")
    table = pa.table(
        {
            "Timestamp": pa.array([moment(AT // 1000)], micro),
            "TraceId": [TRACE],
            "SpanId": [CHILD],
            "ServiceName": ["support"],
            "ResourceAttributes": ['{"host.name":"h"}'],
            "ScopeName": ["lib"],
            "ScopeVersion": pa.array([None], pa.string()),
            "ParentSpanId": [ROOT],
            "TraceState": pa.array([None], pa.string()),
            "SpanName": ["ask"],
            "SpanKind": ["SPAN_KIND_CLIENT"],
            "SpanAttributes": ['{"a":1,"b":[true]}'],
            "Duration": [1_500_000],
            "StatusCode": ["STATUS_CODE_ERROR"],
            "StatusMessage": ["no"],
            "EventsTimestamp": pa.array([[moment(5)]], pa.list_(micro)),
            "EventsName": [["e"]],
            "EventsAttributes": [['{"x":1}']],
            "LinksTraceId": [[TRACE]],
            "LinksSpanId": [[ROOT]],
            "LinksTraceState": [[""]],
            "LinksAttributes": [["{}"]],
        }
    )
    pq.write_table(table, tmp_path / "spans.parquet")
    (found,) = read_spans(tmp_path / "spans.parquet").spans
    assert (found.start_ns, found.end_ns) == (AT // 1000 * 1000, AT // 1000 * 1000 + 1_500_000)
    assert (found.trace_id.hex(), found.parent_span_id.hex(), found.kind, found.status_code) == (TRACE, ROOT, 3, 2)
    assert found.attributes == {"a": 1, "b": (True,)}
    assert found.resource.attributes == {"host.name": "h", "service.name": "support"}
    assert found.events == (SpanEvent(5000, "e", {"x": 1}),)
    assert found.links == (SpanLink(found.trace_id, found.parent_span_id),)


def test_parquet_of_duckdb_otlp(tmp_path):
    """Its columns have the end and the duration to the nanosecond, so the begin is as exact, whatever its own says."""
    table = pa.table(
        {
            "timestamp": pa.array([moment(AT // 10**6 * 1000)], pa.timestamp("ms")),
            "end_timestamp": [AT + 1500],
            "duration": [1500],
            "trace_id": [TRACE],
            "span_id": [CHILD],
            "parent_span_id": pa.array([None], pa.string()),
            "trace_state": ["a=b"],
            "service_name": ["support"],
            "span_name": ["ask"],
            "span_kind": pa.array([3], pa.int32()),
            "status_code": pa.array([1], pa.int32()),
            "status_message": [""],
            "resource_attributes": ['{"service.name":"support"}'],
            "scope_name": ["lib"],
            "scope_version": ["1"],
            "scope_attributes": ["{}"],
            "span_attributes": ['{"a":"x"}'],
            "events_json": ['[{"time_unix_nano": 7, "name": "e", "attributes": {"x": 1}}]'],
            "links_json": ["[]"],
            "dropped_attributes_count": pa.array([2], pa.int32()),
            "flags": pa.array([257], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "spans.parquet")
    (found,) = read_spans(tmp_path / "spans.parquet").spans
    assert (found.start_ns, found.end_ns) == (AT, AT + 1500)
    assert (found.parent_span_id, found.trace_state, found.flags, found.dropped_attributes) == (b"", "a=b", 257, 2)
    assert found.events == (SpanEvent(7, "e", {"x": 1}),)


def test_parquet_of_something_else_is_refused(tmp_path):
    """A Parquet file without spans, and one that breaks off, are refused by name and reason."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(DamagedRecording, match=r"other\.parquet is a Parquet file without the columns .* it has x"):
        read_spans(tmp_path / "other.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "other.parquet").read_bytes()[:40])
    with pytest.raises(DamagedRecording, match=r"cut\.parquet cannot be read as Parquet"):
        read_spans(tmp_path / "cut.parquet")
