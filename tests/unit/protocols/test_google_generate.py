"""Gemini: parts, calls that stream, thoughts, arrays, and answers that go wrong."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import reduce_chunks
from otel_agent_replay.protocols.google_generate import GOOGLE_GENERATE_CONTENT as GEMINI

SSE, JSON = "text/event-stream", "application/json"


def candidate(*parts, **rest):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **rest}]}


def events(*values):
    return b"".join(b"data: " + json.dumps(value).encode() + b"\r\n\r\n" for value in values)


def array(*values):
    return b"[" + b"\n,\r\n".join(json.dumps(value, indent=2).encode() for value in values) + b"\n]\n"


def call(name=None, *partial, more=False, **rest):
    pieces = {"partialArgs": [*partial]} if partial else {}
    return {
        "functionCall": {
            **({"name": name} if name else {}),
            **pieces,
            **({"willContinue": True} if more else {}),
            **rest,
        }
    }


USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 5, "cachedContentTokenCount": 2}
WHOLE = (
    candidate({"text": "h", "thought": True}),
    candidate({"text": "m", "thought": True}),
    candidate({"text": "a"}),
    {**candidate({"text": "b"}), "usageMetadata": {"promptTokenCount": 7}},
    candidate({"functionCall": {"id": "c", "name": "f", "args": {"a": 1.0}}, "thoughtSignature": "SIG"}),
    {**candidate({"text": "", "thoughtSignature": "END"}, finishReason="STOP", index=0),
     "usageMetadata": USAGE, "modelVersion": "gemini-x", "responseId": "r"},
)  # fmt: skip


@pytest.mark.parametrize(("frame", "media_type"), [(events, SSE), (array, JSON)])
def test_a_stream_is_events_or_an_array(frame, media_type):
    """Both forms of a stream give one answer, part after part, whatever the cutting."""
    body = frame(*WHOLE)
    folded = GEMINI.fold(body, media_type, 200)
    assert (folded.complete, folded.finish_reason, folded.text, folded.reasoning) == (True, "STOP", "ab", "hm")
    assert (folded.response_id, folded.model, folded.problems) == ("r", "gemini-x", ())
    assert [part["type"] for part in folded.output_messages[0]["parts"]] == ["reasoning", "text", "tool_call", "text"]
    assert folded.output_messages[0]["parts"][2]["signature"] == "SIG"
    assert folded.output_messages[0]["parts"][3] == {"type": "text", "content": "", "signature": "END"}
    assert reduce_chunks(GEMINI, [body[at : at + 1] for at in range(len(body))], media_type, 200) == folded
    found = GEMINI.response_facts(body, media_type, 200)
    assert found == {
        semconv.RESPONSE_ID: "r",
        semconv.RESPONSE_MODEL: "gemini-x",
        semconv.RESPONSE_FINISH_REASONS: ("STOP",),
        semconv.USAGE_INPUT_TOKENS: 7,
        semconv.USAGE_OUTPUT_TOKENS: 8,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: 2,
        semconv.USAGE_REASONING_OUTPUT_TOKENS: 5,
    }


@pytest.mark.parametrize("frame", [b"%s", b"[%s]", b"data: %s\n\n"])
def test_arguments_keep_their_text(frame):
    """Arguments are JSON on the wire: their spaces, number forms and repeated keys stay, in every form of answer."""
    raw = '{ "n": 1.10, "n": 18446744073709551617 }'
    part = b'{"functionCall": {"name": "f", "args": %s}}' % raw.encode()
    body = b'{"candidates":[{"content":{"parts":[{"text":"a"},%s]},"finishReason":"STOP"}]}' % part
    folded = GEMINI.fold(frame % body, "", 200)
    assert folded.tool_calls[0].arguments_raw == raw
    assert "duplicate keys" in folded.problems[0]


def test_a_call_without_arguments_has_none():
    """`args` may be absent: the raw text is empty, and its value is an empty object."""
    folded = GEMINI.fold(events(candidate(call("now"), finishReason="STOP")), SSE, 200)
    assert (folded.tool_calls[0].arguments_raw, folded.tool_calls[0].arguments) == ("", {})


def test_arguments_that_stream_are_put_together_by_path():
    """Strings come in pieces while they continue; arrays and objects grow by their paths; a new name ends a call."""
    body = events(
        candidate(call("f", more=True)),
        candidate(call(None, {"jsonPath": "$.items[0].name", "stringValue": "ap", "willContinue": True}, more=True)),
        candidate(call(None, {"jsonPath": "$.items[0].name", "stringValue": "ple"}, more=True)),
        candidate(call(None, {"jsonPath": "$.items[0].price", "numberValue": 0.5},
                       {"jsonPath": "$.items[1]['a.b']", "boolValue": False}, more=True)),
        candidate(call(None, {"jsonPath": "$.note", "nullValue": "NULL_VALUE"}, more=True)),
        candidate(call("g", more=True)),
        candidate(call(None, {"jsonPath": "$.x", "stringValue": "1"})),
        candidate(call("h")),
        candidate(finishReason="STOP"),
    )  # fmt: skip
    folded = GEMINI.fold(body, SSE, 200)
    assert [(one.name, one.arguments_raw) for one in folded.tool_calls] == [
        ("f", '{"items":[{"name":"apple","price":0.5},{"a.b":false}],"note":null}'),
        ("g", '{"x":"1"}'),
        ("h", ""),
    ]
    assert folded.problems == ()


@pytest.mark.parametrize(
    "piece",
    [
        {"jsonPath": "items", "stringValue": "x"},
        {"jsonPath": "$.a..b", "stringValue": "x"},
        {"jsonPath": "$.a"},
        {"jsonPath": "$.list[999999999]", "stringValue": "x"},
        {"jsonPath": "$[0]", "stringValue": "x"},
    ],
)
def test_a_partial_argument_that_fits_nowhere_is_named(piece):
    """A path that is none, an absurd index, a value of no kind: each is a problem and no exception."""
    body = events(candidate(call("f", {"jsonPath": "$.ok", "stringValue": "y"}, piece), finishReason="STOP"))
    folded = GEMINI.fold(body, SSE, 200)
    assert folded.tool_calls[0].arguments == {"ok": "y"} | ({"list": []} if "list" in piece["jsonPath"] else {})
    assert "partial argument" in folded.problems[0]


def test_a_stream_without_a_finish_reason_was_cut():
    """There is no end mark among events; an array has one, its bracket."""
    assert GEMINI.fold(events(*WHOLE[:3]), SSE, 200).error.type == "stream_truncated"
    assert GEMINI.response_facts(events(*WHOLE[:3]), SSE, 200)[semconv.ERROR_TYPE] == "stream_truncated"
    body = array(*WHOLE[:3])
    assert GEMINI.fold(body, JSON, 200).complete
    cut = GEMINI.fold(body[:-20], JSON, 200)
    assert (cut.error.type, cut.text) == ("stream_truncated", "")
    assert "element 3 is cut" in cut.problems[0]


def test_a_blocked_prompt_is_an_answer_with_its_reason():
    """No candidates come; the block reason is the finish reason and its message the refusal."""
    body = b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"no"}}'
    folded = GEMINI.fold(body, JSON, 200)
    assert (folded.complete, folded.finish_reason, folded.refusal) == (True, "PROHIBITED_CONTENT", "no")
    assert GEMINI.response_facts(body, JSON, 200) == {semconv.RESPONSE_FINISH_REASONS: ("PROHIBITED_CONTENT",)}


def test_a_refused_answer_says_why_and_a_failed_call_is_no_refusal():
    """`finishMessage` is a refusal where the model was kept from answering, not where its call was malformed."""
    safety = candidate(finishReason="SAFETY", finishMessage="unsafe")
    assert GEMINI.fold(events(safety), SSE, 200).refusal == "unsafe"
    malformed = candidate(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="bad call")
    assert GEMINI.fold(events(malformed), SSE, 200).refusal is None


def test_candidates_go_by_index():
    """Each candidate is a message; the first is the answer."""
    body = events(
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]},
        {"candidates": [{"index": 0, "content": {"parts": [{"text": "a"}]}, "finishReason": "MAX_TOKENS"}]},
    )
    folded = GEMINI.fold(body, SSE, 200)
    assert (folded.text, folded.finish_reason) == ("a", "MAX_TOKENS")
    assert [message["parts"][0]["content"] for message in folded.output_messages] == ["a", "x"]


ERROR = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (json.dumps(ERROR).encode(), JSON, 429),
        (json.dumps([ERROR]).encode(), JSON, 429),
        (json.dumps(ERROR, indent=2).encode(), SSE, 429),
        (events(WHOLE[2], ERROR), SSE, 200),
        (array(WHOLE[2], ERROR), JSON, 200),
    ],
)
def test_an_error_is_named_by_its_status(body, media_type, status):
    """Google's status word is the type of the error, in a body, an array and in mid-stream."""
    folded = GEMINI.fold(body, media_type, status)
    assert (folded.complete, folded.error.type, folded.error.code) == (False, "RESOURCE_EXHAUSTED", 429)
    assert (folded.error.message, folded.error.http_status) == ("quota", status)
    assert GEMINI.response_facts(body, media_type, status)[semconv.ERROR_TYPE] == "RESOURCE_EXHAUSTED"


