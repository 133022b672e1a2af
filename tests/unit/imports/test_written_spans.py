"""Spans that released instrumentations wrote of the same three questions: each call counts once and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.foreign_trace import run_of_spans
from otel_agent_replay.model import Fidelity, Kind, RecordedRun, RecordedSpan
from otel_agent_replay.otlp.facts import without_facts
from otel_agent_replay.protocols import PROTOCOLS
from tests.support.foreign_spans import told

SPANS = Path(__file__).parent / "spans"
BRIEF = ("system", "Be brief.", [])
QUESTION = ("user", "Weather in Oslo?", [])
CALL = ("assistant", "", [("weather", {"city": "Oslo"})])
RESULT = ("tool", "7 degrees", [])
ANSWER = ("assistant", "It is 7 degrees.", [])
ASKED = [[BRIEF, QUESTION], [BRIEF, QUESTION, CALL, RESULT], [BRIEF, QUESTION]]
MADE = [[CALL], [ANSWER], [ANSWER]]
ASKED_AS_WRITTEN = {"openlit": [ASKED[0], [BRIEF, QUESTION, RESULT], ASKED[2]]}
"""OpenLIT leaves out of a request what has no text: the assistant's message that calls the tool."""
OPENAI = {
    "openinference": ("openinference", Fidelity.EXCHANGE),
    "openllmetry": ("openllmetry", Fidelity.MESSAGES),
    "genai": ("otel_genai", Fidelity.MESSAGES),
    "langfuse": ("langfuse", Fidelity.MESSAGES),
    "langsmith": ("langsmith", Fidelity.EXCHANGE),
    "logfire": ("logfire", Fidelity.MESSAGES),
    "mlflow": ("mlflow", Fidelity.EXCHANGE),
    "openlit": ("openlit", Fidelity.MESSAGES),
    "both": ("openinference", Fidelity.EXCHANGE),
}


def run_of(name: str) -> RecordedRun:
    return run_of_spans(read_spans(SPANS / f"{name}.otlp.json").spans)


def models(run: RecordedRun) -> list[RecordedSpan]:
    return [span for span in run.spans if span.node is not None and span.node.kind is Kind.MODEL]


def said(span: RecordedSpan) -> tuple[list, list]:
    node = span.node
    protocol = PROTOCOLS[span.span.attributes[semconv.PROTOCOL]]
    request = protocol.request_messages(node.call.request.data)
    system = [{"role": "system", "parts": request.system}] if request.system else []
    answer = protocol.fold(node.outcome.result.data, "application/json", 200)
    return [told(one) for one in [*system, *request.messages]], [told(one) for one in answer.output_messages]


@pytest.mark.parametrize("name", sorted(OPENAI))
def test_three_calls_say_the_same_whoever_wrote_them_down(name):
    """Messages, models, tokens and costs of three calls are the same by nine instrumentations, two of them at once."""
    calls = models(run_of(name))
    assert [said(call) for call in calls] == list(zip(ASKED_AS_WRITTEN.get(name, ASKED), MADE, strict=True))
    dialect, fidelity = OPENAI[name]
    for call, tokens in zip(calls, [(20, 7), (20, 7), (30, 6)], strict=True):
        facts = call.span.attributes
        assert (facts[semconv.IMPORT_DIALECT], call.node.fidelity) == (dialect, fidelity)
        assert facts[semconv.REQUEST_MODEL] == ("gpt-4o-2024-08-06" if name == "langfuse" else "gpt-4o")
        assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == tokens
        assert facts[semconv.COST_USD] == pytest.approx((2.5 * tokens[0] + 10 * tokens[1]) / 1e6)
    assert [call.node.step for call in calls] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "again"),
    [("both", {"openai.chat"}), ("anthropic_both", {"anthropic.messages.create"}), ("logfire", None), ("genai", set())],
)
def test_what_tells_a_call_again_stays_and_is_marked(name, again):
    """The other spans of a call are scopes that name the span that counts; none is lost."""
    spans = read_spans(SPANS / f"{name}.otlp.json").spans
    run = run_of_spans(spans)
    counted = {span.span.span_id.hex() for span in models(run)}
    marked = [span for span in run.spans if semconv.IMPORT_SAME_CALL in span.span.attributes]
    assert {span.span.span_id for span in run.spans} == {span.span_id for span in spans}
    assert all(set(span.span.attributes[semconv.IMPORT_SAME_CALL]) <= counted for span in marked)
    assert all(span.node.kind is Kind.SCOPE for span in marked)
    if again is not None:
        assert {span.span.name for span in marked} == again
    else:  # the stream's end, a log of its own
        assert [span.span.attributes["logfire.span_type"] for span in marked] == ["log"]
        assert marked[0].span.attributes[semconv.IMPORT_SAME_CALL] == (models(run)[2].span.span_id.hex(),)


def test_a_streams_end_gives_its_answer_to_the_span_that_began():
    """Logfire's request span of a stream has no answer: it learns it from the log at the stream's end."""
    stream = models(run_of("logfire"))[2]
    assert stream.span.attributes["logfire.span_type"] == "span"
    assert said(stream) == (ASKED[2], MADE[2])


def test_an_agent_with_its_tool():
    """Pydantic AI's agent is the run, its two calls and its tool are steps; the agent's own messages count nothing."""
    run = run_of("pydantic_ai")
    steps = [(span.node.kind, span.node.name) for span in run.spans if span.node.step]
    assert steps == [(Kind.MODEL, "chat gpt-4o"), (Kind.TOOL, "weather"), (Kind.MODEL, "chat gpt-4o")]
    assert run.run.agent == "support"
    assert run.run.thread_id
    assert [span.node.call.request.data for span in run.spans if span.node.kind is Kind.TOOL] == [b'{"city":"Oslo"}']


def test_langsmiths_session_is_the_thread():
    """A session among LangSmith's metadata is the thread of the run."""
    assert run_of("langsmith").run.thread_id == "s-1"


@pytest.mark.parametrize("path", sorted(SPANS.glob("*.otlp.json")), ids=lambda path: path.name.split(".")[0])
def test_what_was_found_out_can_be_taken_off_again(path):
    """Facts that an import adds to a span leave no trace when they are taken off."""
    spans = {span.span_id: span for span in read_spans(path).spans}
    for span in run_of_spans(list(spans.values())).spans:
        assert without_facts(span.span) == spans[span.span.span_id]


def test_the_files_are_small_and_name_no_machine():
    """The recordings hold nothing of where they were made."""
    for path in SPANS.glob("*.json"):
        text = path.read_text()
        assert json.loads(text)["resourceSpans"]
        assert "/root" not in text
        assert "host.name" not in text
