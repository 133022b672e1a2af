"""Recording beside a service's own OpenTelemetry: limits, samplers, exporters, other instrumentations' spans."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent import futures
from pathlib import Path

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, RunStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import anthropic_message, openai_chat
from tests.support.agents import Script, assert_same, nodes_of

TRACED = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
provider = TracerProvider(sampler=ALWAYS_OFF if "unsampled" in sys.argv else ALWAYS_ON)
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
import anthropic
import otel_agent_replay as replay
replay.configure()
tracer = trace.get_tracer("the service's own")

@replay.tool(side_effect="read")
def look_up(order):
    return order

@replay.agent
def support(question):
    many = {f"own.{number}": number for number in range(200)}
    with tracer.start_as_current_span("crowded", attributes=many):
        found = look_up(17)
    with replay.step("crowded step", **{f"step.{number}": number for number in range(200)}):
        with anthropic.Anthropic() as client:
            answer = client.messages.create(
                model="claude-test", max_tokens=9, messages=[{"role": "user", "content": question}]
            )
    return [found, answer.content[0].text]

print(support("where is it?"))
"""


class Traced:
    """The traced script recorded twice, with every span sampled and with none; spans go to a local OTLP server."""

    def __init__(self, folder):
        def serve(request):
            if request.path == "/v1/traces":
                return Reply(b"", headers=(("content-type", "application/x-protobuf"),))
            return anthropic_message("on its way")

        with ScriptedProvider(serve) as server:
            self.script = Script(
                folder,
                TRACED,
                ANTHROPIC_BASE_URL=server.url,
                ANTHROPIC_API_KEY="sk-ant-none",
                OTEL_EXPORTER_OTLP_ENDPOINT=server.url,
            )
            self.sampled = self.script.record(process_run=True)
            self.exported = [request for request in server.seen if request.path == "/v1/traces"]
            self.asked = [request for request in server.seen if request.path != "/v1/traces"]
            server.seen.clear()
            self.unsampled = self.script.record("unsampled", process_run=True)
            self.exported_unsampled = [request for request in server.seen if request.path == "/v1/traces"]


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    pytest.importorskip("anthropic")
    return Traced(tmp_path_factory.mktemp("traced"))


def test_the_anthropic_clients_own_span_is_no_second_model_call(traced):
    """One request to the server is one model exchange, beside the client's own span of the same call."""
    run = traced.sampled["support"]
    assert len(traced.asked) == 1
    (call,) = nodes_of(run, Kind.MODEL)
    assert call.call.attributes[semconv.PROVIDER_NAME] == "anthropic"
    foreign = [span.span for span in run.spans if span.node is None]
    own = [span for span in foreign if span.scope.name.startswith("com.anthropic")]
    assert len(own) == 1
    ours = next(span.span for span in run.spans if span.node is call)
    assert ours.parent_span_id == own[0].span_id
    with connect(traced.script.lake) as connection:
        counted = connection.execute(
            "SELECT count(*) FROM model_calls WHERE run_id = ?", [run.run.run_id.hex()]
        ).fetchone()
    assert counted == (1,)


def test_more_than_128_attributes_on_a_span_lose_nothing_of_ours(traced):
    """The SDK cuts the service's span, and says so; the step's own attributes are in the lake, all of them."""
    run = traced.sampled["support"]
    crowded = next(span.span for span in run.spans if span.span.name == "crowded")
    assert len(crowded.attributes) == 128
    assert crowded.dropped_attributes == 72
    step = next(span for span in run.spans if span.node is not None and span.node.name == "crowded step")
    assert sum(name.startswith("step.") for name in step.span.attributes) == 200
    (tool,) = nodes_of(run, Kind.TOOL)
    assert tool.step == 1


def test_an_exporters_traffic_is_not_recorded(traced):
    """Spans that are exported over HTTP in the middle of a run are no exchanges of the run, nor of the process."""
    assert len(traced.exported) >= 5
    for run in traced.sampled.values():
        assert nodes_of(run, Kind.HTTP) == []


def test_a_run_that_is_not_sampled_is_recorded_whole(traced):
    """With the service's sampler off nothing is exported, and the run holds the same nodes, answers and reads."""
    assert traced.exported_unsampled == []
    sampled, unsampled = traced.sampled["support"], traced.unsampled["support"]
    assert unsampled.run.status is RunStatus.OK
    assert [node.path for node in unsampled.nodes] == [node.path for node in sampled.nodes]
    assert [node.outcome and node.outcome.result for node in unsampled.nodes] == [
        node.outcome and node.outcome.result for node in sampled.nodes
    ]
    verdict = traced.script.replay(unsampled, process_run=True)  # with spans sampled and a backend that is gone
    assert_same(verdict)
    assert verdict.attempts == ()


HUGE = """
import os
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=os.environ["COLLECTOR"], insecure=True)))
trace.set_tracer_provider(provider)
import httpx
import otel_agent_replay as replay
replay.configure()
tracer = trace.get_tracer("the service's own")

@replay.agent
def reader(words):
    prompt = "word " * words
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    answer = httpx.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()
    return answer["choices"][0]["message"]["content"]

for number in range(10):
    with tracer.start_as_current_span(f"small {number}"):
        pass
print(reader(1_000_000))
provider.shutdown()
"""


