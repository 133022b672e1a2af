"""What a service's own backend gets: small facts by default, everything with `inline`."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_agent_replay as replay
from otel_agent_replay import semconv
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import anthropic_message, openai_chat, openai_chat_stream

httpx = pytest.importorskip("httpx")

HEAVY = {
    semconv.INPUT_MESSAGES,
    semconv.OUTPUT_MESSAGES,
    semconv.SYSTEM_INSTRUCTIONS,
    semconv.TOOL_DEFINITIONS,
    semconv.TOOL_CALL_ARGUMENTS,
    semconv.TOOL_CALL_RESULT,
    semconv.RETRIEVAL_QUERY,
    semconv.RETRIEVAL_DOCUMENTS,
    semconv.REQUEST_BODY,
    semconv.RESULT_BODY,
}
SECRET = "sk-proj-" + "a1B2c3D4" * 6
TOOLS = [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}]


class Service:
    """A configured process with an in-memory backend; `spans` are what the backend got, by name."""

    def __init__(self, tmp_path, *, sampler=None, **options):
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(**({} if sampler is None else {"sampler": sampler}))
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        replay.configure(tracer_provider=provider, lake=tmp_path / "lake", seal="off", **options)

    @property
    def spans(self):
        return {span.name: dict(span.attributes) for span in self.exporter.get_finished_spans()}


@pytest.fixture
def service(tmp_path):
    yield lambda **options: Service(tmp_path, **options)
    replay.shutdown()


@replay.tool(side_effect="read")
def look_up(order, key="none"):
    return {"order": order, "state": "lost", "key": key}


@replay.retriever
def search(query, limit=3):
    return [{"id": "doc-1", "score": 0.5, "text": f"about {query}"}]


@replay.decision
def route(question):
    return "refunds"


@replay.agent
def support(url, body, secret="none"):
    look_up(17, key=secret)
    search("late parcels")
    route("where is it?")
    with httpx.Client() as client:
        return client.post(url, json=body, headers={"anthropic-version": "2023-06-01"}).status_code


def chat(*, stream=False):
    return {
        "model": "gpt-4o-mini",
        "stream": stream,
        "tools": TOOLS,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where is order 17?"}],
    }


def ask(answer, body, path="/v1/chat/completions", **arguments):
    with ScriptedProvider(lambda request: answer) as server:
        assert support(server.url + path, body, **arguments) == 200


def test_by_default_nothing_heavy_is_on_a_span(service):
    """Without inline no span carries a prompt, an argument or a result, and none of its values is long."""
    backend = service()
    ask(openai_chat("It is lost."), chat())
    assert set(backend.spans) == {
        "invoke_agent support",
        "execute_tool look_up",
        "retrieval search",
        "decision route",
        "chat gpt-4o-mini",
    }
    for attributes in backend.spans.values():
        assert not HEAVY.intersection(attributes)
        assert max(len(str(value)) for value in attributes.values()) <= 64
        assert "order 17" not in str(attributes)


@pytest.mark.parametrize("stream", [False, True])
def test_inline_model_spans_speak_the_conventions(service, stream):
    """A model call's span has its messages, instructions, tools and answer as JSON texts, streamed or not."""
    backend = service(inline=True)
    answer = openai_chat_stream(["It is ", "lost."]) if stream else openai_chat("It is lost.")
    ask(answer, chat(stream=stream))
    span = backend.spans["chat gpt-4o-mini"]
    messages = json.loads(span[semconv.INPUT_MESSAGES])
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["parts"] == [{"type": "text", "content": "Where is order 17?"}]
    (said,) = json.loads(span[semconv.OUTPUT_MESSAGES])
    assert (said["role"], said["finish_reason"]) == ("assistant", "stop")
    assert said["parts"] == [{"type": "text", "content": "It is lost."}]
    assert json.loads(span[semconv.TOOL_DEFINITIONS])[0]["name"] == "refund"
    assert json.loads(span[semconv.REQUEST_BODY]) == chat(stream=stream)
    assert span[semconv.RESULT_BODY] == answer.body.decode()


def test_inline_instructions_that_travel_apart(service):
    """Anthropic's system text is `gen_ai.system_instructions`."""
    backend = service(inline=True)
    body = {
        "model": "claude-test",
        "max_tokens": 9,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "Where?"}],
    }
    ask(anthropic_message("Lost."), body, "/v1/messages")
    span = backend.spans["chat claude-test"]
    assert json.loads(span[semconv.SYSTEM_INSTRUCTIONS]) == [{"type": "text", "content": "Be kind."}]
    assert json.loads(span[semconv.OUTPUT_MESSAGES])[0]["parts"] == [{"type": "text", "content": "Lost."}]


def test_inline_answers_that_came_packed(service):
    """A gzip body's messages are read; the body itself stays the bytes of the wire."""
    import gzip

    backend = service(inline=True)
    plain = openai_chat("It is lost.")
    packed = Reply(
        gzip.compress(plain.body), headers=(("content-type", "application/json"), ("content-encoding", "gzip"))
    )
    ask(packed, chat())
    span = backend.spans["chat gpt-4o-mini"]
    assert json.loads(span[semconv.OUTPUT_MESSAGES])[0]["parts"] == [{"type": "text", "content": "It is lost."}]
    assert span[semconv.RESULT_BODY] == packed.body


