"""Agents that speak by lines of JSON (Ollama, Cohere): recorded as model calls, replayed with the server gone."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay import semconv
from otel_agent_replay.cli.main import main
from otel_agent_replay.model import Kind
from otel_agent_replay.replay.verdict import VerdictStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.agents import Script, assert_same, nodes_of

pytest.importorskip("httpx")

SOURCE = """
import json, os, sys
import httpx
import otel_agent_replay as replay

OLLAMA, COHERE = os.environ["SERVER"] + "/api", os.environ["SERVER"] + "/v1/chat"

@replay.agent
def desk():
    found = []
    ask = {"model": "qwen3", "messages": [{"role": "user", "content": "where is my parcel?"}]}
    with httpx.Client() as client:
        with client.stream("POST", OLLAMA + "/chat", json=ask) as response:
            lines = [json.loads(line) for line in response.iter_lines()]
        (call,) = [call for line in lines for call in line["message"].get("tool_calls", ())]
        found.append("".join(line["message"].get("content", "") for line in lines))
        found.append(call["function"]["arguments"])
        ask["messages"] += [{"role": "assistant", "content": "", "tool_calls": [call]},
                            {"role": "tool", "tool_name": "track", "content": "in Paris"}]
        found.append(client.post(OLLAMA + "/chat", json={**ask, "stream": False}).json()["message"]["content"])
        found.append(client.post(OLLAMA + "/generate", json={"model": "qwen3", "prompt": "translate"}).text)
        with client.stream("POST", COHERE, json={"model": "command", "message": "sum up", "stream": True}) as response:
            found.append("".join(json.loads(line).get("text", "") for line in response.iter_lines()))
    return found

if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(desk(), file)
"""
LINES = (("content-type", "application/x-ndjson"),)
COUNTS = '"done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":5}\n'
CALL = '{"function":{"name":"track","arguments":{"parcel": 7,  "eur":1.50}}}'
STREAMED = (
    '{"model":"qwen3","message":{"role":"assistant","content":"Ich schaue \U0001f44b"},"done":false}\n'
    '{"model":"qwen3","message":{"role":"assistant","content":"","tool_calls":[' + CALL + ']},"done":false}\n'
    '{"model":"qwen3","message":{"role":"assistant","content":""},' + COUNTS
)
WHOLE = '{"model":"qwen3","message":{"role":"assistant","content":"in Paris"},' + COUNTS
GENERATED = '{"model":"qwen3","response":"\u00e0 ","done":false}\n{"model":"qwen3","response":"Paris",' + COUNTS
SUMMED = (
    '{"event_type":"stream-start","generation_id":"g1"}\n{"event_type":"text-generation","text":"it is "}\n'
    '{"event_type":"text-generation","text":"there"}\n{"event_type":"stream-end","finish_reason":"COMPLETE",'
    '"response":{"generation_id":"g1","text":"it is there","meta":{"billed_units":{"input_tokens":3,'
    '"output_tokens":4}}}}\n'
)


def answer(request):
    def lines(text, headers=LINES):
        body = text.encode()
        return Reply(body, headers=headers, framing="chunked", cuts=range(5, len(body), 29))

    if request.path == "/v1/chat":
        return lines(SUMMED, (("content-type", "application/stream+json"),))
    if request.path == "/api/generate":
        return lines(GENERATED)
    return Reply(WHOLE.encode()) if request.json.get("stream") is False else lines(STREAMED)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    with ScriptedProvider(answer) as provider:
        script = Script(folder, SOURCE, SERVER=provider.url)
        run = script.record("live.json")["desk"]
    return script, run


def test_each_call_is_a_model_exchange_with_its_facts(recorded):
    """Protocol, provider, model, tokens and finish reason are on the spans and in the view."""
    script, run = recorded
    nodes = nodes_of(run, Kind.MODEL)
    facts = [one.span.attributes for one in run.spans if one.node is not None and one.node.kind is Kind.MODEL]
    assert [one[semconv.PROTOCOL] for one in facts] == [
        "ollama.chat",
        "ollama.chat",
        "ollama.generate",
        "cohere.chat_v1",
    ]
    assert [one[semconv.PROVIDER_NAME] for one in facts] == ["ollama"] * 3 + ["cohere"]
    assert [one[semconv.OPERATION_NAME] for one in facts] == ["chat", "chat", "text_completion", "chat"]
    assert [one[semconv.USAGE_INPUT_TOKENS] for one in facts] == [11, 11, 11, 3]
    assert [one[semconv.RESPONSE_FINISH_REASONS] for one in facts] == [("stop",)] * 3 + [("COMPLETE",)]
    assert all(semconv.MALFORMED not in one for one in facts)
    assert [semconv.RESPONSE_TIME_TO_FIRST_CHUNK in one for one in facts] == [True, False, True, True]
    assert len(nodes[0].outcome.chunks) > 5
    one = f"run_id = '{run.run.run_id.hex()}'"
    query = f"SELECT request_model, input_tokens, output_tokens FROM model_calls WHERE {one} ORDER BY step"
    asked = CliRunner().invoke(main, ["sql", "--lake", str(script.lake), "--json", query])
    assert [list(row.values()) for row in json.loads(asked.stdout)] == [
        ["qwen3", 11, 5], ["qwen3", 11, 5], ["qwen3", 11, 5], ["command", 3, 4],
    ]  # fmt: skip


def test_what_was_said_can_be_queried(recorded):
    """The view of messages has what each answer said, put together from its lines."""
    script, run = recorded
    one = f"run_id = '{run.run.run_id.hex()}'"
    query = f"SELECT text FROM messages WHERE {one} AND direction = 'output' ORDER BY step"
    asked = CliRunner().invoke(main, ["sql", "--lake", str(script.lake), "--json", query])
    assert [row["text"] for row in json.loads(asked.stdout)] == [
        "Ich schaue \U0001f44b", "in Paris", "\u00e0 Paris", "it is there",
    ]  # fmt: skip


def test_the_run_replays_exactly_without_its_server(recorded):
    """Every line comes back as it came, also where a piece ends within a character."""
    script, run = recorded
    verdict = script.replay(run, "replayed.json", allow_write=[script.folder])
    assert_same(verdict)
    live, replayed = (json.loads((script.folder / name).read_text()) for name in ("live.json", "replayed.json"))
    assert replayed == live
    assert live[:3] == ["Ich schaue \U0001f44b", {"parcel": 7, "eur": 1.5}, "in Paris"]
    assert live[4] == "it is there"


def test_a_changed_question_departs_where_it_was_changed(recorded, tmp_path):
    """One word of a prompt to `/api/generate` is named with its place."""
    script, run = recorded
    changed = Script(tmp_path, SOURCE.replace('"translate"', '"translate it"'), SERVER=script.environment["SERVER"])
    changed.lake = script.lake
    verdict = changed.replay(run, "replayed.json", allow_write=[tmp_path])
    assert verdict.status is VerdictStatus.DEPARTED
    assert "prompt" in json.dumps(verdict.to_json())
