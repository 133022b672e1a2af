"""Answers by arguments: in recorded order, then again, and never across a write that was not made."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.errors import TapeUnreadable
from otel_agent_replay.model import THREAD_END, Call, Kind, SideEffect
from otel_agent_replay.replay.by_arguments import ByArguments
from otel_agent_replay.replay.virtual_clock import VirtualClock
from otel_agent_replay.testing import builders

PLACE = Place.root("agent")
WRITE, EXTERNAL = SideEffect.WRITE, SideEffect.EXTERNAL


def shop():
    return (
        builders.run("shop")
        .tool("order", {"id": 7}, "open")
        .tool("order", {"id": 7}, "still open")
        .tool("cancel", {"id": 7}, "done", side_effect=WRITE)
        .tool("order", {"id": 7}, "cancelled")
        .build()
    )


def call_of(recorded, name, number=0):
    return [node.call for node in recorded.nodes if node.name == name][number]


def said(answers, call):
    answer = answers.answer(call, PLACE)
    return None if answer is None else json.loads(answer.outcome.result.data)


def sequence_of(recorded, step):
    return next(node.sequence for node in recorded.nodes if node.step == step)


def test_a_read_is_answered_in_order_then_by_the_last_again():
    """Two recordings before the write, then the second for ever; the third was made in another world."""
    recorded = shop()
    answers = ByArguments(recorded)
    order = call_of(recorded, "order")
    assert [said(answers, order) for _ in range(4)] == ["open", "still open", "still open", "still open"]


def test_after_the_same_write_comes_what_was_read_after_it():
    """The write is answered once and moves the run to where the recording was then."""
    recorded = shop()
    answers = ByArguments(recorded)
    order, cancel = call_of(recorded, "order"), call_of(recorded, "cancel")
    assert said(answers, order) == "open"
    assert said(answers, cancel) == "done"
    assert [said(answers, order), said(answers, order)] == ["cancelled", "cancelled"]
    assert said(answers, cancel) is None
    assert said(answers, order) is None  # cancelled twice: nobody knows


def test_a_write_that_is_not_on_the_tape_makes_every_read_unknown():
    """Whoever answers it (a dry run, nobody), what the recording read says nothing of after it."""
    recorded, other = shop(), builders.run("x").tool("pay", {"id": 7}, 1, side_effect=EXTERNAL).build()
    answers = ByArguments(recorded)
    assert said(answers, call_of(other, "pay")) is None
    assert said(answers, call_of(recorded, "order")) is None


def test_what_a_fork_shares_is_written_and_spent():
    """Beyond a step after the write, the read of after the write answers, and the write is not given again."""
    recorded = shop()
    answers = ByArguments(recorded, until=sequence_of(recorded, 4))
    assert said(answers, call_of(recorded, "cancel")) is None
    answers = ByArguments(recorded, until=sequence_of(recorded, 4))
    assert said(answers, call_of(recorded, "order")) == "cancelled"
    before = ByArguments(recorded, until=sequence_of(recorded, 2))
    assert [said(before, call_of(recorded, "order")) for _ in range(2)] == ["still open", "still open"]


def test_parallel_writes_in_another_order_are_the_same_writes():
    """What is written has no order."""
    recorded = (
        builders.run("a")
        .tool("set", {"a": 1}, 1, side_effect=WRITE)
        .tool("set", {"b": 2}, 2, side_effect=WRITE)
        .tool("get", {}, "both")
        .build()
    )
    answers = ByArguments(recorded)
    assert said(answers, call_of(recorded, "get")) is None
    assert [said(answers, call_of(recorded, "set", number)) for number in (1, 0)] == [2, 1]
    assert said(answers, call_of(recorded, "get")) == "both"


def test_what_a_declared_tool_does_inside_counts_as_the_tool():
    """A read that posts its query is a read; a write's own requests are part of it."""
    recorded = (
        builders.run("a")
        .tool("search", {"q": 1}, "found", inside=lambda tool: tool.http("POST", "http://h/q", 1, request={}))
        .tool("get", {}, "same")
        .tool("pay", {}, 1, side_effect=WRITE, inside=lambda tool: tool.http("POST", "http://h/pay", 1, request={}))
        .tool("get", {}, "paid")
        .build()
    )
    answers = ByArguments(recorded)
    assert said(answers, call_of(recorded, "get")) == "same"
    said(answers, call_of(recorded, "pay"))
    assert said(answers, call_of(recorded, "get")) == "paid"


def test_what_is_no_read_of_the_world_is_given_once():
    """An approval or a decision is spent by its one use."""
    recorded = builders.run("a").approval("refund?", {"eur": 5}, True).decision("route", {}, "x").build()
    answers = ByArguments(recorded)
    for name in ("refund?", "route"):
        call = call_of(recorded, name)
        assert said(answers, call) is not None
        assert said(answers, call) is None


def test_calls_that_never_ended_answer_nothing():
    """A pending write still counts as made: it may have happened."""
    recorded = (
        builders.run("a")
        .tool("get", {}, 1)
        .tool("pay", {}, None, side_effect=WRITE, pending=True)
        .tool("get", {}, 2)
        .build()
    )
    answers = ByArguments(recorded)
    assert said(answers, call_of(recorded, "pay")) is None
    assert said(answers, call_of(recorded, "get")) == 2


def test_the_environment_is_as_it_was():
    """A variable comes from the recording, a masked one and every other kind of read from the next source."""
    recorded = (
        builders.run("a")
        .read(Kind.ENV, "os.environ[A]", "x")
        .read(Kind.ENV, "os.environ[B]", "***", masked=True)
        .read(Kind.CLOCK, "time.time", 1.0)
        .build()
    )
    answers = ByArguments(recorded)
    assert answers.read(Kind.ENV, "os.environ[A]", PLACE, "1").value == "x"
    assert answers.read(Kind.ENV, "os.environ[B]", PLACE, "1") is None
    assert answers.read(Kind.CLOCK, "time.time", PLACE, "1") is None


