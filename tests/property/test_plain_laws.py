"""Spans that land as columns are in the lake what they are when they land one by one, whatever they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1 import trace_pb2

from otel_agent_replay import semconv
from otel_agent_replay.imports.plain.plain_spans import may_speak
from otel_agent_replay.imports.plain.request_columns import ColumnsReader
from otel_agent_replay.lake.promoted import COLUMN_OF, DERIVED
from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.wire.v1 import otlp_columns_pb2
from tests.support.two_ways import land_as_objects, land_plain, requests_of, rows_of, spans_in

FIRST_NS = 1_793_491_200_000_000_000
text = st.sampled_from(["", "a", "é", "😀", "/x%2F"]) | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
plain_text = text.filter(lambda value: value[:1] not in tuple("\0{[\n "))
counts = st.sampled_from([0, 0, 1, 2**32 - 1])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 200, -(2**63), 2**63 - 1]),
    st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    plain_text,
    st.binary(max_size=3),
)
values = scalars | st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(
    ["http.route", "app.total", "", "x", semconv.HTTP_STATUS, semconv.SERVER_ADDRESS]
) | text.filter(lambda name: not may_speak(name) and name[:1] != "\0")
attributes = st.dictionaries(names, values, max_size=4)
resources = st.builds(
    Resource,
    attributes | st.builds(lambda value: {semconv.SERVICE_NAME: value}, values),
    counts,
    plain_text,
)
scopes = st.builds(InstrumentationScope, st.sampled_from(["", "lib"]), plain_text, attributes, counts, plain_text)
events = st.builds(SpanEvent, st.sampled_from([0, FIRST_NS]), plain_text, attributes, counts)
links = st.builds(
    SpanLink,
    st.sampled_from([b"", bytes(16), b"t" * 16]),
    st.sampled_from([b"", b"s" * 8]),
    plain_text,
    attributes,
    counts,
)


@st.composite
def traces(draw: st.DrawFn, number: int = 0, largest: int = 6) -> list[Span]:
    """The spans of a sound trace, in any order: each within its parent's time, often at the same moments."""
    trace_id = bytes([number + 1]) * 16
    ids = draw(st.lists(st.integers(1, 255), min_size=1, max_size=largest, unique=True))
    begin = FIRST_NS + draw(st.sampled_from([0, 0, 5, 3_600_000_000_000]))
    made: list[Span] = []
    for place, key in enumerate(ids):
        above = made[draw(st.integers(0, place - 1))] if place else None
        start = above.start_ns + draw(st.integers(0, 2)) if above is not None else begin
        last = above.end_ns if above is not None and above.end_ns else begin + 9
        start = min(start, last)
        made.append(
            Span(
                trace_id,
                bytes([number]) * 6 + bytes([1, key]),
                draw(plain_text | st.sampled_from(["GET /a", "GET /b"])),
                start,
                draw(st.sampled_from([0, start, last]) | st.integers(start, max(start, last))),
                above.span_id if above is not None else b"",
                draw(st.integers(-1, 6)),
                draw(st.sampled_from([0, 0, 1, 2, 9])),
                draw(plain_text),
                draw(attributes),
                tuple(draw(st.lists(events, max_size=2))),
                tuple(draw(st.lists(links, max_size=1))),
                draw(st.sampled_from(["", "a=b"])),
                draw(counts),
                draw(counts),
                draw(counts),
                draw(counts),
                draw(resources),
                draw(scopes),
            )
        )
    return draw(st.permutations(made))


