"""One trace for two audiences: the service's own backend and the lake name the same spans, whatever the service traces.

What the backend gets is seen in an in-memory exporter, what the lake holds after sealing.
"""

from __future__ import annotations

import contextvars
import json
import threading

import pytest
from click.testing import CliRunner
from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, SpanContext, TraceFlags

import otel_agent_replay as replay
from otel_agent_replay.cli.main import main
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, RunStatus
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat
from tests.support.agents import Script, nodes_of

httpx = pytest.importorskip("httpx")
OUR_NAMES = {"invoke_agent support", "execute_tool look_up", "chat m"}


class Service:
    """A configured process and its backend; `exported` are the spans that the backend got."""

    def __init__(self, tmp_path, provider=None, *, sampler=None):
        self.lake = tmp_path / "lake"
        self.exporter = InMemorySpanExporter()
        self.provider = provider or TracerProvider(**({} if sampler is None else {"sampler": sampler}))
        if isinstance(self.provider, TracerProvider):
            self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        replay.configure(tracer_provider=self.provider, lake=self.lake, seal="off")
        self.tracer = self.provider.get_tracer("the service's own")

    @property
    def exported(self):
        return self.exporter.get_finished_spans()

    def named(self, name):
        (span,) = [span for span in self.exported if span.name == name]
        return span

    def runs(self):
        """Seal, and return the runs in the order they began."""
        assert seal(self.lake).open_segments == 0
        lake = Lake(self.lake)
        return [lake.load(summary.run.run_id) for summary in reversed(lake.runs())]


@pytest.fixture
def service(tmp_path):
    yield lambda *arguments, **options: Service(tmp_path, *arguments, **options)
    replay.shutdown()


@pytest.fixture
def provider_url():
    with ScriptedProvider(lambda request: openai_chat("on its way")) as server:
        yield server.url


def ask(url):
    body = {"model": "m", "messages": [{"role": "user", "content": "where?"}]}
    with httpx.Client() as client:
        return client.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]


@replay.tool(side_effect="read")
def look_up(order):
    return order * 2


@replay.agent
def support(url):
    return [look_up(17), ask(url), trace.get_current_span().get_span_context()]


def ids(span):
    return span.context.trace_id.to_bytes(16, "big"), span.context.span_id.to_bytes(8, "big")


def parent_id(span):
    return b"" if span.parent is None else span.parent.span_id.to_bytes(8, "big")


def test_both_sides_name_the_same_spans(service, provider_url):
    """Every span of ours has the same trace id, span id and parent at the backend and in the lake."""
    here = service()
    support(provider_url)
    assert {span.name for span in here.exported} == OUR_NAMES
    (run,) = here.runs()
    in_lake = {(span.span.trace_id, span.span.span_id): span.span for span in run.spans}
    assert set(in_lake) == {ids(span) for span in here.exported}
    for span in here.exported:
        kept = in_lake[ids(span)]
        assert (kept.name, kept.parent_span_id) == (span.name, parent_id(span))
        assert kept.start_ns == span.start_time
        assert kept.end_ns == span.end_time


def test_show_finds_the_run_by_the_backends_trace_id(service, provider_url):
    """The trace id that a backend shows is all that `agent-replay show` needs."""
    here = service()
    support(provider_url)
    replay.shutdown()
    (trace_id,) = {f"{span.context.trace_id:032x}" for span in here.exported}
    environment = {"AGENT_REPLAY_LAKE": str(here.lake)}
    shown = CliRunner().invoke(main, ["show", trace_id, "--json"], env=environment)
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert trace_id in json.dumps(document)
    assert CliRunner().invoke(main, ["show", trace_id[:12]], env=environment).exit_code == 0


def test_a_sampler_that_is_off_leaves_the_run_whole(service, provider_url):
    """The backend gets nothing; the lake has all of it, under the ids that the unsampled spans have."""
    here = service(sampler=ALWAYS_OFF)
    _, _, context = support(provider_url)
    assert here.exported == ()
    (run,) = here.runs()
    assert {span.span.name for span in run.spans} == OUR_NAMES
    assert run.run.trace_id == context.trace_id.to_bytes(16, "big")
    assert run.run.root_span_id == context.span_id.to_bytes(8, "big")
    root = next(span for span in run.spans if span.node is not None and span.node.kind is Kind.RUN)
    assert root.span.flags & TraceFlags.SAMPLED == 0


def test_a_ratio_samples_traces_not_runs(service, provider_url):
    """With a ratio some traces reach the backend, each whole; the lake has every run, each whole."""
    here = service(sampler=ParentBased(TraceIdRatioBased(0.5)))
    for _ in range(30):
        support(provider_url)
    runs = here.runs()
    assert len(runs) == 30
    assert all({span.span.name for span in run.spans} == OUR_NAMES for run in runs)
    exported = {}
    for span in here.exported:
        exported.setdefault(span.context.trace_id.to_bytes(16, "big"), set()).add(span.name)
    assert 0 < len(exported) < 30
    assert all(names == OUR_NAMES for names in exported.values())
    assert set(exported) < {run.run.trace_id for run in runs}