def test_a_variable_is_as_it_was_at_its_place_else_as_it_was_last():
    """Read twice with another value between, it is so again; one read more, or another place, finds the last."""
    recorded = (
        builders.run("agent")
        .read(Kind.ENV, "os.environ[A]", "x")
        .read(Kind.ENV, "os.environ[A]", None)
        .read(Kind.ENV, "os.environ[A]", "y")
        .build()
    )
    answers = ByArguments(recorded)
    elsewhere = PLACE.child(Kind.SCOPE, "s")
    assert answers.read(Kind.ENV, "os.environ[A]", elsewhere, "").value == "y"
    found = [answers.read(Kind.ENV, "os.environ[A]", PLACE, recorded.nodes[0].reads[0].strand) for _ in range(4)]
    assert [one.value for one in found] == ["x", None, "y", "y"]


def test_clocks_show_again_what_they_showed_where_they_were_read():
    """In order at their place while the run's own clock has not gone past it; marks of the order are no reads."""
    recorded = (
        builders.run("agent")
        .read(Kind.CLOCK, "time.monotonic", 1.0)
        .read(Kind.CLOCK, THREAD_END, 5)
        .read(Kind.CLOCK, "wait.any", 5)
        .read(Kind.CLOCK, "time.monotonic", 2.0)
        .build()
    )
    strand = recorded.nodes[0].reads[0].strand
    clock = VirtualClock(recorded, until=0)
    answers = ByArguments(recorded, clock=clock)
    elsewhere = PLACE.child(Kind.SCOPE, "s")
    assert answers.read(Kind.CLOCK, "time.monotonic", elsewhere, strand) is None
    assert answers.read(Kind.CLOCK, "time.monotonic", PLACE, strand).value == 1.0
    assert answers.read(Kind.CLOCK, THREAD_END, PLACE, strand) is None
    assert answers.read(Kind.CLOCK, "wait.any", PLACE, strand) is None
    clock.asleep(60)()
    assert answers.read(Kind.CLOCK, "time.monotonic", PLACE, strand) is None
    assert clock.read(Kind.CLOCK, "time.monotonic", PLACE, strand).value >= 61
    assert ByArguments(recorded).read(Kind.CLOCK, "time.monotonic", PLACE, strand) is None


def test_draws_are_given_again_where_they_were_made():
    """In their order at their place, each once; a fork's past has its own, numpy's states are no draws."""
    recorded = (
        builders.run("agent")
        .read(Kind.RANDOM, "random.random", 0.25)
        .read(Kind.RANDOM, "random.random", 0.5)
        .read(Kind.UUID, "uuid.uuid4", "1f0e")
        .read(Kind.RANDOM, "numpy.random", b"state")
        .build()
    )
    strand = recorded.nodes[0].reads[0].strand
    answers = ByArguments(recorded)
    elsewhere = PLACE.child(Kind.SCOPE, "s")
    assert answers.read(Kind.RANDOM, "random.random", elsewhere, strand) is None
    assert answers.read(Kind.RANDOM, "random.random", PLACE, "1.7") is None
    first, second, third = (answers.read(Kind.RANDOM, "random.random", PLACE, strand) for _ in range(3))
    assert (first.value, second.value, third) == (0.25, 0.5, None)
    assert answers.read(Kind.UUID, "uuid.uuid4", PLACE, strand).value == "1f0e"
    assert answers.read(Kind.RANDOM, "numpy.random", PLACE, strand) is None
    forked = ByArguments(recorded, until=recorded.nodes[0].reads[0].sequence)
    assert forked.read(Kind.RANDOM, "random.random", PLACE, strand).value == 0.5


def test_an_answer_whose_bytes_are_gone_stops():
    """It is never passed over in silence."""
    recorded = shop()
    spans = [
        replace(
            span,
            node=replace(
                span.node, outcome=replace(span.node.outcome, result=span.node.outcome.result._replace(data=None))
            ),
        )
        if span.node is not None and span.node.kind is Kind.TOOL
        else span
        for span in recorded.spans
    ]
    answers = ByArguments(replace(recorded, spans=spans, payload=lambda digest: None))
    with pytest.raises(TapeUnreadable):
        answers.answer(call_of(recorded, "order"), PLACE)


def test_a_graph_that_saved_a_state_of_its_own_is_not_given_the_recorded_one():
    """What a saver of LangGraph's said of that thread is another run's by then; of other threads it is said again."""
    run = builders.run("a")
    for thread in ("one", "two"):
        run.retrieval("langgraph.get_tuple", {"thread_id": thread, "checkpoint_ns": "", "at": "latest"}, thread)
    recorded = run.build()
    answers = ByArguments(recorded)
    one, two = (call_of(recorded, "langgraph.get_tuple", number) for number in (0, 1))
    assert said(answers, one) == "one"
    saved = Call(
        Kind.CHECKPOINT, "langgraph", SideEffect.NONE, one.request, attributes={semconv.LANGGRAPH_THREAD_ID: "one"}
    )
    answers.goes_beyond(saved)
    assert said(answers, one) is None
    assert said(answers, two) == "two"


def test_a_call_that_somebody_else_answered_is_used_up():
    """A write counts as made, and its recorded answer is not given to the next equal one."""
    recorded = shop()
    answers = ByArguments(recorded)
    answers.passed(call_of(recorded, "cancel"))
    assert said(answers, call_of(recorded, "order")) == "cancelled"
    assert said(answers, call_of(recorded, "cancel")) is None
