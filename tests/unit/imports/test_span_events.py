"""Messages that events tell, and log records that belong to spans."""

from __future__ import annotations

from otel_agent_replay.imports.dialects import LogRecord, facts_of, joined
from otel_agent_replay.imports.dialects.span_events import event_of_record
from otel_agent_replay.model import Fidelity, Kind
from tests.support.foreign_spans import TRACE, foreign_span, messages_of, told

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o"}


def record(event: str, body=None, *, span: int = 1, at: int = 1, **attributes) -> LogRecord:
    return LogRecord(TRACE, span.to_bytes(8, "big"), at, event, body, attributes)


QUESTION = record("gen_ai.user.message", {"content": "Hi"}, at=1)
ANSWER = record("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "Hello"}}, at=2)


def test_records_of_a_call_are_its_messages():
    """Log records of GenAI events become events of the span they name, and its messages."""
    (span,), left = joined([foreign_span(CHAT)], [ANSWER, QUESTION])
    assert left == []
    assert [event.name for event in span.events] == ["gen_ai.user.message", "gen_ai.choice"]
    found = facts_of(span)
    given, made = messages_of(found)
    assert ([told(one) for one in given], [told(one) for one in made]) == (
        [("user", "Hi", [])], [("assistant", "Hello", [])],
    )  # fmt: skip
    assert (found.fidelity, made[0]["finish_reason"]) == (Fidelity.MESSAGES, "stop")


def test_an_events_name_may_lie_in_its_attributes():
    """Older SDKs put an event's name among its attributes."""
    event = event_of_record(
        LogRecord(TRACE, b"\1" * 8, 1, "", {"content": "Hi"}, {"event.name": "gen_ai.user.message"})
    )
    assert event is not None
    assert event.name == "gen_ai.user.message"


def test_records_of_no_span_and_of_other_things_are_left():
    """A record that is no GenAI event, names no span, or one that is not here is given back."""
    others = [
        record("app.started"),
        LogRecord(TRACE, b"", 1, "gen_ai.user.message"),
        record("gen_ai.user.message", {"content": "Hi"}, span=9),
    ]
    spans, left = joined([foreign_span(CHAT)], others)
    assert left == others
    assert spans == [foreign_span(CHAT)]


def test_a_record_that_comes_twice_is_one_event():
    """Joining the same records again changes nothing."""
    once, _ = joined([foreign_span(CHAT)], [QUESTION, QUESTION])
    twice, _ = joined(once, [QUESTION])
    assert once == twice
    assert len(once[0].events) == 1


def test_an_event_may_tell_what_the_span_leaves_out():
    """The event of an inference's details holds the attributes that the span was spared."""
    details = record(
        "gen_ai.client.inference.operation.details",
        None,
        **{
            "gen_ai.input.messages": ({"role": "user", "parts": ({"type": "text", "content": "Hi"},)},),
            "gen_ai.output.messages": ({"role": "assistant", "parts": ({"type": "text", "content": "Hello"},)},),
        },
    )
    (span,), _ = joined([foreign_span(CHAT)], [details])
    given, made = messages_of(facts_of(span))
    assert [told(one) for one in [*given, *made]] == [("user", "Hi", []), ("assistant", "Hello", [])]


def test_events_in_an_attribute_count_too():
    """Pydantic AI's first format and Logfire keep a list of events in an attribute."""
    events = (
        '[{"event.name": "gen_ai.user.message", "content": "Hi", "role": "user"},'
        ' {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Hello"}}]'
    )
    found = facts_of(foreign_span({**CHAT, "events": events}, scope="pydantic-ai"))
    given, made = messages_of(found)
    assert [told(one) for one in [*given, *made]] == [("user", "Hi", []), ("assistant", "Hello", [])]
    assert found.kind is Kind.MODEL


def test_openlits_events_are_texts():
    """OpenLIT's older events hold a prompt and a completion as text."""
    spans, _ = joined(
        [foreign_span({**CHAT, "gen_ai.sdk.version": "1"})],
        [record("gen_ai.content.prompt", **{"gen_ai.prompt": "user: Hi"}),
         record("gen_ai.content.completion", at=2, **{"gen_ai.completion": "Hello"})],
    )  # fmt: skip
    found = facts_of(spans[0])
    given, made = messages_of(found)
    assert [told(one) for one in [*given, *made]] == [("user", "Hi", []), ("assistant", "Hello", [])]
    assert found.fidelity is Fidelity.TEXT
