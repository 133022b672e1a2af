"""Every recorded exchange of Google's and Amazon's APIs folds, and folds to what others read from it.

The witnesses: the index of the recordings (finish reasons, models, tools, errors: read by other code than ours), AWS's
own parsers for Bedrock, and Google's own count of tokens.
"""

from __future__ import annotations

import base64
import csv
import json
from collections import defaultdict

import botocore.eventstream
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.parsers import create_parser

from otel_agent_replay import semconv
from otel_agent_replay.protocols import frames_of, recognise, reduce_chunks, split_request
from tests.support.recordings import RecordedHttpExchange, data_folder, load_exchanges

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder"),
]

FAMILIES = frozenset(
    ("google", "google-gemini", "google-vertex", "google-interactions", "amazon-bedrock", "bedrock-converse",
     "bedrock-invoke")
)  # fmt: skip
NAMES = ("google.generate_content", "google.interactions", "aws.bedrock_converse", "aws.bedrock_invoke")
# Google's OpenAI-like endpoint and the count of tokens: another protocol, and none.
OTHERS = ("/openai/chat/completions", "/count-tokens")
# A guardrail or a bare array ends these; no finish reason came.
NO_REASON = {
    "openllmetry/bedrock-invoke/test_guardrail_invoke_stream.yaml#0",
    "openinference/google-vertex/test_gemini_token_counts_streaming.yaml#0",
}


def _calls():
    if data_folder() is None:
        return []
    return [
        (protocol, exchange)
        for exchange in load_exchanges(FAMILIES)
        if (protocol := recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body))
    ]


CALLS = _calls()
EACH = pytest.mark.parametrize(("protocol", "exchange"), CALLS, ids=[call[1].source for call in CALLS])
FRAMED = [exchange for _, exchange in CALLS if exchange.media_type.endswith("eventstream")]
# Those that came from AWS: another project's test files hold starts of blocks that AWS's client refuses.
CONVERSED = [
    (protocol, exchange)
    for protocol, exchange in CALLS
    if protocol.name == "aws.bedrock_converse" and exchange.request_recorded and exchange.status < 400
]


def fold(protocol, exchange: RecordedHttpExchange):
    return protocol.fold(exchange.response_body, exchange.media_type, exchange.status)


