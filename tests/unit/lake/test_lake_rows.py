"""Attribute values, promoted columns, format facts."""

from __future__ import annotations

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.errors import UnsupportedFormat
from otel_agent_replay.lake.arrays import Lists
from otel_agent_replay.lake.attributes import store_value
from otel_agent_replay.lake.exchange_column import store_exchange
from otel_agent_replay.lake.path_column import store_path
from otel_agent_replay.lake.promoted import promote
from otel_agent_replay.lake.schema import file_facts, file_metadata
from otel_agent_replay.lake.span_table import SpanRow, load_spans, store_spans
from otel_agent_replay.model import Kind, RecordedSpan, Span
from tests.support.lake_runs import full_run


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a", {"text": "a"}),
        (Kind.TOOL, {"text": "tool"}),
        (True, {"boolean": True}),
        (7, {"integer": 7}),
        (0.5, {"number": 0.5}),
        (b"x", {"data": b"x"}),
        (None, {}),
        (("a", "b"), {"texts": ["a", "b"]}),
        (["a"], {"texts": ["a"]}),
        ((), {"texts": []}),
    ],
)
def test_plain_values_lie_in_the_field_of_their_type(value, stored):
    """SQL finds a value under its type, not in JSON text."""
    assert store_value(value) == stored


@pytest.mark.parametrize("value", [1 << 64, (1, "a"), {"a": 1}, ((), (1,))])
def test_what_no_field_holds_is_typed_json(value):
    """Mixed and nested values, and integers beyond 64 bit, are kept whole all the same."""
    assert list(store_value(value)) == ["nested"]


def test_a_promoted_value_is_stored_once():
    """The column has it; the map keeps its place."""
    lists = Lists(2)
    assert promote(lists, 1, semconv.REQUEST_MODEL, "gpt-4o")
    assert lists == {"request_model": [None, "gpt-4o"]}


@pytest.mark.parametrize("value", [True, "7", 7.0, 1 << 64, None])
def test_a_value_of_another_type_stays_in_the_map(value):
    """A column takes its own type only, so that the value comes back as it was."""
    lists = Lists(1)
    assert not promote(lists, 0, semconv.USAGE_INPUT_TOKENS, value)
    assert lists == {}


def test_an_attribute_that_contradicts_its_column_stays_in_the_map():
    """A derived attribute is left out only where the column says the same."""
    lists = Lists(1)
    assert not promote(lists, 0, semconv.STEP, 3)
    lists["step"] = [3]
    assert promote(lists, 0, semconv.STEP, 3)
    assert not promote(lists, 0, semconv.STEP, 4)


def test_spans_read_back_from_their_table():
    """Spans come back as they were, also where those of another instrumentation lie between."""
    recorded = full_run()
    foreign = RecordedSpan(Span(b"t" * 16, b"s" * 8, "GET /", 5, 7, attributes={"http.route": "/", "size": 3}))
    spans = [foreign, *recorded.spans, foreign]
    rows = [
        SpanRow(span.span, span.node, recorded.run, position, exchange=_exchange(span.node))
        for position, span in enumerate(spans)
    ]
    assert load_spans(store_spans(rows)) == spans


def _exchange(node):
    return None if node is None else store_exchange(node.call, node.outcome).column


def test_a_path_is_readable():
    """Parts are joined by slashes, slashes inside a name are escaped."""
    assert store_path(("run:a#0", "tool:b/c%#1")) == "run:a#0/tool:b%2Fc%25#1"


def test_a_file_says_its_format():
    """Format, reader, quirks and segments come back from the metadata."""
    stored = {
        key.encode(): value.encode() for key, value in file_metadata(segments=["b", "a"], quirks=["q", "q"]).items()
    }
    facts = file_facts(stored, "x")
    assert (facts.format_version, facts.reader_version, facts.quirks, facts.segments) == (1, 1, ("q",), ("b", "a"))


@pytest.mark.parametrize("metadata", [None, {}, {b"agent_replay.reader_version": b"x"}])
def test_a_file_that_does_not_say_its_format_is_refused(metadata):
    """A stray Parquet file is not taken for a recording."""
    with pytest.raises(UnsupportedFormat, match="stray"):
        file_facts(metadata, "stray.parquet")