def test_inline_of_a_body_that_came_in_parts(service):
    """A stream so long that it is recorded in parts is whole on the span."""
    backend = service(inline=True)
    pieces = [f"{number} " + "x" * 20_000 for number in range(80)]
    ask(openai_chat_stream(pieces), chat(stream=True))
    span = backend.spans["chat gpt-4o-mini"]
    assert json.loads(span[semconv.OUTPUT_MESSAGES])[0]["parts"] == [{"type": "text", "content": "".join(pieces)}]


def test_inline_tools_retrievals_and_decisions(service):
    """Arguments and results are on the spans: under the conventions' names where there are such."""
    backend = service(inline=True)
    ask(openai_chat("It is lost."), chat())
    tool = backend.spans["execute_tool look_up"]
    assert json.loads(tool[semconv.TOOL_CALL_ARGUMENTS]) == {"order": 17, "key": "none"}
    assert json.loads(tool[semconv.TOOL_CALL_RESULT]) == {"order": 17, "state": "lost", "key": "none"}
    retrieval = backend.spans["retrieval search"]
    assert retrieval[semconv.RETRIEVAL_QUERY] == "late parcels"
    assert json.loads(retrieval[semconv.RETRIEVAL_DOCUMENTS])[0]["id"] == "doc-1"
    decision = backend.spans["decision route"]
    assert json.loads(decision[semconv.REQUEST_BODY]) == {"question": "where is it?"}
    assert json.loads(decision[semconv.RESULT_BODY]) == "refunds"
    agent = backend.spans["invoke_agent support"]
    assert json.loads(agent[semconv.REQUEST_BODY])["body"] == chat()
    assert agent[semconv.RESULT_BODY] == "200"


def test_inline_is_redacted(service):
    """A secret in an argument, a prompt and an answer is on no span."""
    backend = service(inline=True)
    body = chat()
    body["messages"][1]["content"] = f"My key is {SECRET}"
    ask(openai_chat(f"Your key is {SECRET}"), body, secret=SECRET)
    assert "Your key is" in backend.spans["chat gpt-4o-mini"][semconv.OUTPUT_MESSAGES]
    assert SECRET not in repr(backend.spans)


def test_inline_of_digests_is_nothing(service):
    """Where only digests are kept, nothing of a payload is on a span either."""
    backend = service(inline=True, capture="digest")
    ask(openai_chat("It is lost."), chat())
    for attributes in backend.spans.values():
        assert not HEAVY.intersection(attributes)


def test_inline_of_a_malformed_exchange_is_its_bytes(service):
    """What no protocol can read is on the span as it came."""
    backend = service(inline=True)
    ask(Reply(b'{"choices": [', headers=(("content-type", "application/json"),)), chat())
    span = backend.spans["chat gpt-4o-mini"]
    assert span[semconv.RESULT_BODY] == '{"choices": ['
    assert json.loads(span[semconv.INPUT_MESSAGES])[0]["role"] == "system"


def test_a_malformed_event_is_told_on_the_live_span_of_its_stream(service):
    """The service's backend learns of an event that cannot be read; of a good stream it is told nothing."""
    good = openai_chat_stream(["It is ", "lost."])
    bad = Reply.of_events(good.body.replace(b"\n\ndata: [DONE]", b"\n\ndata: upstream busy\n\ndata: [DONE]"))
    backend = service()
    ask(good, chat(stream=True))
    assert semconv.MALFORMED not in backend.spans["chat gpt-4o-mini"]
    backend.exporter.clear()
    ask(bad, chat(stream=True))
    span = backend.spans["chat gpt-4o-mini"]
    assert span[semconv.MALFORMED].startswith("event 5 is no JSON object")
    assert span[semconv.RESPONSE_FINISH_REASONS] == ("stop",)


def test_a_run_says_which_tools_it_offered_to_which_model(service, tmp_path):
    """Its versions hold a digest of the tools, which another tool changes and nothing else, and the model."""
    service()
    other = [{"type": "function", "function": {"name": "cancel", "parameters": {"type": "object"}}}]
    for tools in (TOOLS, TOOLS, other):
        ask(openai_chat("It is lost."), {**chat(), "tools": tools})
    replay.shutdown()
    seal(tmp_path / "lake")
    versions = [summary.run.versions for summary in reversed(Lake(tmp_path / "lake").runs())]
    first, second, third = (found.tool_schema for found in versions)
    assert first == second != third
    assert {found.model_route for found in versions} == {"gpt-4o-mini"}


def test_inline_costs_an_unsampled_run_nothing(service, monkeypatch):
    """Where the service's sampler leaves a trace out, no message is put together."""
    from otel_agent_replay.capture import inline

    asked = []
    monkeypatch.setattr(inline.Inline, "ended", lambda *_: asked.append(1) or {})
    backend = service(inline=True, sampler=ALWAYS_OFF)
    ask(openai_chat("It is lost."), chat())
    assert backend.spans == {}
    assert asked == []
