"""Trace files that others published: each imports, and what it says of messages is what their own reader says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import read_file
from otel_agent_replay.imports.landing import land
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind
from tests.support.foreign_spans import facts, messages_of, told
from tests.support.recordings import data_folder

FOLDER = data_folder()
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(FOLDER is None, reason="recordings of others are absent: set OTEL_AGENT_REPLAY_DATA"),
]
DATA = FOLDER or Path()
PATTERNS = (
    "langfuse/*.trace.json",
    "openinference/spans-vercel/a*.json",
    "opentelemetry-proto/trace.json",
    "otlp2parquet/trace*",
    "otlp2parquet/parquet/*",
    "duckdb-otlp/*trace*",
    "jaeger/*trace*.json",
    "jaeger/otlp2jaeger-*.json",
)
TRACES = sorted(path for pattern in PATTERNS for path in DATA.glob(pattern))
REFUSED = {
    "jaeger/trace_empty.json": "is empty",
    "jaeger/trace_invalid_json.json": "in no format",
    "jaeger/trace_scan_error.json": "in no format",
    "jaeger/trace_wrong_format.json": "in no format",
    "duckdb-otlp/multifile_malformed_traces.jsonl": "no OTLP JSON",
}
"""Files that are broken on purpose."""
SPAN_COUNTS = {
    "langfuse/agno-2025-06-11.trace.json": 6,
    "langfuse/langgraph-js-2025-10-30.trace.json": 20,
    "openinference/spans-vercel/all-spans.json": 10,
    "otlp2parquet/parquet/traces.parquet": 19,
    "jaeger/otlp2jaeger-out.json": 1,
}


def named(path: Path) -> str:
    return str(path.relative_to(DATA))


@pytest.mark.parametrize("path", TRACES, ids=named)
def test_every_trace_file_imports(path, tmp_path):
    """A file of spans becomes runs in which every span is a row; one that is broken on purpose is refused by name."""
    if named(path) in REFUSED:
        with pytest.raises(DamagedRecording, match=REFUSED[named(path)]):
            list(read_file(path).spans)
        return
    found = read_file(path)
    spans = list(found.spans)
    landed = land(tmp_path / "lake", spans, source=str(path))
    ids = {(span.trace_id, span.span_id) for span in spans}
    assert landed.span_count == len(ids) == SPAN_COUNTS.get(named(path), len(ids)) > 0
    stored = [
        run for summary in Lake(tmp_path / "lake").runs() for run in [Lake(tmp_path / "lake").load(summary.run.run_id)]
    ]
    assert {(item.span.trace_id, item.span.span_id) for run in stored for item in run.spans} == ids


# --- the normalised message lists beside Langfuse's traces ---

LANGFUSE = sorted(DATA.glob("langfuse/*.trace.json"))
WITHOUT_TRACE = {"beeai-2025-08-01", "csharp-agent-with-gemini-2026-03-09"}
SPLITS = "one message holds three results, of which the list makes three messages"
ONLY_TOOLS = "the list has the tools that were offered and no message: the input is texts of Python's objects"
NO_MESSAGE = "the list leaves the choice as it stands, without a message"
INSTRUCTIONS = "the instructions lie in the span's own attributes, which the list does not look at"
TOOL_ROLE = "OpenInference's attributes say that a tool answered, the request's JSON says the user"
JOINED = "the view has one row for an answer, of which there are two messages here"
TOLD_AGAIN = "`doGenerate` tells the same call, and that one counts"
DIFFERENCES = {
    ("agno-2025-06-11", "b38a82eaa62b551e", "input"): ONLY_TOOLS,
    ("agno-2025-06-11", "ca136de468e156c9", "input"): ONLY_TOOLS,
    ("google-adk-2025-08-28", "bded677884f031ce", "input"): TOOL_ROLE,
    ("koog-2025-08-26", "042f9350c3729147", "output"): JOINED,
    ("openai-agents-2025-09-30", "90d94774e8e3724d", "input"): INSTRUCTIONS,
    ("openai-agents-2025-09-30", "98870087af69bf06", "input"): INSTRUCTIONS,
    ("pydantic-ai-2025-06-06", "5cb389a3bdd21a6e", "output"): NO_MESSAGE,
    ("pydantic-ai-tools-2025-06-06", "5cb389a3bdd21a6e", "output"): NO_MESSAGE,
    ("pydantic-ai-tools-2025-12-04", "00d2804abb764b1b", "input"): SPLITS,
    ("pydantic-ai-tools-2025-12-04", "8976b072313c51f2", "input"): SPLITS,
    ("vercel-aisdk-2025-11-17", "1dc6768109615657", "output"): TOLD_AGAIN,
}
"""(trace, observation, side) -> why the list says something else than the view."""
COMPARED = 54
"""Sides of model calls for which there is a list."""


def theirs(data: list[dict[str, Any]]) -> list[tuple[str, str, list[Any]]]:
    """Their list, short: role, text, calls."""
    return [short(one) for one in data]


def short(message: dict[str, Any]) -> tuple[str, str, list[Any]]:
    content, calls = message.get("content") or "", list(message.get("tool_calls") or ())
    if isinstance(content, list):
        calls += [{"name": part["name"], "arguments": part["input"]} for part in content if part["type"] == "tool_use"]
        content = "".join(part["text"] for part in content if part["type"] == "text")
    role = {"model": "assistant", None: ""}.get(message.get("role"), message.get("role"))
    return str(role), content, [(call["name"], arguments(call["arguments"])) for call in calls]


def arguments(given: Any) -> Any:
    return json.loads(given or "{}") if isinstance(given, str) else given


def ours(lake: Any) -> dict[tuple[str, str], list[tuple[str, str, list[Any]]]]:
    """What the view says of each span, by span and side."""
    found: dict[tuple[str, str], list[tuple[str, str, list[Any]]]] = {}
    rows = lake.execute(
        "SELECT span_id, direction, role, text, tool_calls FROM messages ORDER BY span_id, direction, position"
    ).fetchall()
    for span_id, direction, role, text, calls in rows:
        made = [(call["name"], arguments(call["arguments"])) for call in json.loads(calls or "[]")]
        found.setdefault((span_id, direction), []).append((role, text or "", made))
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Any:
    """All of Langfuse's traces in one lake, as SQL."""
    folder = tmp_path_factory.mktemp("lake")
    for path in LANGFUSE:
        land(folder, list(read_file(path).spans), source=path.name)
    with connect(folder) as connection:
        yield connection


