"""The nodes of a replay that were answered as recorded: many to a record, and each as if it had records of its own."""

from __future__ import annotations

import contextvars
import threading

import pytest

import otel_agent_replay as replay
from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import WholeAnswer, current
from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.runs import RunRequest, run_factory
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.export.answered_nodes import answered_nodes
from otel_agent_replay.model import (
    AnswerSource,
    FailurePhase,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
    digest_of,
    make_call,
    make_request_head,
)
from otel_agent_replay.payload.redaction import Redaction
from tests.support.memory_journal import recording

VALUE = Outcome(OutcomeStatus.OK, Payload.of(b'{"order":"17"}', MediaType.VALUE.value))
FAILED = Outcome(OutcomeStatus.ERROR, failure=recorded_failure(KeyError("17"), FailurePhase.CALL, Redaction.default()))


@replay.tool(side_effect="read")
def lookup(order: str) -> dict:
    raise AssertionError("a replay runs no tool")


@replay.tool(side_effect="read")
def search(words: str) -> dict:
    raise AssertionError("a replay runs no tool")


class Taped:
    """An answerer and its answer in one: `outcomes` by name, VALUE for the rest; `held` is where `settle` waits."""

    def __init__(self, outcomes=(), held=None) -> None:
        self.outcomes = dict(outcomes)
        self.held = held or (lambda: None)
        self.calls = 0

    def answer(self, call, place):
        self.calls += 1
        return Answer(self.outcomes.get(call.name, VALUE), self.calls, self.held)

    def read(self, kind, name, place, strand):
        return None

    def departed(self, call, place, read):
        return ReplayDeparture(step=None, path=place.path, expected="nothing", came="something")


class Answer(WholeAnswer):
    same_request = True

    def __init__(self, outcome, step, settle) -> None:
        self.outcome, self.origin_step, self.settle = outcome, step, settle

    def done(self) -> None:
        pass


def replayed(agent, taped=None) -> None:
    """Run `agent` as a replay of `taped`, and close the run."""
    session = run_factory().open(
        RunRequest("desk"), mode=EXACT, answerers={AnswerSource.TAPE: taped or Taped()}, origin_run_id=b"o" * 16
    )
    with session.entered():
        agent()
    run_factory().close(session, output=None, error=None)


def test_many_answered_calls_share_a_record():
    """A thousand calls of two tools fill a handful of records; no call is lost, doubled or out of order."""

    def agent():
        for number in range(500):
            lookup(str(number))
            search("x")

    with recording() as journal:
        replayed(agent)
    nodes = journal.nodes()
    assert len(journal.of("answered")) <= 6
    assert not journal.of("node_begun")
    assert [begun.step for begun, _ in nodes] == list(range(1, 1001))
    assert [begun.origin_step for begun, _ in nodes] == list(range(1, 1001))
    assert [begun.name for begun, _ in nodes] == ["lookup", "search"] * 500
    assert [begun.occurrence for begun, _ in nodes] == [number // 2 for number in range(1000)]
    assert len({begun.span_id for begun, _ in nodes}) == 1000
    root = journal.of("run_begun")[0].span_id
    for begun, ended in nodes:
        assert begun.parent_span_id == root
        assert begun.sequence < ended.end_sequence
        assert 0 < begun.time_ns <= ended.time_ns
        assert (begun.as_recorded, ended.as_recorded, ended.status) == (True, True, "ok")
        assert ended.result_digest == VALUE.result.digest


def ask(number: int, protocol: str) -> None:
    """Make a model call, as a transport does."""
    session, place = current.get()
    head = make_request_head("POST", "http://127.0.0.1/v1/chat/completions", (("content-length", str(number)),))
    request = Payload.of(str(number).encode(), MediaType.JSON.value)
    call = make_call(Kind.MODEL, "chat", SideEffect.READ, request, head, {semconv.PROTOCOL: protocol})
    crossing = session.begin(call, place)
    crossing.finish(crossing.answer.outcome)


def test_answered_model_calls_share_a_record_too():
    """Calls of one protocol lie in one record, whatever else their heads say; each keeps its own request's digest."""

    def agent():
        for number in range(100):
            ask(number, "openai.chat")
        ask(100, "anthropic.messages")

    with recording() as journal:
        replayed(agent)
    nodes = journal.nodes()
    assert len(journal.of("answered")) == 2
    assert not journal.of("node_begun")
    assert [begun.request_digest for begun, _ in nodes] == [digest_of(str(number).encode()) for number in range(101)]
    assert [begun.attributes[0].text for begun, _ in nodes] == ["openai.chat"] * 100 + ["anthropic.messages"]
    assert {begun.exchange.request_media_type for begun, _ in nodes} == {MediaType.JSON.value}


def test_calls_in_steps_and_threads_keep_their_place():
    """Each node names the step around it and its thread of control."""

    def agent():
        with replay.step("plan"):
            lookup("1")
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(lookup, "2"))
        thread.start()
        thread.join()

    with recording() as journal:
        replayed(agent)
    inside, beside = [begun for begun, _ in journal.nodes() if begun.name == "lookup"]
    assert (inside.parent_span_id, inside.strand) == (journal.node("plan")[0].span_id, "")
    assert (beside.parent_span_id, beside.strand) == (journal.of("run_begun")[0].span_id, "1")


def test_an_answered_failure_has_records_of_its_own():
    """What failed as recorded says how, for everyone who reads no tape."""

    def agent():
        with pytest.raises(KeyError):
            lookup("17")
        search("x")

    with recording() as journal:
        replayed(agent, Taped({"lookup": FAILED}))
    begun, ended = journal.node("lookup")
    assert (ended.error_type, ended.error_message, ended.as_recorded) == ("KeyError", "'17'", True)
    assert begun.sequence < ended.end_sequence < journal.node("search")[0].sequence
    assert begun.time_ns <= ended.time_ns


def test_an_answered_call_that_never_ends_is_pending():
    """A call that was still waiting for its turn when the run was over is in the record, unfinished."""

    class Over(BaseException):
        pass

    def over():
        raise Over

    def agent():
        with pytest.raises(Over):
            lookup("17")

    with recording() as journal:
        replayed(agent, Taped(held=over))
    begun, ended = journal.node("lookup")
    assert (begun.step, begun.origin_step, begun.as_recorded) == (1, 1, True)
    assert ended.status == OutcomeStatus.PENDING.value


def test_a_record_that_lacks_an_entry_is_refused():
    """A record whose lists differ in length is no guess at what is missing."""
    with recording() as journal:
        replayed(lambda: [lookup("1"), lookup("2")])
    (answered,) = journal.of("answered")
    assert len(list(answered_nodes(answered))) == 2
    del answered.end_sequences[1:]
    with pytest.raises(ValueError, match="zip"):
        list(answered_nodes(answered))
