"""Spans of any content: reading what they say never fails, loses no span, and does not depend on their order."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects import DIALECTS, LogRecord, facts_of, joined
from otel_agent_replay.imports.dialects.message_forms import answered, asked
from otel_agent_replay.imports.foreign_trace import run_of_spans
from otel_agent_replay.model import Kind, SpanEvent
from otel_agent_replay.otlp.facts import without_facts
from otel_agent_replay.protocols.json_text import parse_object
from tests.support.foreign_spans import TRACE, foreign_span

SOURCES = sorted(
    {
        source.partition("::")[0].removesuffix(".*") + (".0.role" if source.endswith(".*") else "")
        for dialect in DIALECTS
        for sources in (
            dialect.signs, dialect.kind_sources, dialect.request, dialect.response, dialect.system, dialect.messages_in,
            dialect.messages_out, dialect.answer_text, dialect.answer_calls, dialect.tools, dialect.tool_name,
            dialect.tool_arguments, dialect.tool_result, dialect.thread, *dialect.facts.values(),
        )
        for source in sources
        if source[0] != "@"
    }
)  # fmt: skip
WORDS = sorted({word for dialect in DIALECTS for word in dialect.kinds})
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_call", "tool_use", "tool-call", "image", "tool_result", "x"]) | SCALARS,
        "text": SCALARS,
        "content": SCALARS,
        "name": SCALARS,
        "arguments": SCALARS,
        "functionCall": st.just({"name": "f", "args": {}}) | SCALARS,
    },
)
JSON = st.recursive(
    SCALARS | st.lists(PARTS, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "parts",
                    "messages",
                    "message",
                    "tool_calls",
                    "choices",
                    "kwargs",
                    "id",
                    "lc",
                    "type",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
TEXTS = st.one_of(st.text(max_size=12), JSON.map(json.dumps), st.sampled_from(WORDS), st.just('{"messages": ['))
VALUES = st.one_of(TEXTS, SCALARS, JSON, st.binary(max_size=4))
ATTRIBUTES = st.dictionaries(st.sampled_from(SOURCES), VALUES, max_size=8)
EVENTS = st.lists(
    st.builds(
        SpanEvent,
        st.integers(0, 9),
        st.sampled_from(["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "other"]),
        st.dictionaries(st.sampled_from(["content", "role", "message", "body", "gen_ai.prompt"]), VALUES, max_size=3),
    ),
    max_size=3,
).map(tuple)
SCOPES = st.sampled_from(["", "gen_ai", "langfuse-sdk", "openinference.x", "logfire.openai"])


@st.composite
def traces(draw):
    """A few spans of one trace, each below an earlier one."""
    count = draw(st.integers(1, 6))
    return [
        foreign_span(
            draw(ATTRIBUTES),
            number=number,
            parent=draw(st.integers(1, number - 1)) if number > 1 else 0,
            name=draw(st.sampled_from(["chat", "claude_code.tool", "x"])),
            scope=draw(SCOPES),
            at=draw(st.integers(0, 3)),
            events=draw(EVENTS),
        )
        for number in range(1, count + 1)
    ]


@given(ATTRIBUTES, EVENTS, SCOPES)
def test_facts_never_fail_and_payloads_are_json(attributes, events, scope):
    """Whatever a span holds, reading it raises nothing, and what a model was asked and answered is a JSON object."""
    found = facts_of(foreign_span(attributes, scope=scope, events=events))
    if found.kind is Kind.MODEL:
        assert found.request is None or parse_object(found.request) is not None
        assert found.result is None or parse_object(found.result) is not None
    for key in (semconv.USAGE_INPUT_TOKENS, semconv.USAGE_OUTPUT_TOKENS):
        assert type(found.answered.get(key, 0)) is int


@given(VALUES)
def test_messages_have_roles_and_typed_parts(value):
    """Whatever form a value has, messages that come of it have a role and parts with a type."""
    for found in (asked(value), answered(value)):
        for message in () if found is None else found.messages:
            assert isinstance(message["role"], str)
            assert all(isinstance(part, dict) and isinstance(part["type"], str) for part in message["parts"])


@given(JSON)
def test_messages_of_messages_are_the_same(value):
    """Messages in OpenTelemetry's form are read as they stand."""
    found = asked(value)
    if found is not None and found.structured and not found.system:
        again = asked(json.loads(json.dumps(list(found.messages))))
        assert again is None or [one["parts"] for one in again.messages] == [one["parts"] for one in found.messages]


@given(traces())
def test_no_span_is_lost_and_nothing_added_stays(spans):
    """Every span of a trace is in its run, and is what it was when what an import found out is taken off."""
    run = run_of_spans(spans)
    assert {item.span.span_id: without_facts(item.span) for item in run.spans} == {one.span_id: one for one in spans}


@given(traces())
def test_a_call_is_counted_once(spans):
    """What is marked as told again is no call, and names calls of the run."""
    run = run_of_spans(spans)
    kinds = {item.span.span_id.hex(): item.node.kind for item in run.spans if item.node is not None}
    for item in run.spans:
        for other in item.span.attributes.get(semconv.IMPORT_SAME_CALL, ()):
            assert item.node.kind in (Kind.SCOPE, Kind.RUN)
            assert kinds[other] in (Kind.MODEL, Kind.TOOL)


@given(traces(), st.randoms())
def test_order_of_arrival_changes_nothing(spans, random):
    """Shuffled spans make the same run."""
    shuffled = list(spans)
    random.shuffle(shuffled)
    assert run_of_spans(shuffled).spans == run_of_spans(spans).spans


@given(traces(), st.lists(st.tuples(st.integers(1, 8), EVENTS), max_size=4))
def test_records_are_joined_once(spans, given_records):
    """Joining log records to spans twice is joining them once, and none is lost."""
    records = [
        LogRecord(TRACE, number.to_bytes(8, "big"), event.time_ns, event.name, None, event.attributes)
        for number, events in given_records
        for event in events
    ]
    once, left = joined(spans, records)
    twice, left_again = joined(once, records)
    assert [len(one.events) for one in once] == [len(one.events) for one in twice]
    assert left == left_again
    assert sum(len(one.events) for one in once) <= sum(len(one.events) for one in spans) + len(records) - len(left)