@pytest.fixture(scope="module")
def compared(lake) -> dict[tuple[str, str, str], tuple[Any, Any]]:
    """Of each side of a model call for which there is a list: what the list says, and what our view says."""
    view, found = ours(lake), {}
    for path in LANGFUSE:
        name = path.name.partition(".")[0]
        lists = json.loads(path.with_name(f"{name}.chatml.json").read_text())
        for item in json.loads(path.read_text())["observations"]:
            if item["type"] != "GENERATION":
                continue
            for side in ("input", "output"):
                listed = lists.get(item["id"], {}).get(side) or {}
                if listed.get("success"):
                    found[name, item["id"], side] = theirs(listed["data"]), view.get((item["id"], side), [])
    return found


def test_messages_are_those_of_the_normalised_lists(compared):
    """Role, text and tool calls of each message are as in the list beside the trace, but where a reason is known."""
    assert len(compared) == COMPARED
    assert {place for place, (listed, seen) in compared.items() if listed != seen} == set(DIFFERENCES)


def test_messages_that_a_list_splits_say_the_same(compared):
    """Where the list makes several messages of one, the words in order are the same."""
    for place, reason in DIFFERENCES.items():
        if reason in (SPLITS, JOINED):
            listed, seen = compared[place]
            between = "\n" if reason is SPLITS else ""
            tools = [text for role, text, _ in listed if role == "tool"]
            joined = between.join(tools) if reason is SPLITS else between.join(text for _, text, _ in listed)
            assert joined in {text for _, text, _ in seen}


def test_every_list_has_a_trace_or_is_known_to_have_none():
    """Two of the twenty lists have no trace beside them; all others are compared."""
    lists = {path.name.partition(".")[0] for path in DATA.glob("langfuse/*.chatml.json")}
    assert lists - {path.name.partition(".")[0] for path in LANGFUSE} == WITHOUT_TRACE
    assert len(lists) == 20


TOTALS = {
    "Agent.run": (2, 2110, 658, 2),
    "171105b7-59dd-49c0-9677-0b95395aa46a": (2, 293, 106, 0),
    "ai.generateText": (1, 62, 85, 1),
    "run_joke_generator": (4, 1315, 209, 0),
    "invocation [hello_app]": (2, 67, 9, 0),
}


def test_calls_are_counted_once(lake):
    """Spans of two instrumentations, outer spans and agents that repeat their calls add nothing to a run's sums."""
    found = lake.execute(
        "SELECT agent, model_call_count, input_tokens, output_tokens, "
        "(SELECT count(*) FROM spans WHERE spans.run_id = runs.run_id AND same_call IS NOT NULL) FROM runs"
    ).fetchall()
    assert {agent: tuple(sums) for agent, *sums in found if agent in TOTALS} == TOTALS


def test_views_show_imported_runs_like_recorded_ones(lake):
    """Tools, sessions, costs and fidelity of imported runs are where those of recorded runs are."""
    assert ("getWeather", '{"location":"San Francisco"}', "external") in lake.execute(
        "SELECT name, arguments, side_effect FROM tool_calls"
    ).fetchall()
    tools = {name for (name,) in lake.execute("SELECT DISTINCT name FROM tool_calls").fetchall()}
    assert {"Web-Search", "get_weather", "say_hello", "duckduckgo_search", "get_dad_joke_suggestion"} <= tools
    assert ("demo-session", "demo-user") in lake.execute("SELECT thread_id, subject FROM runs").fetchall()
    assert lake.execute("SELECT count(*) FROM model_calls WHERE cost_usd IS NULL").fetchone() == (0,)
    assert dict(lake.execute("SELECT fidelity, count(*) FROM spans WHERE kind = 'model' GROUP BY ALL").fetchall()) == {
        "exchange": 1,
        "messages": 27,
        "text": 2,
    }


@pytest.mark.parametrize("path", sorted(DATA.glob("openinference/spans-genai/*.json")), ids=named)
def test_attributes_of_the_two_conventions_say_the_same(path):
    """The fixtures of a converter between OpenInference and OpenTelemetry say the same call in both."""
    attributes = json.loads(path.read_text())
    found = facts(attributes)
    if "tool_execution" in path.name:
        assert (found.kind, found.name, found.asked["gen_ai.tool.call.id"]) == (Kind.TOOL, "get_weather", "1234")
        return
    given, made = messages_of(found)
    assert [told(one) for one in given] == [
        ("user", "Weather in Paris?", []),
        ("assistant", "Absolutely! Let me check the weather for you.", [("get_weather", {"location": "Paris"})]),
        ("tool", "rainy, 57°F", []),
    ]
    assert [told(one)[:2] for one in made] == [
        ("assistant", "The weather in Paris is currently rainy with a temperature of 57°F.")
    ]
    assert found.answered["gen_ai.usage.input_tokens"] == 97
