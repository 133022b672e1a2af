"""What a recorder writes: runs, scopes, checkpoints, versions, spans; and that nothing of it can hurt the host."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_agent_replay as replay
from otel_agent_replay.boundary.crossing import Place, WholeAnswer
from otel_agent_replay.boundary.http_exchange import SentRequest, begin_exchange, here_for_http
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.runs import RunRequest, run_factory
from otel_agent_replay.boundary.session import active, active_for_call, set_call_context
from otel_agent_replay.capture import surroundings
from otel_agent_replay.capture.implicit import ImplicitRuns
from otel_agent_replay.capture.node_records import NodeRecords
from otel_agent_replay.errors import ConfigurationError, ReplayDeparture
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    CaptureLevel,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
)
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.memory_journal import recording


@replay.tool(side_effect="read")
def lookup(order: str) -> dict:
    return {"order": order}


@pytest.fixture
def journal():
    with recording() as found:
        yield found


@pytest.fixture
def traced():
    """A journal, and the finished spans of a service with tracing."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with recording(provider) as found:
        yield found, exporter, provider
    provider.shutdown()


# --- runs ---


def test_a_run_has_a_begin_and_an_end_with_its_input_and_output(journal):
    """Agent, entry, arguments, value, versions and status frame what happened."""

    @replay.agent(name="desk", version="7", prompt_version="p2")
    def agent(question: str) -> str:
        return question.upper()

    agent("why?")
    (begun,), (ended,) = journal.of("run_begun"), journal.of("run_ended")
    assert (begun.agent, begun.mode, begun.replay, begun.capture) == ("desk", "record", False, "redacted")
    assert begun.entry.endswith(":test_a_run_has_a_begin_and_an_end_with_its_input_and_output.<locals>.agent")
    assert journal.bytes_of(begun.input_digest) == b'{"question":"why?"}'
    assert journal.bytes_of(ended.output_digest) == b'"WHY?"'
    assert (ended.status, journal.versions()["agent"], journal.versions()["prompt"]) == ("ok", "7", "p2")
    assert journal.open_runs == set()


def test_a_run_says_which_revision_of_the_code_it_ran(journal, tmp_path, monkeypatch):
    """The commit checked out above the working directory, by a branch or by itself, and a digest of the source."""
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/refs/heads/main").write_text("c0ffee" * 6 + "beef\n")
    (tmp_path / "service").mkdir()
    monkeypatch.chdir(tmp_path / "service")
    surroundings.code_revision.cache_clear()

    @replay.agent
    def desk():
        pass

    try:
        desk()
    finally:
        surroundings.code_revision.cache_clear()
    versions = journal.versions()
    assert versions["code"] == "c0ffee" * 6 + "beef"
    assert len(versions["source"]) == 16
    assert "package:opentelemetry-sdk" in versions


def test_recording_draws_nothing_from_the_applications_generator(journal):
    """Ids of runs, traces and spans are drawn elsewhere: what the application draws is what it would have drawn."""

    @replay.agent
    def desk():
        with replay.step("look"):
            lookup("o-1")
        replay.checkpoint("half way", {"state": 1}, resumable=True)

    state = random.getstate()
    desk()
    assert random.getstate() == state
    assert len(journal.nodes()) == 3


def test_what_an_agent_yields_is_taken_by_value(journal):
    """A consumer that changes what it is given, or an agent that gives one thing again, changes no recording."""

    @replay.agent
    def counting():
        state = {"count": 0}
        for _ in range(3):
            state["count"] += 1
            yield state
        return "done"

    @replay.agent
    async def counting_async():
        for item in counting.__wrapped__():
            yield item

    async def consume():
        async for item in counting_async():
            item["seen"] = True

    for item in counting():
        item["seen"] = True
    asyncio.run(consume())
    first, second = (decode(journal.bytes_of(ended.output_digest)) for ended in journal.of("run_ended"))
    yielded = [{"count": 1}, {"count": 2, "seen": True}, {"count": 3, "seen": True}]
    assert first == {"yielded": yielded, "returned": "done"}
    assert second == {"yielded": yielded, "returned": None}


