"""What other runs may answer, and each reason why they do not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import AnswerSource, Call, Kind, Payload, SideEffect
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.replay.pool import Found, Miss, Pool
from otel_agent_replay.replay.rerun.answers import PoolAnswers
from otel_agent_replay.replay.writes import NOTHING_WRITTEN, with_write
from otel_agent_replay.testing import builders

START = builders._FIRST_NS
SECOND = 10**9
WRITE = SideEffect.WRITE
LATER = START + 10**6 * SECOND


def order(number, *, at=0, result="open", seed=0, **more):
    """A run that reads one order, `at` seconds after the first moment."""
    run = builders.run("shop", seed=seed, started_ns=START + at * SECOND)
    return run.tool("order", {"id": number}, result, **more)


def call(name, arguments, side_effect=SideEffect.READ):
    return Call(Kind.TOOL, name, side_effect, Payload.of(encode(arguments).data, "application/json"))


ORDER_7 = next(node.call for node in order(7).build().nodes if node.kind is Kind.TOOL)


def answered(pool, *, before_ns=LATER, asked=ORDER_7, **more):
    found = pool.find(asked, before_ns, **more)
    return found.reason if isinstance(found, Miss) else json.loads(found.node.outcome.result.data)


def test_the_latest_of_equal_answers_is_given_with_its_run():
    """Several runs say the same; the youngest is named."""
    runs = [order(7, at=at, seed=at).build() for at in (20, 90, 50)]
    found = Pool(runs).find(ORDER_7, LATER)
    assert isinstance(found, Found)
    assert found.run is runs[1]
    assert json.loads(found.node.outcome.result.data) == "open"


def test_another_call_is_no_answer():
    """Other arguments, another name or another kind do not fit."""
    pool = Pool([order(8).build()])
    assert answered(pool) == "no other run made this call"
    assert answered(Pool([])) == "no other run made this call"


def test_only_reads_of_the_world_are_answered():
    """A write, an approval or a model's answer never comes from another run."""
    recorded = builders.run("a").model("q").approval("ok?", {}, True).tool("pay", {}, 1, side_effect=WRITE).build()
    calls = [node.call for node in recorded.nodes if node.kind is not Kind.RUN]
    assert len(calls) == 3
    for one in calls:
        assert "only reads" in answered(Pool([recorded]), asked=one)


def test_contradictions_are_a_miss():
    """Two runs were told two things, and nothing recorded says why."""
    pool = Pool([order(7, seed=1).build(), order(7, at=5, result="shipped", seed=2).build()])
    assert answered(pool) == "2 answers of other runs contradict each other (2 different ones)"


def test_answers_have_an_age_and_a_time():
    """Too old, or not there yet at that moment."""
    pool = Pool([order(7, at=100).build()], max_age_ns=60 * SECOND)
    assert answered(pool, before_ns=START + 150 * SECOND) == "open"
    assert answered(pool, before_ns=START + 200 * SECOND) == "the answers of other runs are too old"
    assert answered(pool, before_ns=START + 50 * SECOND) == "other runs asked later"


def test_failures_and_parts_are_no_answers():
    """Errors, unended calls, answers of a replay, overload, and bytes that are gone."""
    busy = builders.run("a").http("GET", "http://h/x", {}, status=503).build()
    runs = [
        order(7, error=TimeoutError("slow"), seed=1).build(),
        order(7, pending=True, seed=2).build(),
        order(7, source=AnswerSource.TAPE, seed=3).build(),
        busy,
    ]
    gone = order(7, seed=4).build()
    spans = [
        replace(span, node=replace(node, outcome=replace(node.outcome, result=node.outcome.result._replace(data=None))))
        if (node := span.node) is not None and node.kind is Kind.TOOL
        else span
        for span in gone.spans
    ]
    pool = Pool([*runs, replace(gone, spans=spans, payload=lambda digest: None)])
    assert "no whole answer" in answered(pool)
    asked = next(node.call for node in busy.nodes if node.kind is Kind.HTTP)
    assert "no whole answer" in answered(pool, asked=asked)
    missing = builders.run("a").http("GET", "http://h/x", {"no": "such"}, status=404).build()
    assert answered(Pool([missing]), asked=asked) == {"no": "such"}


