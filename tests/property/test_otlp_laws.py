"""OTLP spans and model spans say the same, in both directions."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from otel_agent_replay.model import InstrumentationScope, Resource, Span, SpanEvent, SpanLink
from otel_agent_replay.otlp.span_reader import SpanReader
from otel_agent_replay.otlp.spans import resource_spans_of, spans_of
from otel_agent_replay.otlp.values import attributes_to_otlp, value_from_otlp

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
counts = st.integers(0, 2**32 - 1)
times = st.integers(0, 2**64 - 1)
trace_ids, span_ids = st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), text, st.binary(max_size=9)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(text, values, max_size=4)
spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    name=text,
    start_ns=times,
    end_ns=times,
    parent_span_id=st.just(b"") | span_ids,
    kind=st.integers(0, 5),
    status_code=st.integers(0, 2),
    status_message=text,
    attributes=attributes,
    events=st.lists(st.builds(SpanEvent, times, text, attributes, counts), max_size=2).map(tuple),
    links=st.lists(st.builds(SpanLink, trace_ids, span_ids, text, attributes, counts, counts), max_size=2).map(tuple),
    trace_state=text,
    flags=counts,
    dropped_attributes=counts,
    dropped_events=counts,
    dropped_links=counts,
    resource=st.builds(Resource, attributes, counts, text),
    scope=st.builds(InstrumentationScope, text, text, attributes, counts, text),
)


def value_to_otlp(value: object) -> AnyValue:
    """Return what an attribute of that value becomes."""
    span = OtlpSpan()
    attributes_to_otlp({"key": value}, span.attributes)
    return span.attributes[0].value


any_values = st.recursive(
    scalars.map(value_to_otlp),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: AnyValue(array_value=ArrayValue(values=items)))
        | st.dictionaries(text, inner, max_size=3).map(
            lambda items: AnyValue(
                kvlist_value=KeyValueList(values=[KeyValue(key=key, value=value) for key, value in items.items()])
            )
        )
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(spans)
def test_a_model_span_survives_otlp(span: Span) -> None:
    """Model -> bytes of OTLP -> model gives the same span."""
    message = ResourceSpans.FromString(resource_spans_of(span).SerializeToString())
    assert list(spans_of(message)) == [span]


@given(any_values)
def test_an_otlp_value_survives_the_model(message: AnyValue) -> None:
    """OTLP -> model -> OTLP gives the same value, empty arrays, maps and values too."""
    assert value_to_otlp(value_from_otlp(message)) == message


@given(st.lists(st.builds(OtlpSpan, trace_id=trace_ids, span_id=span_ids, name=text, flags=counts), max_size=4), text)
def test_an_otlp_message_of_many_spans_survives_the_model(members: list[OtlpSpan], schema: str) -> None:
    """Every span of a message comes out with its resource and scope, and goes back into the same message."""
    for member in members:
        member.status.CopyFrom(Status(code=Status.STATUS_CODE_OK))
    message = ResourceSpans(scope_spans=[ScopeSpans(spans=members, schema_url=schema)], schema_url=schema)
    message.resource.attributes.add(key="service.name").value.string_value = "shop"
    found = list(spans_of(message))
    assert len(found) == len(members)
    for span, member in zip(found, members):
        back = resource_spans_of(span)
        assert back.scope_spans[0].spans[0] == member
        assert back.resource == message.resource
        assert (back.schema_url, back.scope_spans[0].schema_url) == (schema, schema)


@given(st.one_of(st.integers(), st.text(st.characters(), max_size=10), st.sampled_from(["\ud800", {1: 2}, object])))
def test_whatever_otlp_cannot_hold_goes_as_text(value: object) -> None:
    """No value makes the conversion raise; what has no OTLP form becomes text."""
    message = AnyValue.FromString(value_to_otlp(value).SerializeToString())
    back = value_from_otlp(message)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        assert back == str(value)
    elif isinstance(value, type):
        assert back == str(value)
    elif isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        assert back == value.encode("utf-8", "backslashreplace").decode()
    elif isinstance(value, dict):
        assert back == {"1": 2}
    else:
        assert back == value


long_texts = st.text("ab\u00e9", min_size=90, max_size=150)
numbers = st.integers(0, 1 << 22) | st.floats()
named = st.dictionaries(st.text("ab", max_size=3), long_texts | numbers, max_size=4)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spans, named, st.permutations(range(4)))
def test_the_quick_reader_reads_the_same(span, more, order):
    """Spans read out of a request's bytes are those of its message, also when their parts came before."""
    other = replace(span, trace_id=bytes(16), attributes={**span.attributes, **more}, status_message="no")
    sent = [(span, other, span, other)[place] for place in order]
    request = TracesData(resource_spans=[resource_spans_of(one) for one in sent])
    expected = [one for group in request.resource_spans for one in spans_of(group)]
    reader = SpanReader()
    for _ in range(2):
        assert repr(reader.spans(request.SerializeToString())) == repr(expected)
    some = [one for one in expected if one.trace_id == span.trace_id]
    assert repr(reader.spans(request.SerializeToString(), {span.trace_id})) == repr(some)


@given(st.binary(max_size=60))
def test_the_quick_reader_refuses_what_is_no_request(data):
    """Bytes that are no request, or whose texts are not UTF-8, raise the decoder's error and no other."""
    attribute = b"\x4a" + bytes([len(data)]) + data  # field 9 of a span
    span = b"\x12" + bytes([len(attribute)]) + attribute
    scope = b"\x12" + bytes([len(span)]) + span
    for sent in (data, b"\x0a" + bytes([len(scope)]) + scope):
        with contextlib.suppress(DecodeError):
            SpanReader().spans(sent)