def test_a_run_that_raises_ends_in_error_and_raises_on(journal):
    """The agent's own exception is the caller's, and the run's."""

    @replay.agent(name="desk")
    def agent() -> None:
        raise LookupError("no such order")

    with pytest.raises(LookupError, match="no such order"):
        agent()
    (ended,) = journal.of("run_ended")
    assert (ended.status, ended.error_type, ended.error_message) == ("error", "LookupError", "no such order")


def test_what_a_run_leaves_open_is_pending(journal):
    """A generator tool that nobody finishes ends with the run, with what was taken of it."""

    @replay.tool
    def counting():
        yield 1
        yield 2

    kept = []

    @replay.agent(name="desk")
    def agent() -> None:
        kept.append(counting())
        next(kept[0])
        active()[0].begin(Call(Kind.TOOL, "stuck", SideEffect.READ, Payload.of(b"{}", "x")), active()[1])

    agent()
    assert journal.node("counting")[1].exchange.closed_early
    stuck = journal.node("stuck")[1]
    assert (stuck.status, stuck.end_sequence) == ("pending", 0)


def test_runs_in_threads_do_not_mix(journal):
    """Two runs at the same time keep their own steps."""
    both = threading.Barrier(2)

    @replay.agent(name="desk")
    def agent(name: str) -> None:
        both.wait()
        lookup(name)
        both.wait()
        lookup(name)

    threads = [threading.Thread(target=agent, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = {run.run_id: [] for run in journal.of("run_begun")}
    for begun, _ in journal.nodes():
        runs[begun.run_id].append((begun.step, begun.request_data))
    assert sorted(sorted(steps) for steps in runs.values()) == [
        [(1, b'{"order":"a"}'), (2, b'{"order":"a"}')],
        [(1, b'{"order":"b"}'), (2, b'{"order":"b"}')],
    ]


def test_a_run_of_nobody_is_opened_for_the_process():
    """What crosses outside any agent belongs to the process's run, where it has one."""
    with recording() as journal:
        implicit = ImplicitRuns(run_factory(), process_run=True)
        set_call_context(implicit=implicit.current, suppressed=None)
        try:
            implicit.start()
            lookup("17")
            implicit.close_all()
            lookup("18")
        finally:
            set_call_context(implicit=None, suppressed=None)
    assert [begun.request_data for begun, _ in journal.nodes()] == [b'{"order":"17"}']
    assert [ended.status for ended in journal.of("run_ended")] == ["ok"]


def test_the_run_of_a_trace_ends_with_its_local_root(traced):
    """A service with tracing and no agent: the trace's part here is the run."""
    journal, _, provider = traced
    implicit = ImplicitRuns(run_factory(), process_run=False)
    set_call_context(implicit=implicit.current, suppressed=None)
    try:
        with provider.get_tracer("service").start_as_current_span("handle") as span:
            lookup("17")
            assert journal.of("run_ended") == []
            implicit.root_ended(span.get_span_context().trace_id)
    finally:
        set_call_context(implicit=None, suppressed=None)
    assert [run.agent for run in journal.of("run_begun")] == ["handle"]
    assert len(journal.of("run_ended")) == 1
    assert len(journal.nodes()) == 1


# --- what an agent says of itself ---


def test_an_http_call_is_looked_at_only_where_a_run_may_begin_with_it(traced):
    """In a span of a traced service one may; outside every span, and where nothing is recorded, it is nobody's."""
    _, _, provider = traced
    implicit = ImplicitRuns(run_factory(), process_run=False)
    set_call_context(implicit=implicit.current, suppressed=None, may_open=implicit.may_open)
    try:
        assert here_for_http() is None
        with provider.get_tracer("service").start_as_current_span("handle"):
            assert here_for_http() == (None, None)
    finally:
        set_call_context(implicit=None, suppressed=None)
    with provider.get_tracer("service").start_as_current_span("handle"):
        assert here_for_http() is None


def test_a_step_is_a_scope_around_what_crosses_in_it(journal):
    """It has a name and attributes, no step number, and its content is below it."""

    @replay.agent(name="desk")
    def agent() -> None:
        with replay.step("plan", attempt=2):
            lookup("17")
        with pytest.raises(ValueError, match="no"), replay.step("act"):
            raise ValueError("no")

    agent()
    plan, ended = journal.node("plan")
    assert (plan.kind, plan.step, ended.status) == ("scope", 0, "ok")
    assert journal.attributes("plan") == {"attempt": 2}
    assert journal.node("lookup")[0].parent_span_id == plan.span_id
    assert (journal.node("act")[1].status, journal.node("act")[1].error_type) == ("error", "ValueError")


def test_a_checkpoint_keeps_state_and_whether_one_may_go_on(journal):
    """It is a step that crosses nothing."""

    @replay.agent(name="desk")
    def agent() -> None:
        replay.checkpoint("paid", {"order": 17}, resumable=False, unsafe_reasons=["a refund is under way"])

    agent()
    begun, ended = journal.node("paid")
    assert (begun.kind, begun.step, ended.status) == ("checkpoint", 1, "ok")
    assert journal.request("paid") == {"order": 17}
    attributes = journal.attributes("paid")
    assert attributes["agent_replay.checkpoint.resumable"] is False
    assert list(attributes["agent_replay.checkpoint.unsafe_reasons"]) == ["a refund is under way"]


def test_versions_are_declared_during_the_run(journal):
    """They end up with the run; a name that is none of ours is refused."""

    @replay.agent(name="desk")
    def agent() -> None:
        replay.versions(prompt="p9", index="2025-11")

    agent()
    assert {"prompt": "p9", "index": "2025-11"}.items() <= journal.versions().items()
    with pytest.raises(ConfigurationError, match="'prmopt'"):
        replay.versions(prmopt="x")


def test_versions_of_a_declaration_are_redacted(traced):
    """What is written, exported and held against a recording later has the secret in none of them."""
    journal, spans, _ = traced
    secret = "sk-Dv3Mn7Kp1Qs9Tz5Bx2Lw8"

    @replay.agent(version=f"7 with {secret}")
    def agent():
        return 1

    agent()
    (begun,) = journal.of("run_begun")
    stored = {version.name: version.value for version in begun.versions}["agent"]
    assert stored.startswith("7 with")
    assert secret not in stored
    (span,) = spans.get_finished_spans()
    assert secret not in str(span.attributes)
    asked_again = RunRequest("agent", versions={"agent": f"7 with {secret}"})
    assert run_factory().fingerprint(asked_again)["agent"] == stored


def test_steps_checkpoints_and_versions_are_nothing_outside_a_run(journal):
    """An agent's code works where nobody records."""
    with replay.step("plan"):
        replay.checkpoint("here", resumable=True)
        replay.versions(agent="1")
    assert journal.records == []


# --- what is kept ---


def test_at_level_digest_no_content_is_written():
    """Digests and sizes are kept, and the facts that could not be read from bodies later."""
    with recording(level=CaptureLevel.DIGEST) as journal:

        @replay.agent(name="desk")
        def agent() -> str:
            lookup("a secret place")
            answered(BODY, b'{"id":"x","model":"m","choices":[]}')
            return "a secret answer"

        agent()
    written = b"".join(record.SerializeToString() for record in journal.records)
    assert b"secret" not in written
    assert b"hello there" not in written
    assert journal.node("lookup")[0].exchange.request_size == len(b'{"order":"a secret place"}')
    assert journal.attributes("chat")["gen_ai.request.model"] == "m"
    assert journal.node("chat")[0].span_name == "chat m"


BODY = b'{"model":"m","messages":[{"role":"user","content":"hello there"}]}'


def answered(request: bytes, response: bytes) -> None:
    """Let a model call cross and be answered."""
    sent = SentRequest(
        "POST",
        "https://api.openai.com/v1/chat/completions",
        (("Content-Type", "application/json"), ("Authorization", "Bearer sk-abcdefghijklmnop0123456789")),
        request,
    )
    tap = begin_exchange(active_for_call(), lambda: sent)
    tap.head(200, "OK", (("content-type", "application/json"),), "HTTP/1.1")
    tap.chunk(response)
    tap.end()


def test_a_model_calls_facts_are_left_to_the_sealer_where_no_span_carries_them(journal):
    """Heads and bodies are written, what they tell is not."""

    @replay.agent(name="desk")
    def agent() -> None:
        answered(BODY, b'{"id":"x","model":"m-1","choices":[]}')

    agent()
    begun, ended = journal.node("chat")
    assert (begun.kind, begun.span_name) == ("model", "")
    assert journal.attributes("chat") == {"agent_replay.protocol": "openai.chat_completions"}
    assert begun.exchange.request.method == "POST"
    assert [header.name for header in begun.exchange.request.headers] == ["Content-Type"]
    assert (ended.exchange.response.status, list(ended.exchange.chunking.sizes)) == (200, [37])
    assert begun.request_data == BODY
    assert not ended.attributes


# --- spans for everyone ---


def test_each_crossing_has_a_span_with_the_recordings_ids_and_small_facts(traced):
    """Standard facts, run, step, kind, side effect and digests; no content."""
    journal, exporter, _ = traced

    @replay.agent(name="desk")
    def agent() -> None:
        lookup("a secret place")

    agent()
    tool, run = exporter.get_finished_spans()
    begun, ended = journal.node("lookup")
    assert (tool.name, run.name) == ("execute_tool lookup", "invoke_agent desk")
    assert tool.context.span_id == int.from_bytes(begun.span_id, "big")
    assert tool.parent.span_id == run.context.span_id == int.from_bytes(journal.of("run_begun")[0].span_id, "big")
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.type": "function",
        "agent_replay.kind": "tool",
        "agent_replay.side_effect": "read",
        "agent_replay.run.id": begun.run_id.hex(),
        "agent_replay.step": 1,
        "agent_replay.request.digest": begun.request_digest.hex(),
        "agent_replay.result.digest": ended.result_digest.hex(),
    }
    assert (tool.start_time, tool.end_time) == (begun.time_ns, ended.time_ns)


def test_a_model_calls_span_carries_its_facts(traced):
    """Where a span is recorded, everyone sees the model's facts on it."""
    _, exporter, _ = traced

    @replay.agent(name="desk")
    def agent() -> None:
        answered(BODY, b'{"id":"x","model":"m-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}')

    agent()
    span = next(span for span in exporter.get_finished_spans() if span.name == "chat m")
    assert span.kind is trace.SpanKind.CLIENT
    assert span.attributes["gen_ai.response.model"] == "m-1"
    assert span.attributes["gen_ai.usage.output_tokens"] == 4
    assert span.attributes["http.response.status_code"] == 200


def test_the_code_of_a_tool_runs_inside_its_span(traced):
    """A span of another library that starts in a tool is the tool span's child."""
    journal, exporter, provider = traced

    @replay.tool
    def query() -> None:
        provider.get_tracer("database").start_span("select").end()

    @replay.agent(name="desk")
    def agent() -> None:
        query()

    agent()
    select = next(span for span in exporter.get_finished_spans() if span.name == "select")
    assert select.parent.span_id == int.from_bytes(journal.node("query")[0].span_id, "big")
    assert not trace.get_current_span().get_span_context().is_valid


def test_between_the_items_of_a_generator_nothing_of_it_is_current(traced):
    """Who consumes an agent or a tool that yields runs in a place and under a span of their own, also after leaving."""
    _, _, provider = traced

    def here():
        found = active()
        return None if found is None else found[1].path, trace.get_current_span().get_span_context().span_id

    def undisturbed(items):
        mine = here()
        for item in items:
            assert here() == mine
            yield item
        assert here() == mine

    async def undisturbed_async(items):
        mine = here()
        async for item in items:
            assert here() == mine
            yield item
        assert here() == mine

    @replay.tool
    def pieces():
        yield from "ab"

    @replay.tool
    async def pieces_async():
        for item in pieces():
            yield item

    @replay.agent
    def desk():
        assert here()[0] == ("run:desk#0",)
        yield from undisturbed(pieces())

    @replay.agent
    async def desk_async():
        assert here()[0] == ("run:desk_async#0",)
        async for item in undisturbed_async(pieces_async()):
            yield item

    async def consume():
        assert [item async for item in undisturbed_async(desk_async())] == ["a", "b"]
        left = desk_async()
        await anext(left)
        await left.aclose()
        assert here() == mine

    with provider.get_tracer("the service's own").start_as_current_span("request"):
        mine = here()
        assert list(undisturbed(desk())) == ["a", "b"]
        left = desk()
        next(left)
        left.close()
        assert here() == mine
        asyncio.run(consume())


def test_a_failed_call_is_an_error_on_its_span(traced):
    """Status and type of the error are there for everyone."""
    _, exporter, _ = traced

    @replay.tool
    def failing() -> None:
        raise KeyError("x")

    @replay.agent(name="desk")
    def agent() -> None:
        with pytest.raises(KeyError):
            failing()

    agent()
    span = next(span for span in exporter.get_finished_spans() if span.name == "execute_tool failing")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes["error.type"] == "KeyError"


def test_an_unsampled_run_is_recorded_whole():
    """The service's sampler decides about its spans, not about the recording, and no facts are made for them."""
    with recording(TracerProvider(sampler=ALWAYS_OFF)) as journal:

        @replay.agent(name="desk")
        def agent() -> bool:
            lookup("17")
            return active()[0].observer.wants_facts

        assert agent() is False
    begun, ended = journal.node("lookup")
    assert ended is not None
    assert begun.parent_span_id == journal.of("run_begun")[0].span_id


def test_inline_puts_content_on_the_span():
    """Who asks for it has arguments and result on the span."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with recording(provider, inline=True):
        replay.agent(name="desk")(lambda: lookup("17"))()
    provider.shutdown()
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "execute_tool lookup"]
    assert span.attributes["gen_ai.tool.call.arguments"] == '{"order":"17"}'
    assert span.attributes["gen_ai.tool.call.result"] == '{"order":"17"}'


# --- guards ---


def test_a_journal_that_fails_reaches_no_host_and_is_said_once(journal, caplog):
    """Every method of the recorder keeps its failures to itself."""
    came = []

    @replay.agent(name="desk")
    def agent() -> str:
        observer = active()[0].observer
        observer.lost = came.append
        journal.fails = True
        with replay.step("plan"):
            replay.checkpoint("here", 1, resumable=True)
            lookup("17")
            answered(BODY, b"{}")
        journal.fails = False
        return lookup("18")["order"]

    assert agent() == "18"
    assert {loss.what for loss in came} == {
        "begin of a scope",
        "end of a scope",
        "begin of a crossing",
        "end of a crossing",
    }
    assert [record.levelname for record in caplog.records if "recording the" in record.message] == ["ERROR"]
    assert journal.node("lookup")[1].status == "ok"


def test_a_tracing_library_that_fails_reaches_no_host(journal, caplog):
    """A tracer that raises costs the span and its record, never the call."""

    class Broken(TracerProvider):
        def get_tracer(self, *args, **kwargs):
            return SimpleNamespace(start_span=self._fail)

        @staticmethod
        def _fail(*args, **kwargs):
            raise RuntimeError("no span today")

    with recording(Broken()):
        assert replay.agent(name="desk")(lambda: lookup("17"))() == {"order": "17"}
    assert "no span today" in caplog.text


# --- replays ---


class OneAnswer(WholeAnswer):
    """A tape of one answer. `same`: the recorded request was the one that came."""

    def __init__(self, outcome: Outcome, *, same: bool) -> None:
        self.outcome, self.origin_step, self.same_request = outcome, 4, same

    def answer(self, call, place):
        return self

    def read(self, kind, name, place, strand):
        return None

    def departed(self, call, place, read):
        return ReplayDeparture(step=None, path=place.path, expected="nothing", came="something")

    def settle(self):
        pass

    async def settle_async(self):
        pass

    def done(self):
        pass


def replayed(journal, *, same: bool, calls: int = 1):
    """Replay calls of `lookup` from a tape; return how often was written before the run ended."""
    answer = OneAnswer(Outcome(OutcomeStatus.OK, Payload.of(b'{"order":"17"}', MediaType.VALUE.value)), same=same)
    session = run_factory().open(
        RunRequest("desk"), mode=EXACT, answerers={AnswerSource.TAPE: answer}, origin_run_id=b"o" * 16
    )
    begun = journal.appends
    with session.entered():
        for _ in range(calls):
            assert lookup("17") == {"order": "17"}
    written = journal.appends - begun
    run_factory().close(session, output=None, error=None)
    return written


def test_a_replays_answers_are_written_as_references_to_its_tape(journal):
    """Neither request nor outcome is repeated, and nothing is written for each call."""
    assert replayed(journal, same=True, calls=3) == 0
    for begun, ended in journal.nodes():
        assert (begun.source, begun.origin_step, begun.as_recorded, ended.as_recorded) == ("tape", 4, True, True)
        assert not begun.request_data and not ended.result_data
        assert begun.request_digest and ended.result_digest
    assert [begun.step for begun, _ in journal.nodes()] == [1, 2, 3]
    assert journal.of("run_begun")[0].origin_run_id == b"o" * 16


def test_a_replays_own_request_is_kept_where_it_differs(journal):
    """A request that only says the same as the recorded one is written as it came."""
    replayed(journal, same=False)
    begun, ended = journal.node("lookup")
    assert not begun.as_recorded
    assert begun.request_data == b'{"order":"17"}'
    assert ended.as_recorded


# --- the two ways to the same record ---

ids = st.binary(min_size=8, max_size=8)
numbers = st.integers(0, 2**31)


@given(ids, ids, numbers, numbers, numbers, st.integers(0, 2**63), st.text(max_size=300))
def test_a_joined_record_is_the_one_that_a_message_makes(span, parent, occurrence, step, sequence, now, text):
    """Plain calls are joined from bytes, others go through messages: the same fields come out."""
    records = NodeRecords(b"r" * 16, marks={})
    place = Place.root("desk").child(Kind.TOOL, "lookup")
    place.occurrence, place.step, place.sequence = occurrence, step, sequence
    request = Payload.of(text.encode("utf-8", "surrogatepass"), MediaType.VALUE.value)
    call = Call(Kind.TOOL, "lookup", SideEffect.READ, request)
    crossing = SimpleNamespace(place=place, call=call, answer=None)
    shape = records.shape(place, call, AnswerSource.LIVE)
    joined, _ = records.begun(crossing, shape, (span, parent, parent), now, "", True)
    message, _ = records.begun(crossing, shape, (span, parent, parent), now, "strand", True)
    one, other = wire.Record.FromString(joined), wire.Record.FromString(message)
    assert other.node_begun.strand == "strand"
    other.node_begun.strand = ""
    assert one == other

    outcome = Outcome(OutcomeStatus.OK, request)
    joined, _ = records.ended(crossing, outcome, span, now, sequence, True)
    noted = Outcome(OutcomeStatus.OK, request, notes=("x",))
    message, _ = records.ended(crossing, noted, span, now, sequence, True)
    one, other = wire.Record.FromString(joined), wire.Record.FromString(message)
    del other.node_ended.exchange.result_notes[:]
    other.node_ended.exchange.result_size = 0
    assert one == other