def test_altered_bytes_are_no_answer():
    """Bytes that are not those of their digest are never handed out; the miss says so."""
    whole = order(7).build()
    spans = [
        replace(span, node=replace(node, outcome=replace(node.outcome, result=node.outcome.result._replace(data=None))))
        if (node := span.node) is not None and node.kind is Kind.TOOL
        else span
        for span in whole.spans
    ]
    place = Place.root("shop").child(Kind.TOOL, "order")
    for payload, given in ((whole.payload, "open"), (lambda digest: b'"shipped"', None)):
        source = replace(whole, spans=spans, payload=payload)
        answers = PoolAnswers(lambda source=source: [source], before_ns=LATER, written=lambda: NOTHING_WRITTEN)
        answer = answers.answer(ORDER_7, place)
        assert (None if answer is None else json.loads(answer.outcome.result.data)) == given
    assert answers.misses == ["order: the bytes of an answer to the same call are missing or were altered"]


def test_the_asking_run_must_have_written_the_same():
    """An answer of after a write is for a run that made this write."""
    recorded = builders.run("a").tool("set", {"x": 1}, 1, side_effect=WRITE).tool("order", {"id": 7}, "changed").build()
    made = next(node.call for node in recorded.nodes if node.name == "set")
    pool = Pool([recorded])
    assert answered(pool) == "other runs asked after other writes than this one has made"
    assert answered(pool, written=with_write(NOTHING_WRITTEN, made)) == "changed"


SINCE = "a write since may have changed the answer"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"order": 7}, SINCE),
        ({"orders": [{"deep": "7"}]}, SINCE),
        ({}, SINCE),
        ({"order": 8}, "open"),
    ],
)
def test_a_write_of_another_run_counts_where_it_may_touch_the_read(arguments, says):
    """It does where it names a value of the read, or names nothing."""
    writer = builders.run("b", seed=5, started_ns=START + 50 * SECOND).tool("set", arguments, 1, side_effect=WRITE)
    assert answered(Pool([order(7).build(), writer.build()])) == says
    assert answered(Pool([order(7).build(), writer.build()], own_worlds=True)) == "open"
    assert answered(Pool([order(7).build(), writer.build()]), before_ns=START + 20 * SECOND) == "open"


def test_a_write_before_the_answer_is_part_of_it():
    """In one world what another run wrote earlier is what was read."""
    writer = builders.run("b", seed=5).tool("set", {"order": 7}, 1, side_effect=WRITE).build()
    assert answered(Pool([order(7, at=50).build(), writer])) == "open"


def test_a_write_that_never_ended_may_still_happen():
    """A pending write counts until now."""
    writer = builders.run("b", seed=5).tool("set", {"order": 7}, None, side_effect=WRITE, pending=True).build()
    assert answered(Pool([order(7, at=50).build(), writer])) == SINCE


def test_whatever_the_answering_run_wrote_since_counts():
    """Its own writes are known to belong together, even when no value is shared."""
    own = order(7).tool("log", {"text": "x"}, 1, side_effect=WRITE).build()
    assert answered(Pool([own])) == SINCE
    assert answered(Pool([own], own_worlds=True)) == "open"


def test_a_read_of_everything_is_touched_by_any_write():
    """A call without arguments may show whatever was written."""
    listed = builders.run("a").tool("orders", {}, [7]).build()
    asked = next(node.call for node in listed.nodes if node.kind is Kind.TOOL)
    writer = builders.run("b", seed=5, started_ns=START + 50 * SECOND).tool("set", {"x": 1}, 1, side_effect=WRITE)
    assert answered(Pool([listed, writer.build()]), asked=asked) == SINCE
