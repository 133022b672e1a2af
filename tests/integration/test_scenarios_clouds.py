"""Agents on Bedrock and Gemini, recorded by a child process, sealed, read, and replayed with the server gone."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind
from otel_agent_replay.report.run_document import step_json
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.agents import Script, assert_same, nodes_of
from tests.support.bedrock_bodies import chunk, converse_stream, text_answer

pytest.importorskip("botocore")
pytest.importorskip("httpx")

SOURCE = """
import json, os, sys
import botocore.session, httpx
from botocore.config import Config
import otel_agent_replay as replay

URL = os.environ["SERVER"]
NOVA, LLAMA = "amazon.nova-micro-v1:0", "meta.llama3-70b-instruct-v1:0"

def bedrock():
    session = botocore.session.get_session()
    session.set_credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    return session.create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=URL,
                                 config=Config(retries={"max_attempts": 0}))

@replay.tool(side_effect="read")
def stock(sku):
    return 3

@replay.agent
def converse():
    client, found = bedrock(), []
    messages = [{"role": "user", "content": [{"text": "How many of A1?"}]}]
    tools = {"tools": [{"toolSpec": {"name": "stock", "inputSchema": {"json": {"type": "object"}}}}]}
    use = ["", ""]
    for event in client.converse_stream(modelId=NOVA, messages=messages, toolConfig=tools)["stream"]:
        if "contentBlockStart" in event:
            use[0] = event["contentBlockStart"]["start"]["toolUse"]["toolUseId"]
        if "contentBlockDelta" in event:
            use[1] += event["contentBlockDelta"]["delta"]["toolUse"]["input"]
    asked = json.loads(use[1])
    block = {"toolUseId": use[0], "name": "stock", "input": asked}
    result = {"toolUseId": use[0], "content": [{"json": {"count": stock(asked["sku"])}}]}
    messages += [{"role": "assistant", "content": [{"toolUse": block}]}]
    messages += [{"role": "user", "content": [{"toolResult": result}]}]
    for event in client.converse_stream(modelId=NOVA, messages=messages, toolConfig=tools)["stream"]:
        found.append(event.get("contentBlockDelta", {}).get("delta", {}).get("text", ""))
    return "".join(found)

@replay.agent
def invoke():
    body = json.dumps({"prompt": "hi", "max_gen_len": 9})
    stream = bedrock().invoke_model_with_response_stream(modelId=LLAMA, body=body)["body"]
    return "".join(json.loads(event["chunk"]["bytes"])["generation"] for event in stream)

@replay.agent
def gemini():
    body = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"parts": [{"text": "hi"}]}]}
    url = URL + "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    found = []
    for query in ("?alt=sse", ""):
        with httpx.stream("POST", url + query, json=body, headers={"x-goog-api-key": "AIza-not-to-be-kept"}) as answer:
            found.append(b"".join(answer.iter_bytes()).decode())
    return found

results = {agent.__name__: agent() for agent in (converse, invoke, gemini)}
with open(sys.argv[1], "w") as file:
    json.dump(results, file, sort_keys=True)