ODD = (
    lambda span: replace(span, attributes={**span.attributes, "gen_ai.operation.name": "chat"}),
    lambda span: replace(span, attributes={**span.attributes, "llm.model_name": "m"}),
    lambda span: replace(span, attributes={**span.attributes, "agent_replay.import.source": "elsewhere"}),
    lambda span: replace(span, attributes={**span.attributes, semconv.FLAGGED: True}),
    lambda span: replace(span, attributes={**span.attributes, semconv.RECORD: b"torn"}),
    lambda span: replace(span, attributes={**span.attributes, semconv.PART: b"torn"}),
    lambda span: replace(span, attributes={**span.attributes, "body": '{"a": [1, 2'}),
    lambda span: replace(span, attributes={**span.attributes, "body": ' [{"a": 1}] '}),
    lambda span: replace(span, attributes={**span.attributes, "body": "\0a"}),
    lambda span: replace(span, attributes={**span.attributes, "\0": 1}),
    lambda span: replace(span, attributes={**span.attributes, "error.type": 5}, status_code=2),
    lambda span: replace(span, attributes={**span.attributes, "error.type": "E"}, status_code=2),
    lambda span: replace(span, attributes={**span.attributes, "events": '[{"event.name": "gen_ai.choice"}]'}),
    lambda span: replace(span, events=(SpanEvent(FIRST_NS, "gen_ai.user.message", {"content": "hi"}),)),
    lambda span: replace(span, events=(SpanEvent(2**63, "e", {"\0": "\0"}),)),
    lambda span: replace(span, scope=InstrumentationScope("openinference.instrumentation.x")),
    lambda span: replace(span, name="claude_code.llm_request"),
    lambda span: replace(span, name="\0"),
    lambda span: replace(span, status_message="\0"),
    lambda span: replace(span, parent_span_id=b"nowhere!"),
    lambda span: replace(span, parent_span_id=b"cut"),
    lambda span: replace(span, parent_span_id=bytes(8)),
    lambda span: replace(span, parent_span_id=span.span_id),
    lambda span: replace(span, parent_span_id=b""),
    lambda span: replace(span, start_ns=0),
    lambda span: replace(span, start_ns=2**63),
    lambda span: replace(span, end_ns=1),
    lambda span: replace(span, end_ns=span.end_ns + 100),
    lambda span: replace(span, span_id=bytes(8)),
    lambda span: replace(span, span_id=b"short"),
    lambda span: replace(span, trace_id=bytes(16)),
    lambda span: replace(span, trace_id=b""),
    lambda span: replace(span, trace_id=span.trace_id[:8]),
)
"""What makes a span none of the plain ones, or its trace not sound."""


LOOSE = (
    lambda span: replace(span, parent_span_id=b"nowhere!"),
    lambda span: replace(span, parent_span_id=b""),
    lambda span: replace(span, start_ns=max(1, span.start_ns - 3)),
    lambda span: replace(span, start_ns=span.start_ns + 20, end_ns=0),
    lambda span: replace(span, end_ns=span.end_ns and span.end_ns + 2),
)
"""What leaves a trace sound, though something is wrong with it."""


def loosened(draw: st.DrawFn, spans: list[Span]) -> list[Span]:
    """Spans with parents lost and times moved, of many of them or of none."""
    how = st.sampled_from([None, *LOOSE] if draw(st.booleans()) else [None])
    changes = [draw(how) for _ in spans]
    return [span if change is None else change(span) for span, change in zip(spans, changes, strict=True)]


@st.composite
def some_requests(draw: st.DrawFn) -> list[bytes]:
    """Requests of several traces: some sound or loose, in some a span that is odd, comes twice, or shares its id."""
    members = [span for number in range(draw(st.integers(1, 4))) for span in loosened(draw, draw(traces(number)))]
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(members) - 1))
        members[place] = draw(st.sampled_from(ODD))(members[place])
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        twin = draw(st.sampled_from(members))
        members.append(draw(st.sampled_from([twin, replace(twin, name="other"), replace(twin, trace_id=b"z" * 16)])))
    return requests_of(draw(st.permutations(members)), draw(st.integers(1, 9)))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 4)
@given(some_requests())
def test_both_ways_leave_the_same_rows(requests):
    """Rows of spans, facts of runs, manifests and losses are the same, in order too."""
    with TemporaryDirectory() as folder:
        one, other = Path(folder, "columns"), Path(folder, "objects")
        land_plain(one, requests)
        land_as_objects(other, requests)
        assert rows_of(one) == rows_of(other)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 3)
@given(st.sets(st.integers(0, 200), min_size=1, max_size=3).flatmap(lambda n: st.tuples(*map(traces, n))), st.data())
def test_sound_plain_traces_are_all_taken(made, data):
    """No trace that is plain goes the slower way for a parent that is lost, or times that do not fit."""
    members = [span for trace in made for span in loosened(data.draw, trace)]
    with TemporaryDirectory() as folder:
        landed = land_plain(Path(folder), requests_of(members, 5))
        assert sorted(landed.kept) == sorted({span.trace_id for span in members})
        assert landed.span_count == len(members)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=settings.default.max_examples // 4)
@given(some_requests(), st.integers(0, 10))
def test_what_lands_again_or_later_completes_what_is_there(requests, split):
    """The same again changes nothing, and parts that come one after the other come to the same as objects do."""
    first, second = requests[:split], requests
    with TemporaryDirectory() as folder:
        one, other = Path(folder, "columns"), Path(folder, "objects")
        for part in (first, second, second):
            if part:
                land_plain(one, part)
                land_as_objects(other, part)
        assert rows_of(one) == rows_of(other)


