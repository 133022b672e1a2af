"""Spans that go through a lake come out as they went in, whatever they say and however they arrive."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from otel_agent_replay import semconv
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.export.otlp_files import write_spans
from otel_agent_replay.export.sent_runs import runs_to_send, spans_to_send
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.landing import land
from otel_agent_replay.imports.trace_structure import content_of, structure_of
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Anomaly, AnomalyCode, InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.otlp.facts import with_facts, without_facts
from otel_agent_replay.otlp.json_messages import document_of
from otel_agent_replay.otlp.json_spans import spans_of_document
from otel_agent_replay.otlp.spans import resource_spans_of, spans_of
from tests.property.strategies import json_values, texts

counts = st.integers(0, 2**32 - 1)
times = st.sampled_from([0, 1_764_400_000_000_000_000, 1_764_400_000_000_000_001]) | st.integers(0, 2**64 - 1)
text = st.sampled_from(["", "\0", "\0\\ud800", "\ud83d", "😀", "a\u2028b"]) | texts(6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    text,
    st.binary(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(text, inner, max_size=3),
    max_leaves=4,
)
PROMOTED = (
    semconv.OPERATION_NAME,
    semconv.USAGE_INPUT_TOKENS,
    semconv.RESPONSE_FINISH_REASONS,
    semconv.TOOL_NAME,
    semconv.INPUT_MESSAGES,
    semconv.STEP,
    semconv.RUN_ID,
    "llm.token_count.prompt",
    "openinference.span.kind",
    "gen_ai.usage.prompt_tokens",
)
attributes = st.dictionaries(text | st.sampled_from(PROMOTED), values, max_size=3)
entities = st.fixed_dictionaries(
    {
        "schema_url": st.just("") | st.just("s"),
        "type": st.just("host"),
        "id_keys": st.just(("a",)),
        "description_keys": st.just(()),
    }
)
resources = st.builds(
    lambda attributes, entities, dropped, schema: Resource(
        {**attributes, semconv.ENTITY_REFS: (entities,)} if entities else attributes, dropped, schema
    ),
    attributes,
    st.none() | entities,
    counts,
    text,
)
trace_ids = st.sampled_from([bytes([7] * 16), bytes([8] * 16)])
span_ids = st.integers(1, 6).map(lambda number: number.to_bytes(8, "big"))
spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    name=text,
    start_ns=times,
    end_ns=times,
    parent_span_id=st.just(b"") | span_ids,
    kind=st.integers(-1, 9),
    status_code=st.integers(-1, 5),
    status_message=text,
    attributes=attributes,
    events=st.lists(st.builds(SpanEvent, times, text, attributes, counts), max_size=2).map(tuple),
    links=st.lists(
        st.builds(SpanLink, trace_ids | st.just(b""), span_ids, text, attributes, counts, counts), max_size=2
    ).map(tuple),
    trace_state=text,
    flags=counts,
    dropped_attributes=counts,
    dropped_events=counts,
    dropped_links=counts,
    resource=resources,
    scope=st.builds(InstrumentationScope, text, text, attributes, counts, text),
)
some_spans = st.lists(spans, min_size=1, max_size=5)


def kept(members: list[Span]) -> list[bytes]:
    """Return the contents of what is kept of spans: each trace's structure, by itself."""
    traces = {span.trace_id for span in members}
    return sorted(
        content_of(item.span)
        for trace_id in traces
        for item in structure_of([span for span in members if span.trace_id == trace_id]).spans
    )


def out_of(lake: Path) -> list[Span]:
    stored = Lake(lake)
    return list(spans_to_send(stored, runs_to_send(stored, [one.run.run_id for one in stored.runs()])))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 3)
