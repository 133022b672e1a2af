"""`agent-replay diff` of OTLP JSON files that another instrumentation wrote."""

import gzip
import json
from importlib import resources

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main as cli

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"}


def otlp(*spans, trace="aa" * 16, shift=0):
    """A document: spans are (name, id, parent, start, end, attributes); `shift` moves all times."""
    listed = [
        {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "parentSpanId": f"{parent:016x}" if parent else "",
            "name": name,
            "kind": "SPAN_KIND_INTERNAL",
            "startTimeUnixNano": str(10**18 + shift + start),
            "endTimeUnixNano": 10**18 + shift + end,
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in facts.items()],
        }
        for name, number, parent, start, end, facts in spans
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}


def tool(name, number, start, end, arguments="{}", result="1"):
    facts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    facts |= {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
    return (f"execute_tool {name}", number, 1, start, end, facts)


def chat(number, start, end, says, model="m-1"):
    facts = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    facts["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": says}]}])
    return (f"chat {model}", number, 1, start, end, facts)


@pytest.fixture
def diff(tmp_path):
    def call(a, b, *more):
        names = []
        for side, document in (("a.json", a), ("b.json.gz", b)):
            path = tmp_path / side
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            path.write_bytes(gzip.compress(data) if side.endswith("gz") else data)
            names.append(str(path))
        return CliRunner().invoke(cli, ["diff", "--lake", str(tmp_path / "lake"), *names, *more])

    return call


ROOT = ("invoke_agent planner", 1, 0, 0, 100, AGENT)


def test_ids_and_clocks_are_no_difference(diff):
    """The same trace under another id and another clock is equal, exit code 0."""
    spans = [ROOT, chat(2, 1, 10, "hello"), tool("search", 3, 11, 20)]
    other = [(name, number + 40, parent and parent + 40, *rest) for name, number, parent, *rest in spans]
    done = diff(otlp(*spans), otlp(*other, trace="bb" * 16, shift=10**12), "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["equal"] is True
    assert (document["added"], document["removed"], document["changed"]) == ([], [], [])
    assert document["matched"] == 3


def test_a_tool_result_is_named_as_the_cause(diff):
    """A tool with equal arguments and another result is the departure, and the changed field is named."""
    a = otlp(ROOT, tool("search", 2, 1, 10, result='{"n": 1}'), chat(3, 11, 20, "one"))
    b = otlp(ROOT, tool("search", 2, 1, 10, result='{"n": 2}'), chat(3, 11, 20, "one"))
    done = diff(a, b, "--json")
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    assert document["departure"]["cause"] == "tool result differed for equal arguments"
    assert document["changed"] == [
        {"name": "execute_tool search", "under": "invoke_agent planner", "fields": ["result"]}
    ]


def test_another_model_is_a_changed_model(diff):
    """A chat span with another model differs in its model, not merely in its request."""
    done = diff(otlp(ROOT, chat(2, 1, 10, "hi")), otlp(ROOT, chat(2, 1, 10, "hi", model="m-2")), "--json")
    assert json.loads(done.stdout)["departure"]["cause"] == "model or parameters changed"


def test_an_unreadable_span_does_not_lose_its_neighbours(diff):
    """A span with a bad id is left out and told; the others are compared."""
    bad = otlp(ROOT, tool("search", 2, 1, 10))
    bad["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"traceId": "aa" * 16, "spanId": "xyz", "name": "x"})
    done = diff(otlp(ROOT, tool("search", 2, 1, 10)), bad)
    assert done.exit_code == 0, done.output
    assert "'xyz'" in done.stderr


def test_a_file_that_is_no_trace_is_refused_with_a_reason(diff):
    """JSON of no known format ends with code 2 or 125 and says where the formats are listed."""
    done = diff(b'{"hello": 1}', otlp(ROOT))
    assert done.exit_code in (2, 125)
    assert "`agent-replay import --help` lists" in done.output


def test_a_file_with_two_traces_asks_which(diff):
    """Two traces in a file: the message tells how to name one."""
    both = otlp(ROOT)
    both["resourceSpans"] += otlp(ROOT, trace="cc" * 16)["resourceSpans"]
    done = diff(both, otlp(ROOT))
    assert done.exit_code == 125
    assert "#" in done.output


def test_rules_and_the_expected_change_are_shown(diff, tmp_path):
    """`--risk-rules` ranks a step by the user's words, `--expect-change` says whether the step was hit."""
    rules = tmp_path / "risk.yaml"
    rules.write_text("rules:\n  - {name: search, risk: 99, why: it reads patients' files}\n")
    a, b = otlp(ROOT, tool("search", 2, 1, 10)), otlp(ROOT, tool("search", 2, 1, 10, arguments='{"x": 1}'))
    done = diff(a, b, "--risk-rules", str(rules), "--expect-change", "search")
    assert "it reads patients' files" in done.stdout
    assert "the runs part there" in done.stdout
    assert "it reads patients" in diff(a, b, "--risk-rules", str(rules), "--format", "markdown").stdout


def test_steps_are_paired_by_hand(diff):
    """`--pair` takes two steps for one, the report says so, and what is no pair of steps is a usage error."""
    a = otlp(ROOT, chat(2, 1, 5, "hi"), tool("find", 3, 6, 10, arguments='{"order": 1}', result='"late"'))
    b = otlp(ROOT, chat(2, 1, 5, "hi"), tool("lookup", 3, 6, 10, arguments='{"id": "x"}', result='"lost"'))
    before = json.loads(diff(a, b, "--json").stdout)
    assert (len(before["added"]), len(before["removed"])) == (1, 1)
    after = json.loads(diff(a, b, "--json", "--pair", "2:2").stdout)
    assert (after["added"], after["removed"]) == ([], [])
    assert after["changes"][0]["rule"] == "by hand"
    assert "step 2 of A was paired by hand with step 2 of B" in diff(a, b, "--pair", "2:2").stdout
    assert diff(a, b, "--pair", "2").exit_code == 2


def test_the_schema_names_every_key_that_diff_writes(diff):
    """What `diff --json` prints has exactly the keys of the schema."""
    document = json.loads(diff(otlp(ROOT, tool("search", 2, 1, 10)), otlp(ROOT), "--json").stdout)
    schema = json.loads(resources.files("otel_agent_replay.report").joinpath("comparison.schema.json").read_text())
    assert set(document) == set(schema["properties"])