def test_each_field_of_otlp_is_read():
    """The description for columns has every field of OTLP's messages by number and name."""
    pairs = {
        "ColumnsSpan": trace_pb2.Span,
        "ColumnsEvent": trace_pb2.Span.Event,
        "ColumnsLink": trace_pb2.Span.Link,
        "ColumnsStatus": trace_pb2.Status,
        "ColumnsScope": trace_pb2.ScopeSpans,
        "ColumnsResource": trace_pb2.ResourceSpans,
    }
    for name, theirs in pairs.items():
        ours = otlp_columns_pb2.DESCRIPTOR.message_types_by_name[name]
        assert {(field.number, field.name) for field in ours.fields} == {
            (field.number, field.name) for field in theirs.DESCRIPTOR.fields
        }


@pytest.mark.parametrize("key", sorted({*COLUMN_OF, *DERIVED}))
def test_an_attribute_with_a_column_of_its_own_is_no_plain_ones_or_is_known(key):
    """Of all attributes that the lake keeps apart, plain spans have three."""
    assert may_speak(key) or key in {semconv.HTTP_STATUS, semconv.SERVER_ADDRESS, semconv.ERROR_TYPE}


def part(number: int, data: bytes) -> bytes:
    """A field of bytes on the wire; short ones only."""
    assert len(data) < 0x80
    return bytes([number << 3 | 2, len(data)]) + data


TEXT, NUMBER = part(1, b"b"), b"\x18\x05"
ONE, TWO = part(1, NUMBER), part(1, TEXT)  # lists of one value
PAIR = part(1, part(1, b"k") + part(2, TEXT))
UNKNOWN = part(15, b"?")
IN_PARTS = {
    "a value with two meanings": part(9, part(1, b"a") + part(2, TEXT + NUMBER)),
    "a value with a meaning that is not known": part(9, part(1, b"a") + part(2, b"\x40\x05")),
    "a value in two parts": part(9, part(1, b"a") + part(2, TEXT) + part(2, NUMBER)),
    "a list in two parts": part(9, part(1, b"a") + part(2, part(5, ONE) + part(5, TWO))),
    "a list in two values": part(9, part(1, b"a") + part(2, part(5, ONE)) + part(2, part(5, TWO))),
    "a mapping in two parts": part(9, part(1, b"a") + part(2, part(6, PAIR) + part(6, PAIR))),
    "a status in two parts": part(15, part(2, b"m")) + part(15, b"\x18\x02"),
    "an attribute twice": part(9, part(1, b"a") + part(2, TEXT)) + part(9, part(1, b"a") + part(2, NUMBER)),
}
WHOLE = {
    "a name in two parts": part(9, part(1, b"a") + part(1, b"c") + part(2, TEXT)),
    "a text twice": part(5, b"first") + part(5, b"last"),
    "fields that are not known": part(9, part(1, b"a") + part(2, TEXT) + UNKNOWN) + bytes([0xFA, 0x7, 1]) + b"?",
    "a value that is none": part(9, part(1, b"a")) + part(9, part(1, b"c") + part(2, b"")),
}


@pytest.mark.parametrize("what", [*IN_PARTS, *WHOLE])
def test_odd_ways_of_writing_protobuf_mean_the_same_by_both_ways(what, tmp_path):
    """What comes in parts, which protobuf joins, is left to the slower way; the last of two texts counts in both."""
    bare = trace_pb2.Span(
        trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=FIRST_NS, end_time_unix_nano=FIRST_NS + 1
    )
    span = bare.SerializeToString() + (IN_PARTS | WHOLE)[what]
    request = part(1, part(2, part(2, span)))
    landed = land_plain(tmp_path / "columns", [request])
    land_as_objects(tmp_path / "objects", [request])
    assert rows_of(tmp_path / "columns") == rows_of(tmp_path / "objects")
    assert bool(landed.kept) == (what in WHOLE)


def test_what_is_no_request_is_refused():
    """A request that protobuf cannot read is an error by both ways."""
    for data in (b"\x0a\x05", part(1, part(2, part(2, part(5, b"\xff")))), part(1, part(2, part(2, b"\x0c")))):
        with pytest.raises(DecodeError):
            spans_in([data])
        with pytest.raises(DecodeError):
            ColumnsReader().read([data])