def test_parts_of_every_kind_have_a_form():
    """Code that Google runs, media and results are parts; what is unknown is named and kept."""
    body = events(
        candidate(
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
            {"dance": [1]},
            finishReason="STOP",
        )
    )
    folded = GEMINI.fold(body, SSE, 200)
    assert folded.output_messages[0]["parts"] == [
        {"type": "server_tool_call", "id": None, "name": "code_execution",
         "arguments": '{"language":"PYTHON","code":"1+1"}'},
        {"type": "server_tool_call_response", "id": None, "name": "code_execution",
         "response": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"},
        {"type": "dance", "content": [1]},
    ]  # fmt: skip
    assert folded.problems == ("a part of unknown kind: dance",)


def test_tokens_of_googles_own_tools_are_in_the_input():
    """What Google's tools put before the model is counted apart on the wire, and is input to the conventions."""
    body = json.dumps({**candidate({"text": "a"}, finishReason="STOP"),
                       "usageMetadata": {**USAGE, "toolUsePromptTokenCount": 100}}).encode()  # fmt: skip
    assert GEMINI.response_facts(body, JSON, 200)[semconv.USAGE_INPUT_TOKENS] == 107
    assert GEMINI.fold(body, JSON, 200).usage.input_tokens == 7


REQUEST = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}, {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/k"}}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {"a": 1.0}},
                                     "thoughtSignature": "SIG"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "4"}}}]},
    ],
    "generationConfig": {"temperature": 0.5, "topP": 0.9, "topK": 3, "seed": 4, "maxOutputTokens": 9,
                         "stopSequences": ["|"], "candidateCount": 2, "responseMimeType": "application/json",
                         "thinkingConfig": {"thinkingLevel": "low"}},
    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]},
              {"googleSearch": {}}],
}  # fmt: skip