"""

CALL = converse_stream(
    ("messageStart", {"role": "assistant"}),
    ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "stock"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"sku":'}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": ' "A1"}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "tool_use"}),
    (
        "metadata",
        {"usage": {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}, "metrics": {"latencyMs": 1}},
    ),
)
LLAMA = chunk({"generation": "Hello"}) + chunk(
    {"generation": "!", "stop_reason": "stop", "prompt_token_count": 5, "generation_token_count": 2}
)
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hé"}]}}], "modelVersion": "gemini-2.5-flash"},
    {"candidates": [{"content": {"parts": [{"text": "llo"}]}, "finishReason": "STOP"}],
     "modelVersion": "gemini-2.5-flash",
     "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 60, "thoughtsTokenCount": 40}},
]  # fmt: skip
FRAMES = (("content-type", "application/vnd.amazon.eventstream"),)


def server():
    answers = iter([CALL, converse_stream(*text_answer("Three", "."))])

    def script(request):
        if "/converse-stream" in request.path:
            body = next(answers)
        elif "/invoke-with" in request.path:
            body = LLAMA
        elif "alt=sse" in request.path:
            return Reply.of_events(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in GEMINI))
        else:
            return Reply.of_json(GEMINI, framing="chunked", cuts=[40, 90])
        return Reply(body, headers=FRAMES, framing="chunked", cuts=range(9, len(body), 60))

    return ScriptedProvider(script)


class Lived:
    def __init__(self, folder):
        with server() as provider:
            self.script = Script(folder, SOURCE, SERVER=provider.url)
            self.runs = self.script.record("live.json")
        self.result = json.loads((folder / "live.json").read_text())
        self.verdict = self.script.replay(self.runs["converse"], "replayed.json", allow_write=[folder])
        self.replayed = json.loads((folder / "replayed.json").read_text())

    def models(self, agent):
        """Return the model nodes of an agent's run, each with the attributes of its span and its document."""
        run = self.runs[agent]
        found = []
        for node in nodes_of(run, Kind.MODEL):
            span = next(item.span for item in run.spans if item.node is node)
            found.append((node, span.attributes, step_json(run, node.step)))
        return found


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return Lived(tmp_path_factory.mktemp("clouds"))


def test_all_three_replay_exactly(lived):
    """The agents get the same from their recordings as from the server, binary frames and arrays too."""
    assert_same(lived.verdict)
    assert lived.replayed == lived.result
    assert lived.result["converse"] == "Three."
    assert lived.result["invoke"] == "Hello!"


def test_a_bedrock_stream_is_kept_byte_for_byte_and_read(lived):
    """The lake has the very frames; the span has model, tokens and price; the document has messages."""
    (first, facts, document), (_, _, second) = lived.models("converse")
    assert lived.runs["converse"].payload(first.outcome.result.digest) == CALL
    assert facts[semconv.PROTOCOL] == "aws.bedrock_converse"
    assert facts[semconv.REQUEST_MODEL] == "amazon.nova-micro-v1:0"
    assert facts[semconv.RESPONSE_FINISH_REASONS] == ("tool_use",)
    assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == (1000, 100)
    assert facts[semconv.COST_USD] > 0
    assert facts[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] > 0
    assert semconv.MALFORMED not in facts
    output = document["messages"][semconv.OUTPUT_MESSAGES]
    assert output[0]["parts"] == [{"type": "tool_call", "id": "t1", "name": "stock", "arguments": '{"sku": "A1"}'}]
    given = second["messages"][semconv.INPUT_MESSAGES]
    assert [part["type"] for message in given for part in message["parts"]] == [
        "text",
        "tool_call",
        "tool_call_response",
    ]
    assert document["result_body"] == {"bytes": CALL.hex()}


def test_invoke_names_its_model_from_the_url(lived):
    """What the body of a text model does not say, its address does."""
    ((_, facts, document),) = lived.models("invoke")
    assert facts[semconv.PROTOCOL] == "aws.bedrock_invoke"
    assert facts[semconv.REQUEST_MODEL] == "meta.llama3-70b-instruct-v1:0"
    assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == (5, 2)
    assert document["messages"][semconv.OUTPUT_MESSAGES][0]["parts"] == [{"type": "text", "content": "Hello!"}]


def test_both_forms_of_a_gemini_stream_are_read_alike(lived):
    """Events and array give one answer; thoughts are output tokens; the key of the client is nowhere."""
    for node, facts, document in lived.models("gemini"):
        assert (node.name, facts[semconv.PROTOCOL]) == ("generate_content", "google.generate_content")
        assert (facts[semconv.USAGE_INPUT_TOKENS], facts[semconv.USAGE_OUTPUT_TOKENS]) == (1000, 100)
        assert facts[semconv.COST_USD] > 0
        assert document["messages"][semconv.OUTPUT_MESSAGES][0]["parts"] == [{"type": "text", "content": "Héllo"}]
        assert document["messages"][semconv.SYSTEM_INSTRUCTIONS] == [{"type": "text", "content": "Be brief."}]
        assert "AIza-not-to-be-kept" not in json.dumps(document)
