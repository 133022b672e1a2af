"""Gemini's `generateContent` and `streamGenerateContent`, on Google's own hosts and on Vertex AI.

A stream is server-sent events (`alt=sse`) or, without that, one JSON array. The URL names the model. What it does not
know: why Google stopped a stream that just ends (there is no end mark), and tools that Google runs itself beyond code
execution, which it names.
"""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.google_generate_fold import GenerateReducer, fold_generate, read_generated
from otel_agent_replay.protocols.google_generate_request import generate_facts, generate_request
from otel_agent_replay.protocols.json_array import JsonArray
from otel_agent_replay.protocols.json_text import as_count, parse_object
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import MALFORMED
from otel_agent_replay.protocols.stream import JsonStream, ObjectStream, is_stream, objects_of
from otel_agent_replay.protocols.stream_scan import scan

# Texts of which an event must hold one to be worth parsing.
_MARKS: Final = (b'"finishReason"', b'"blockReason"', b'"error"')


def _facts_of_request(body: bytes, url: str) -> Facts:
    return facts.with_address(facts_around(body, b"contents", generate_facts), url)


def _facts_of_answer(protocol: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    """Of events only those that carry facts are reduced, where one of them has all."""
    stream = protocol.framing(body[:64], media_type)
    if stream is None and status >= 400:
        return facts.facts_of(protocol.fold_whole(body, status))
    if isinstance(stream, JsonStream):
        seen = scan(body, _MARKS)
        reducer = GenerateReducer(status)
        for value in (seen.first, *seen.marked):
            reducer.add("message", value)
        found = _facts(reducer, ended=False)
        if semconv.ERROR_TYPE not in found and semconv.USAGE_OUTPUT_TOKENS in found:
            return found
    reducer = GenerateReducer(status)
    if stream is not None:
        for name, value in objects_of(stream, body):
            reducer.add(name, value)
        return _facts(reducer, ended=stream.done)
    answer = parse_object(body)
    if answer is None:
        return {semconv.ERROR_TYPE: MALFORMED}
    reducer.add("message", answer)
    return _facts(reducer, ended=True)


def _framing(start: bytes, media_type: str) -> ObjectStream | None:
    if start.lstrip()[:1] == b"[":
        return JsonArray(read_generated)
    return JsonStream(read_generated) if is_stream(start, media_type) else None


def _facts(reducer: GenerateReducer, *, ended: bool) -> Facts:
    """Google counts apart what its own tools put before the model; the conventions have one number for the input."""
    found = facts.facts_of(reducer.result(ended=ended), reasoning_apart=True)
    by_tools = as_count(reducer.usage.get("toolUsePromptTokenCount"))
    if by_tools:
        asked = as_count(found.get(semconv.USAGE_INPUT_TOKENS)) or 0
        found[semconv.USAGE_INPUT_TOKENS] = asked + by_tools
    return found


GOOGLE_GENERATE_CONTENT = Protocol(
    name="google.generate_content",
    operation="generate_content",
    own_provider="gcp.gemini",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=generate_request,
    framing=_framing,
    reducer=GenerateReducer,
    fold_whole=fold_generate,
)