def snake(value):
    """The same request as some clients spell it."""
    if isinstance(value, dict):
        return {"".join("_" + c.lower() if c.isupper() else c for c in key): snake(one) for key, one in value.items()}
    return [snake(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("spelled", [REQUEST, snake(REQUEST)], ids=["camel", "snake"])
def test_a_request_reads_in_either_spelling(spelled):
    """Camel case and snake case give the same messages and facts."""
    body = json.dumps(spelled).encode()
    read = GEMINI.request_messages(body)
    assert read.system == [{"type": "text", "content": "Be brief."}]
    assert [message["role"] for message in read.messages] == ["user", "assistant", "user"]
    assert read.messages[0]["parts"][1] == {
        "type": "uri", "modality": "image", "mime_type": "image/png", "uri": "gs://b/k",
    }  # fmt: skip
    assert read.messages[1]["parts"] == [
        {"type": "tool_call", "id": "c", "name": "f", "arguments": '{"a": 1.0}', "signature": "SIG"}
    ]
    assert read.messages[2]["parts"] == [
        {"type": "tool_call_response", "id": "c", "response": {"output": "4"}, "name": "f"}
    ]
    assert read.tools[0] == {"type": "function", "name": "f", "parameters": {"type": "object"}}
    found = GEMINI.request_facts(body, "http://h/v1beta/models/gemini-x:streamGenerateContent?alt=sse")
    found.pop(semconv.VERSION_TOOL_SCHEMA)
    assert found == {
        semconv.REQUEST_MODEL: "gemini-x",
        semconv.REQUEST_STREAM: True,
        semconv.REQUEST_TEMPERATURE: 0.5,
        semconv.REQUEST_TOP_P: 0.9,
        semconv.REQUEST_TOP_K: 3,
        semconv.REQUEST_SEED: 4,
        semconv.REQUEST_MAX_TOKENS: 9,
        semconv.REQUEST_STOP_SEQUENCES: ("|",),
        semconv.REQUEST_CHOICE_COUNT: 2,
        semconv.OUTPUT_TYPE: "json",
        semconv.REQUEST_REASONING_LEVEL: "low",
    }


def test_a_body_that_is_no_answer_is_named():
    """HTML, other JSON and nothing at all are errors that say what came."""
    assert GEMINI.fold(b"<html>", "text/html", 200).error.type == "malformed_response"
    assert GEMINI.response_facts(b"<html>", "text/html", 200) == {semconv.ERROR_TYPE: "malformed_response"}
    assert GEMINI.fold(b"{}", JSON, 200).problems == ("the answer has no candidates",)
    folded = GEMINI.fold(b"[1, {}, null]", JSON, 200)
    assert "element 1 is no JSON object" not in folded.problems
    assert not folded.complete
