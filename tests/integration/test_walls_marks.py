"""Whatever span a replay emits says that it is one, and of which mode."""

import json

import pytest

from tests.support.agents import Script, assert_same

AGENT = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)

import otel_agent_replay as replay

replay.configure(tracer_provider=provider)
theirs = trace.get_tracer("their.library")

@replay.tool(side_effect="read")
def price(item):
    return 7

@replay.agent
def clerk(question):
    with replay.step("look"):
        with theirs.start_as_current_span("inside"):
            price("lamp")
    return question

with theirs.start_as_current_span("around"):
    clerk("how much?")
json.dump({span.name: dict(span.attributes) for span in memory.get_finished_spans()}, open(sys.argv[1], "w"))
"""
NAMES = {"around", "inside", "invoke_agent clerk", "look", "execute_tool price"}


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marked")
    script = Script(folder, AGENT)
    run = script.record("live.json")["clerk"]
    assert_same(script.replay(run, "replayed.json", allow_write=[folder]))
    return json.loads((folder / "live.json").read_text()), json.loads((folder / "replayed.json").read_text())


def test_every_span_of_a_replay_says_so(lived):
    """Our spans and other instrumentations', in the run and around it, carry the mark and the mode."""
    _, replayed = lived
    assert set(replayed) == NAMES
    for name, attributes in replayed.items():
        assert attributes["agent_replay.replay"] is True, name
        assert attributes["agent_replay.run.mode"] == "exact", name


def test_no_span_of_a_recording_does(lived):
    """Production's own spans are not marked, and other instrumentations' are left as they are."""
    live, _ = lived
    assert set(live) == NAMES
    assert not [name for name, attributes in live.items() if "agent_replay.replay" in attributes]
    assert live["around"] == live["inside"] == {}
