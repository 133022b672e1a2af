"""The frozen cases of `cases/`, each with its expected result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_agent_replay.protocols import PROTOCOLS, Folded, SseParser, frames_of, recognise, reduce_chunks
from tests.support.recordings import header, load_yaml, unpacked

CASES = Path(__file__).parent / "cases"
PROTOCOL_OF = {"anthropic.messages": "anthropic.messages"}
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())
STREAMS = [name for name in NAMES if (CASES / name / "input.sse").is_file()]


def expected(name: str) -> dict:
    return json.loads((CASES / name / "expected.json").read_bytes())


def check(folded: Folded, wanted: dict) -> None:
    wanted = dict(wanted)
    wanted.pop("api", None)
    calls = wanted.pop("tool_calls", None)
    usage = wanted.pop("usage", "unchecked")
    error = wanted.pop("error", "unchecked")
    assert {key: getattr(folded, key) for key in wanted} == wanted
    if calls is not None:
        keys = [set(call) for call in calls]
        assert [
            {key: getattr(call, key) for key in names} for call, names in zip(folded.tool_calls, keys, strict=True)
        ] == calls
    for given, got in ((usage, folded.usage), (error, folded.error)):
        if given is None:
            assert got is None
        elif given != "unchecked":
            assert got is not None
            assert {key: getattr(got, key) for key in given} == given


def cuttings(name: str, body: bytes) -> list[list[bytes]]:
    path = CASES / name / "chunks.json"
    plans = json.loads(path.read_bytes())["chunkings"] if path.is_file() else [{"cut_at": []}, {"every": 1}]
    found = []
    for plan in plans:
        at = plan["cut_at"] if "cut_at" in plan else list(range(plan["every"], len(body), plan["every"]))
        edges = [0, *at, len(body)]
        found.append([body[start:end] for start, end in zip(edges, edges[1:], strict=False)])
    return found


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_folds_to_its_expected_result(name):
    """A recorded stream gives the answer that its case expects."""
    case = expected(name)
    protocol = PROTOCOLS.get(PROTOCOL_OF.get(case["api"], "openai.chat_completions"))
    body = (CASES / name / case["input"]).read_bytes()
    folded = protocol.fold(body, "text/event-stream", 200)
    check(folded, case["result"])
    assert "�" not in folded.text


@pytest.mark.parametrize("name", STREAMS)
def test_every_cutting_gives_the_same_events(name):
    """However the network cuts the body, the parser gives the same events, comments and data."""
    case = expected(name)
    body = (CASES / name / case["input"]).read_bytes()
    seen = []
    for chunks in cuttings(name, body):
        assert b"".join(chunks) == body
        parser = SseParser()
        events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()
        seen.append((events, parser.comments, parser.dataless))
    assert all(one == seen[0] for one in seen)
    events, comments, _ = seen[0]
    assert (
        len([event for event in events if event.data.strip() not in ("", "[DONE]")]) == case["sse"]["events_with_data"]
    )
    assert comments == case["sse"]["comments"]


def test_an_exception_frame_in_mid_stream_fails_the_call_in_every_cutting():
    """S20: binary frames, however they are cut, give what came and the exception that ended the call."""
    name = "S20-bedrock-exception-mid-stream"
    case = expected(name)
    body = (CASES / name / case["input"]).read_bytes()
    assert [frame.problem for frame in frames_of(body)] == [None] * case["frames"]
    for chunks in cuttings(name, body):
        assert b"".join(chunks) == body
        folded = reduce_chunks(PROTOCOLS["aws.bedrock_converse"], chunks, "application/vnd.amazon.eventstream", 200)
        check(folded, case["result"])


def test_duplicate_keys_in_arguments_are_named():
    """S13: both values of a repeated key stay in the raw text, and the repetition is said."""
    body = (CASES / "S13-args-bigint-duplicate-keys" / "input.sse").read_bytes()
    folded = PROTOCOLS["openai.chat_completions"].fold(body, "text/event-stream", 200)
    assert any("duplicate keys ['id', 'k']" in problem for problem in folded.problems)


def test_id_and_model_come_from_the_first_chunk_that_has_them():
    """S07: Azure's first chunk has an empty id and model."""
    body = (CASES / "S07-chat-empty-choices-first-and-last" / "input.sse").read_bytes()
    folded = PROTOCOLS["openai.chat_completions"].fold(body, "text/event-stream", 200)
    assert (folded.response_id, folded.model) == ("chatcmpl-case", "test-model")


def test_a_zipped_and_an_unzipped_cassette_body_fold_alike():
    """S19: two cassette entries under the same gzip header, one packed and one not, give the same answer."""
    case = expected("S19-vcr-gzip-body")
    interactions = load_yaml((CASES / "S19-vcr-gzip-body" / "input.yaml").read_bytes())["interactions"]
    assert len(interactions) == case["interactions"]
    for interaction in interactions:
        response, body = interaction["response"], interaction["request"]["body"].encode()
        stored = response["body"]["string"]
        stored = stored if isinstance(stored, bytes) else stored.encode()
        headers = [(key, value[0]) for key, value in response["headers"].items()]
        protocol = recognise("POST", interaction["request"]["uri"], [], body)
        plain = unpacked(stored, header(headers, "content-encoding"))
        check(protocol.fold(plain, "text/event-stream", 200), case["result_each"])


def test_an_assistant_turn_with_null_content_keeps_its_own_turn():
    """S23: null content gives a turn with its tool call and no text, not the text of another turn."""
    folder = CASES / "S23-assistant-null-content"
    case = expected(folder.name)
    protocol = PROTOCOLS["openai.chat_completions"]
    check(protocol.fold((folder / "response.json").read_bytes(), "application/json", 200), case["result"])
    given = protocol.request_messages((folder / "request.json").read_bytes()).messages
    assert [message["role"] for message in given] == [message["role"] for message in case["recorded_messages"]]
    assert given[1]["parts"] == [
        {"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'}
    ]
    assert given[2]["parts"] == [{"type": "tool_call_response", "id": "call_1", "response": "Sunny"}]