@given(some_spans)
def test_json_through_a_lake_is_lossless(members: list[Span]) -> None:
    """OTLP JSON -> lake -> OTLP JSON gives the same spans: every type of value, half characters, circles, odd times."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.json")
        write_spans(members, source)
        read = read_spans(source).spans
        assert sorted(map(content_of, read)) == sorted(map(content_of, members))
        landed = land(Path(folder, "lake"), read, source="test")
        assert landed.span_count == len(kept(members))
        write_spans(out_of(Path(folder, "lake")), target)
        assert sorted(map(content_of, read_spans(target).spans)) == kept(members)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 4)
@given(some_spans)
def test_protobuf_through_a_lake_is_lossless(members: list[Span]) -> None:
    """OTLP protobuf -> lake -> OTLP protobuf gives the same messages, byte for byte once they are in one order."""
    sent = [next(spans_of(ResourceSpans.FromString(resource_spans_of(span).SerializeToString()))) for span in members]
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "in.binpb"), Path(folder, "out.binpb.gz")
        write_spans(sent, source)
        land(Path(folder, "lake"), read_spans(source).spans, source="test")
        write_spans(out_of(Path(folder, "lake")), target)
        back = read_spans(target).spans
        assert sorted(map(content_of, back)) == kept(sent)
        wanted = {content_of(span): resource_spans_of(span).SerializeToString(deterministic=True) for span in sent}
        assert all(resource_spans_of(span).SerializeToString(deterministic=True) in wanted.values() for span in back)


near = st.sampled_from([0, 1_764_400_000_000_000_000]) | st.integers(
    1_764_400_000_000_000_000, 1_764_403_600_000_000_000
)
plain_spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    name=st.sampled_from(["chat", "tool"]),
    start_ns=near,
    end_ns=near,
    parent_span_id=st.just(b"") | span_ids,
    attributes=st.dictionaries(st.sampled_from(PROMOTED), scalars, max_size=2),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 4)
@given(st.lists(plain_spans, min_size=1, max_size=6), st.data())
def test_parts_that_land_one_after_the_other_are_one_run(members: list[Span], data: st.DataObject) -> None:
    """Spans in any order, in parts, some of them twice, give the runs and spans that all at once give."""
    shuffled = data.draw(st.permutations(members))
    cut = data.draw(st.integers(0, len(shuffled)))
    with TemporaryDirectory() as folder:
        lake = Path(folder, "lake")
        for part in (shuffled[:cut], shuffled[cut:], shuffled[cut:], members[:1]):
            land(lake, part, source="test")
        found = out_of(lake)
        assert sorted(map(content_of, found)) == kept(members)
        assert len(Lake(lake).runs()) == len({span.trace_id for span in members})


@settings(deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"{", b'{"resourceSpans": [', b"\n", b"\x0a", b"\x1f\x8b\x08\x00"])
)
def test_no_bytes_break_the_reader(data: bytes, head: bytes) -> None:
    """Whatever is in a file, it is read as spans or refused as damaged; it neither crashes nor hangs."""
    with TemporaryDirectory() as folder:
        Path(folder, "f").write_bytes(head + data)
        with suppress(DamagedRecording):
            read_spans(Path(folder, "f"))


@settings(deadline=None)
@given(st.lists(plain_spans, min_size=1, max_size=4), st.data())
def test_a_span_of_any_json_is_read_or_left_out(members: list[Span], data: st.DataObject) -> None:
    """Any member of OTLP JSON replaced by any JSON is an anomaly at most: the other spans are there."""
    document = json.loads(json.dumps(document_of([replace(one, **FULL) for one in members])))
    target = data.draw(st.sampled_from([one for one in _objects(document["resourceSpans"][0]) if one]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(json_values(max_leaves=4))
    found = list(spans_of_document(document))
    assert all(isinstance(one, (Span, Anomaly)) for one in found)
    with TemporaryDirectory() as folder:
        land(Path(folder), [one for one in found if isinstance(one, Span)], source="test")


FULL = {
    "resource": Resource({"service.name": "x", "n": 7, "b": b"1"}, 3, "u"),
    "scope": InstrumentationScope("l", "1", {"m": 1.5}, 2, "u"),
    "events": (SpanEvent(1, "e", {"k": ("v",)}, 1),),
    "links": (SpanLink(bytes([7] * 16), bytes([1] * 8), "s", {"k": {"a": None}}, 1, 1),),
    "status_message": "no",
}


def _objects(value: object) -> list[dict]:
    """Every JSON object in a value, itself too."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) else []) + [one for item in inner for one in _objects(item)]


@given(st.lists(plain_spans, min_size=1, max_size=12))
def test_every_span_has_its_place(members: list[Span]) -> None:
    """Parents come before children, no circle is left, each span is there once, and begins are numbered by causes."""
    members = [span for span in members if span.trace_id == members[0].trace_id]
    structure = structure_of(members)
    begins = [item.begin for item in structure.spans]
    assert len(set(begins)) == len(begins)
    for index, item in enumerate(structure.spans):
        if item.parent is not None:
            assert item.parent < index
            assert structure.spans[item.parent].begin < item.begin
            assert structure.spans[item.parent].depth == item.depth - 1
        assert not item.end or item.end > item.begin
    ids = {span.span_id for span in members}
    orphans = {one.span_id for one in structure.anomalies if one.code is AnomalyCode.ORPHAN_PARENT}
    assert orphans == {span.span_id for span in members if span.parent_span_id and span.parent_span_id not in ids} & {
        item.span.span_id for item in structure.spans if item.span.parent_span_id not in ids | {b""}
    }


@given(spans, attributes, attributes)
def test_facts_are_taken_off_again(span: Span, facts: dict, more: dict) -> None:
    """A span with facts, added once or twice, is without them what it was."""
    once = with_facts(span, facts)
    assert content_of(without_facts(once)) == content_of(span)
    assert content_of(without_facts(with_facts(once, more))) == content_of(span)
    assert {name: once.attributes[name] for name in facts} == facts or any(value != value for value in facts.values())