def test_a_provider_that_does_nothing(service, provider_url):
    """Under a NoOp provider the run is recorded under ids of its own, a tree that hangs together."""
    here = service(NoOpTracerProvider())
    support(provider_url)
    support(provider_url)
    one, other = here.runs()
    assert one.run.trace_id != other.run.trace_id
    assert any(one.run.trace_id)
    for run in (one, other):
        assert {span.span.name for span in run.spans} == OUR_NAMES
        by_id = {span.span.span_id: span.span for span in run.spans}
        roots = [span for span in by_id.values() if not span.parent_span_id]
        assert [span.name for span in roots] == ["invoke_agent support"]
        assert all(span.parent_span_id in by_id for span in by_id.values() if span is not roots[0])


def test_a_callers_trace_is_joined_even_without_tracing_here(service, provider_url):
    """A service that only passes a trace on (NoOp, a remote parent) is found by the caller's trace id."""
    here = service(NoOpTracerProvider())
    caller = SpanContext(0xABC << 100, 0x123, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    token = attach(trace.set_span_in_context(NonRecordingSpan(caller)))
    try:
        support(provider_url)
    finally:
        detach(token)
    (run,) = here.runs()
    assert run.run.trace_id == caller.trace_id.to_bytes(16, "big")
    root = next(span.span for span in run.spans if span.node is not None and span.node.kind is Kind.RUN)
    assert root.parent_span_id == caller.span_id.to_bytes(8, "big")
    assert Lake(here.lake).find(f"{caller.trace_id:032x}") == run.run.run_id


def test_parents_across_foreign_spans(service, provider_url):
    """Server span > agent > foreign span > model call: parents are right on both sides, the node tree is ours."""
    here = service()

    @replay.agent(name="support")
    def agent(url):
        with here.tracer.start_as_current_span("plan", attributes={"plan.size": 3}):
            return ask(url)

    with here.tracer.start_as_current_span("POST /ask") as server:
        agent(provider_url)
    root, plan, call = (here.named(name) for name in ("invoke_agent support", "plan", "chat m"))
    assert root.parent.span_id == server.get_span_context().span_id
    assert plan.parent.span_id == root.context.span_id
    assert call.parent.span_id == plan.context.span_id
    (run,) = here.runs()
    in_lake = {span.span.name: span for span in run.spans}
    assert set(in_lake) == {"invoke_agent support", "plan", "chat m"}  # the server's span is not the run's
    for name, span in (("invoke_agent support", root), ("plan", plan), ("chat m", call)):
        assert (in_lake[name].span.trace_id, in_lake[name].span.span_id) == ids(span)
        assert in_lake[name].span.parent_span_id == parent_id(span)
    assert in_lake["plan"].node is None
    assert in_lake["plan"].span.attributes["plan.size"] == 3
    (node,) = nodes_of(run, Kind.MODEL)
    assert node.path[:-1] == ("run:support#0",)
    with connect(here.lake) as connection:
        rows = connection.execute("SELECT name FROM spans WHERE run_id = ? ORDER BY name", [run.run.run_id.hex()])
        assert rows.fetchall() == [("chat m",), ("invoke_agent support",), ("plan",)]


def test_spans_of_a_thread_that_knows_ids_only(service):
    """Below an open span of ours a foreign span belongs to its run, also in a thread that was given ids only."""
    here = service()

    def elsewhere(name, context):
        remote = NonRecordingSpan(SpanContext(context.trace_id, context.span_id, True, TraceFlags(1)))
        here.tracer.start_span(name, trace.set_span_in_context(remote)).end()

    def go(name):
        worker = threading.Thread(target=contextvars.Context().run, args=(elsewhere, name, current()))
        worker.start()
        worker.join()

    def current():
        return trace.get_current_span().get_span_context()

    @replay.tool(side_effect="read")
    def look_up(order):
        go("in a tool")
        return order

    ended = []

    @replay.agent(name="support")
    def support(order):
        with replay.step("plan"):
            go("in a step")
        go("in the agent")
        ended.append(current())
        return look_up(order)

    support("A7")
    elsewhere("after the run", ended[0])
    (run,) = here.runs()
    assert {span.span.name for span in run.spans if span.node is None} == {"in a tool", "in a step", "in the agent"}


def test_two_runs_of_one_request(service, provider_url):
    """Two agents in one trace are two runs below one server span; a span between them is neither's."""
    here = service()
    with here.tracer.start_as_current_span("POST /ask"):
        support(provider_url)
        with here.tracer.start_as_current_span("between"):
            pass
        support(provider_url)
    one, other = here.runs()
    assert one.run.trace_id == other.run.trace_id
    assert one.run.run_id != other.run.run_id
    assert {span.span.name for run in (one, other) for span in run.spans} == OUR_NAMES
    shown = CliRunner().invoke(main, ["show", one.run.trace_id.hex()], env={"AGENT_REPLAY_LAKE": str(here.lake)})
    assert shown.exit_code != 0
    assert one.run.run_id.hex() in shown.output
    assert other.run.run_id.hex() in shown.output


def test_another_configuration_on_the_same_provider(tmp_path, service, provider_url):
    """After shutdown and a new configure, a foreign span lies in the new lake, and nothing in the old one."""
    first = service()
    replay.shutdown()
    second = Service(tmp_path / "second", first.provider)

    @replay.agent(name="support")
    def agent():
        with second.tracer.start_as_current_span("plan"):
            return 1

    agent()
    replay.shutdown()
    (run,) = second.runs()
    assert sorted(span.span.name for span in run.spans) == ["invoke_agent support", "plan"]
    assert not (first.lake / "journal").exists()


def test_a_second_provider_is_refused_loudly(service):
    """Being told of another provider than the first is an error in code, not a silent choice."""
    here = service()
    assert replay.configure(tracer_provider=here.provider) is replay.configure()
    with pytest.raises(replay.ConfigurationError, match="tracer provider"):
        replay.configure(tracer_provider=TracerProvider())


LATE_PROVIDER = """
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    with tracer.start_as_current_span("SELECT"):
        return order * 2

@replay.agent
def support():
    return look_up(17)

import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

tracer = trace.get_tracer("the service's own")
support()  # before there is any provider
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
support()
replay.configure()  # and once more, as frameworks do
support()
spans = exporter.get_finished_spans()
print(json.dumps([[s.name, f"{s.context.trace_id:032x}", f"{s.context.span_id:016x}"] for s in spans]))
"""


def test_a_provider_set_after_configure(tmp_path):
    """Runs before the service's tracing is up have ids of their own; those after share its, foreign spans too."""
    script = Script(tmp_path, LATE_PROVIDER)
    ended = script.run()
    exported = json.loads(ended.stdout)
    assert [name for name, _, _ in exported] == ["SELECT", "execute_tool look_up", "invoke_agent support"] * 2
    script.seal()
    before, *after = [script.load(run) for run in script.runs()]
    assert {span.span.name for span in before.spans} == {"execute_tool look_up", "invoke_agent support"}
    for number, run in enumerate(after):
        in_lake = {(s.span.name, s.span.trace_id.hex(), s.span.span_id.hex()) for s in run.spans}
        assert in_lake == {tuple(span) for span in exported[3 * number : 3 * number + 3]}
        assert len(run.spans) == 3  # no span twice
        assert run.run.status is RunStatus.OK


TWO_PROVIDERS = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

def provider():
    exporter = InMemorySpanExporter()
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made, exporter

of_service, service_exporter = provider()
of_agents, agents_exporter = provider()
trace.set_tracer_provider(of_service)
import otel_agent_replay as replay
replay.configure(tracer_provider=of_agents)
tracer = trace.get_tracer("the service's own")

@replay.tool(side_effect="read")
def look_up(order):
    with tracer.start_as_current_span("SELECT"):
        return order * 2

@replay.agent
def support():
    with of_agents.get_tracer("a judge").start_as_current_span("judge"):
        return look_up(17)

with tracer.start_as_current_span("POST /ask"):
    support()
def told(exporter):
    return [
        [s.name, f"{s.context.span_id:016x}", f"{s.parent.span_id:016x}" if s.parent else ""]
        for s in exporter.get_finished_spans()
    ]
print(json.dumps([told(service_exporter), told(agents_exporter)]))
"""


def test_two_providers(tmp_path):
    """Our spans go to the provider we were given; the run has foreign spans of both, each once."""
    script = Script(tmp_path, TWO_PROVIDERS)
    of_service, of_agents = json.loads(script.run().stdout)
    assert [name for name, _, _ in of_service] == ["SELECT", "POST /ask"]
    assert [name for name, _, _ in of_agents] == ["execute_tool look_up", "judge", "invoke_agent support"]
    script.seal()
    (run,) = [script.load(one) for one in script.runs()]
    in_lake = sorted([s.span.name, s.span.span_id.hex(), s.span.parent_span_id.hex()] for s in run.spans)
    assert in_lake == sorted([of_service[0], *of_agents])
    assert of_service[0][2] == of_agents[0][1]  # SELECT hangs below the tool of the other provider