def index() -> dict[str, dict[str, str]]:
    with (data_folder() / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return {row["path"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def test_every_exchange_is_of_a_known_protocol():
    """All four are there in number; what is not recognised is named above, so a miss would be seen."""
    counts = {name: sum(protocol.name == name for protocol, _ in CALLS) for name in NAMES}
    assert all(count >= 10 for count in counts.values()), counts
    recognised = {exchange.source for _, exchange in CALLS}
    missed = {exchange.path for exchange in load_exchanges(FAMILIES) if exchange.source not in recognised}
    assert [path for path in missed if not path.endswith(OTHERS)] == []


@EACH
def test_an_answer_folds_without_a_problem(protocol, exchange):
    """An answer is complete, or an error with its status and a message; nothing is malformed or unknown."""
    folded = fold(protocol, exchange)
    assert folded.problems == ()
    assert folded.complete == (exchange.status < 400)
    if exchange.status >= 400:
        assert folded.error.http_status == exchange.status
        assert folded.error.message
    else:
        assert (folded.finish_reason is None) == (exchange.source in NO_REASON)
    json.dumps(folded.output_messages, ensure_ascii=False).encode()


def test_finish_reasons_models_and_tools_are_those_of_the_index():
    """File by file, what all its exchanges fold to is what the index says of it."""
    of_file = defaultdict(list)
    for protocol, exchange in CALLS:
        of_file[exchange.source.partition("#")[0]].append((protocol, exchange, fold(protocol, exchange)))
    rows, wrong = index(), []
    for path, exchanges in of_file.items():
        row = rows[path]
        reasons = {one["finish_reason"] for _, _, folded in exchanges for one in folded.output_messages} - {None}
        if row["finish_reasons"] and reasons != set(row["finish_reasons"].split(",")):
            wrong.append((path, reasons, row["finish_reasons"]))
        asked = {
            protocol.request_facts(exchange.request_body, exchange.url).get(semconv.REQUEST_MODEL)
            for protocol, exchange, _ in exchanges
            if exchange.request_recorded
        }
        if row["models"] and asked and not asked <= set(row["models"].replace("%3A", ":").split(",")):
            wrong.append((path, asked, row["models"]))
        offered = any(
            semconv.VERSION_TOOL_SCHEMA in protocol.request_facts(exchange.request_body)
            for protocol, exchange, _ in exchanges
        )
        called = any(folded.tool_calls for _, _, folded in exchanges)
        if "tools" in row["features"].split(",") and not called and not offered:
            wrong.append((path, "no tools", row["features"]))
    assert wrong == []
    assert len(of_file) >= 75


@EACH
def test_the_cheap_facts_agree_with_the_fold(protocol, exchange):
    """What the hot path reads from an answer is what its whole reduction says."""
    folded = fold(protocol, exchange)
    found = protocol.response_facts(exchange.response_body, exchange.media_type, exchange.status)
    usage, google = folded.usage, protocol.name.startswith("google.")
    reasons = tuple(message["finish_reason"] for message in folded.output_messages if message["finish_reason"])
    made = None
    if usage is not None:
        apart = (usage.reasoning_tokens or 0) if google else 0
        made = apart + (usage.output_tokens or 0)
    assert found.get(semconv.RESPONSE_ID) == folded.response_id
    assert found.get(semconv.RESPONSE_MODEL) == folded.model
    assert found.get(semconv.RESPONSE_FINISH_REASONS, ()) == reasons
    assert found.get(semconv.USAGE_OUTPUT_TOKENS, 0) == (made or 0)
    assert found.get(semconv.USAGE_REASONING_OUTPUT_TOKENS) == (usage and usage.reasoning_tokens)
    assert found.get(semconv.ERROR_TYPE) == (folded.error and folded.error.type)


@EACH
def test_any_cutting_reduces_to_the_same(protocol, exchange):
    """Pieces of 1, 7 and 4096 bytes give the answer of the whole body."""
    body, whole = exchange.response_body, fold(protocol, exchange)
    for size in (1, 7, 4096):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        assert reduce_chunks(protocol, pieces, exchange.media_type, exchange.status) == whole


@EACH
def test_a_request_splits_reads_and_has_its_facts(protocol, exchange):
    """A recorded request is tiled by its pieces, one prompt aside; its messages are read, turn by turn."""
    body = exchange.request_body
    ranges = split_request(protocol.name, body)
    request = json.loads(body)
    assert b"".join(body[start:end] for start, end, _ in ranges) == (b"" if "prompt" in request else body)
    read = protocol.request_messages(body)
    turns = request.get("contents", request.get("messages"))
    if turns is not None:
        assert len(read.messages) == len(turns)
    assert read.messages
    assert all(message["role"] for message in read.messages)
    if exchange.request_recorded:
        assert semconv.REQUEST_MODEL in protocol.request_facts(body, exchange.url)


def test_google_counts_what_we_count():
    """Input, output and thoughts, as the facts have them, come to the total that Google itself gives."""
    seen = 0
    for protocol, exchange in CALLS:
        if not protocol.name.startswith("google.") or exchange.status >= 400:
            continue
        found = protocol.response_facts(exchange.response_body, exchange.media_type, exchange.status)
        name = b'"totalTokenCount"' if protocol.name == "google.generate_content" else b'"total_tokens"'
        if name not in exchange.response_body:
            continue
        total = int(exchange.response_body.rpartition(name)[2].lstrip(b": ").partition(b",")[0].strip(b"}\r\n "))
        assert found[semconv.USAGE_INPUT_TOKENS] + found.get(semconv.USAGE_OUTPUT_TOKENS, 0) == total, exchange.source
        seen += 1
    assert seen >= 40


@pytest.mark.parametrize("exchange", FRAMED, ids=[exchange.source for exchange in FRAMED])
def test_frames_are_those_that_botocore_reads(exchange):
    """Every frame of a recorded event stream has the headers and the payload that AWS's own parser finds."""
    theirs = botocore.eventstream.EventStreamBuffer()
    theirs.add_data(exchange.response_body)
    assert [(dict(frame.headers), frame.payload) for frame in frames_of(exchange.response_body)] == [
        (message.headers, message.payload) for message in theirs
    ]


@pytest.mark.parametrize(("protocol", "exchange"), CONVERSED, ids=[call[1].source for call in CONVERSED])
def test_botocore_reads_the_same_from_converse(protocol, exchange):
    """Text, calls, stop reason and tokens are those that AWS's own client makes of the same bytes."""
    folded = fold(protocol, exchange)
    text, calls, reason, usage = _as_botocore_reads(exchange)
    assert folded.text == text
    assert [(call.id, call.name, call.arguments) for call in folded.tool_calls] == calls
    assert folded.finish_reason == reason
    assert (folded.usage.input_tokens, folded.usage.output_tokens) == (usage["inputTokens"], usage["outputTokens"])


MODEL = botocore.session.get_session().get_service_model("bedrock-runtime")
PARSER = create_parser(MODEL.metadata["protocol"])


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, body):
        self.body = body

    def stream(self):
        yield self.body

    def close(self):
        pass


def _as_botocore_reads(exchange):
    headers = {key.lower(): value for key, value in exchange.response_headers}
    streamed = exchange.media_type.endswith("eventstream")
    operation = MODEL.operation_model("ConverseStream" if streamed else "Converse")
    if not streamed:
        given = {"headers": headers, "status_code": exchange.status, "body": exchange.response_body}
        answer = PARSER.parse(given, operation.output_shape)
        content, reason = answer["output"]["message"]["content"], answer["stopReason"]
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        text = "".join(block.get("text", "") for block in content)
        calls = [(use["toolUseId"], use["name"], use["input"]) for use in uses]
        return text, calls, reason, answer["usage"]
    raw = AWSResponse("http://h", exchange.status, headers, _Raw(exchange.response_body))
    shape = operation.get_event_stream_output()
    stream = botocore.eventstream.EventStream(raw.raw, shape, PARSER._event_stream_parser, "ConverseStream")
    blocks, text, reason, usage = defaultdict(lambda: ["", "", ""]), "", None, None
    for event in stream:
        ((name, value),) = event.items()
        if name == "contentBlockStart" and value["start"].get("toolUse", {}).get("type") != "server_tool_use":
            use = value["start"].get("toolUse")
            if use:
                blocks[value["contentBlockIndex"]][:2] = use["toolUseId"], use["name"]
        elif name == "contentBlockDelta":
            text += value["delta"].get("text", "")
            if "toolUse" in value["delta"] and value["contentBlockIndex"] in blocks:
                blocks[value["contentBlockIndex"]][2] += value["delta"]["toolUse"]["input"]
        elif name == "messageStop":
            reason = value["stopReason"]
        elif name == "metadata":
            usage = value["usage"]
    calls = [(one[0], one[1], json.loads(one[2] or "{}")) for _, one in sorted(blocks.items())]
    return text, calls, reason, usage


def test_bedrock_meters_what_invoke_counts():
    """Bedrock's own measure at the end of a stream is the count that its maker's protocol gives.

    Only Claude counts more output than Bedrock where it calls tools; its own count, which its clients show, is ours.
    """
    seen = 0
    for protocol, exchange in CALLS:
        if protocol.name != "aws.bedrock_invoke" or not exchange.media_type.endswith("eventstream"):
            continue
        last = json.loads(list(frames_of(exchange.response_body))[-1].payload)
        metrics = json.loads(base64.b64decode(last["bytes"])).get("amazon-bedrock-invocationMetrics")
        if metrics is not None:
            usage = fold(protocol, exchange).usage
            assert usage.input_tokens == metrics["inputTokenCount"], exchange.source
            if fold(protocol, exchange).finish_reason != "tool_use":
                assert usage.output_tokens == metrics["outputTokenCount"], exchange.source
            seen += 1
    assert seen >= 8