class Collector:
    """A gRPC trace receiver on 127.0.0.1 with the default limit of 4 MiB a message."""

    def __init__(self):
        import grpc
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as stubs

        class Receiver(stubs.TraceServiceServicer):
            def Export(receiver, request, context):
                with self.lock:
                    for resource in request.resource_spans:
                        for scope in resource.scope_spans:
                            self.names += [span.name for span in scope.spans]
                return service.ExportTraceServiceResponse()

        self.lock = threading.Lock()
        self.names = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        stubs.add_TraceServiceServicer_to_server(Receiver(), self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def stop(self):
        self.server.stop(None).wait(10)


def test_a_prompt_of_5_mb_does_not_break_the_services_batch(tmp_path):
    """Beside a gRPC exporter that may send 4 MiB, a 5 MB prompt is in the lake and every span reaches the collector."""
    pytest.importorskip("grpc")
    pytest.importorskip("httpx")
    collector = Collector()
    try:
        with ScriptedProvider([openai_chat("read it")]) as server:
            script = Script(tmp_path, HUGE, SERVER=server.url, COLLECTOR=f"http://127.0.0.1:{collector.port}")
            run = script.record()["reader"]
    finally:
        collector.stop()
    assert sorted(name for name in collector.names if name.startswith("small")) == [f"small {n}" for n in range(10)]
    assert {"chat m", "invoke_agent reader"} <= set(collector.names)
    (call,) = nodes_of(run, Kind.MODEL)
    assert len(run.payload(call.call.request.digest)) > 5_000_000


ZERO_CODE = """
import os, sys
from opentelemetry import trace
tracer = trace.get_tracer("the service's own")
import httpx

if "script" not in sys.argv:
    with tracer.start_as_current_span("GET /health"):
        httpx.get(os.environ["SERVER"] + "/health")
if "plain" not in sys.argv:
    import openai
    with tracer.start_as_current_span("POST /ask"):
        if "script" not in sys.argv:
            httpx.get(os.environ["SERVER"] + "/before")
        with openai.OpenAI() as client:
            answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        httpx.get(os.environ["SERVER"] + "/after")
        print(answer.choices[0].message.content)
if "decorated" in sys.argv:
    import otel_agent_replay as replay
    replay.agent(lambda: 17, name="declared")()
"""


INSTRUMENT = str(Path(sys.executable).parent / "opentelemetry-instrument")


def zero_code(folder, *arguments, **environment):
    """Run the undecorated service under `opentelemetry-instrument`; return its script, and what it printed."""
    pytest.importorskip("httpx")
    with ScriptedProvider(
        lambda request: openai_chat("good day") if request.path.endswith("completions") else Reply(b"{}")
    ) as server:
        script = Script(folder, ZERO_CODE, SERVER=server.url, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="sk-x")
        done = subprocess.run(
            [INSTRUMENT, *script.argv, *arguments],
            env={
                **script.environment,
                "AGENT_REPLAY_LAKE": str(script.lake),
                "AGENT_REPLAY_SEAL": "off",
                "OTEL_METRICS_EXPORTER": "none",
                "OTEL_LOGS_EXPORTER": "none",
                **environment,
            },
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    script.seal()
    return script, done.stdout, done.stderr


def test_an_undecorated_service_is_recorded_with_no_exporter(tmp_path):
    """Zero code, `OTEL_TRACES_EXPORTER=none`: the trace that calls a model is a run, the one that does not is none."""
    pytest.importorskip("openai")
    script, printed, _ = zero_code(tmp_path, OTEL_TRACES_EXPORTER="none")
    assert printed == "good day\n"
    (run,) = [script.load(one) for one in script.runs()]
    assert run.run.agent == "POST /ask"
    assert run.run.status is RunStatus.OK
    assert len(nodes_of(run, Kind.MODEL)) == 1
    assert [node.name.rpartition("/")[2] for node in nodes_of(run, Kind.HTTP)] == ["after"]


def test_an_undecorated_script_replays_beside_an_exporter_whose_backend_is_gone(tmp_path):
    """The run of a trace replays by the instrumented command; the gRPC exporter there does not hold up its end."""
    pytest.importorskip("openai")
    pytest.importorskip("grpc")
    script, _, _ = zero_code(tmp_path, "script", OTEL_TRACES_EXPORTER="none")
    (run,) = [script.load(one) for one in script.runs()]
    verdict = script.replay(
        run,
        command=[INSTRUMENT, *script.argv, "script"],
        environment={"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "none"},
    )
    assert_same(verdict)
    assert verdict.child_exit == 0


def test_a_disabled_sdk_breaks_nothing(tmp_path):
    """Under `OTEL_SDK_DISABLED=true` the service runs as ever, and a declared agent is recorded all the same."""
    pytest.importorskip("openai")
    script, printed, said = zero_code(tmp_path, "decorated", OTEL_SDK_DISABLED="true", OTEL_TRACES_EXPORTER="none")
    assert printed == "good day\n"
    assert "Traceback" not in said
    assert [run.agent for run in script.runs()] == ["declared"]


def test_a_plain_services_spans_go_to_the_lake(tmp_path):
    """`OTEL_TRACES_EXPORTER=agent_replay`: a service without any agent keeps its spans in the lake, and no run."""
    script, _, said = zero_code(tmp_path, "plain", OTEL_TRACES_EXPORTER="agent_replay", OTEL_SERVICE_NAME="shop")
    assert "Traceback" not in said
    assert script.runs() == []
    with connect(script.lake) as connection:
        rows = connection.execute("SELECT name, service FROM spans").fetchall()
    assert rows == [("GET /health", "shop")]
