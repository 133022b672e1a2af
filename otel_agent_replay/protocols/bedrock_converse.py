"""Bedrock Converse and ConverseStream.

The URL names the model; no answer does. What it does not know: the name of an exception that comes as an HTTP status,
which is only in the header `x-amzn-ErrorType`.
"""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.aws_stream import FrameStream, aws_framing, is_aws_stream
from otel_agent_replay.protocols.bedrock_converse_fold import ConverseReducer, fold_converse
from otel_agent_replay.protocols.bedrock_converse_request import converse_request
from otel_agent_replay.protocols.json_text import as_object, as_text
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.stream import objects_of

_CONTENT = frozenset(("contentBlockStart", "contentBlockDelta", "contentBlockStop"))


def _facts_of_request(body: bytes, url: str) -> Facts:
    return facts.with_address(facts_around(body, b"messages", converse_facts), url)


def _facts_of_answer(protocol: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    """Of a stream only the events around the content are reduced."""
    if is_aws_stream(body[:64], media_type):
        stream, reducer = FrameStream(without=_CONTENT), ConverseReducer(status)
        for name, value in objects_of(stream, body):
            reducer.add(name, value)
        folded = reducer.result(ended=stream.done, problems=stream.problems)
    else:
        folded = protocol.fold(body, media_type, status)
    return facts.facts_of(folded, cached_apart=True)


def converse_facts(outer: dict[str, Any]) -> Facts:
    """The facts of a Converse request, and of one to Amazon Nova, which spells one limit otherwise."""
    config = as_object(outer.get("inferenceConfig"))
    flat = {
        "temperature": config.get("temperature"),
        "top_p": config.get("topP"),
        "top_k": config.get("topK"),
        "max_tokens": config.get("maxTokens", config.get("max_new_tokens")),
        "stop": config.get("stopSequences"),
        "tools": as_object(outer.get("toolConfig")).get("tools"),
    }
    found = facts.request_facts(flat, limits=("max_tokens",), stops="stop")
    kind = facts.output_type(as_object(as_object(outer.get("outputConfig")).get("textFormat")).get("type"))
    if kind:
        found[semconv.OUTPUT_TYPE] = kind
    fields = as_object(outer.get("additionalModelRequestFields"))
    level = as_text(as_object(fields.get("reasoningConfig")).get("maxReasoningEffort"))
    level = level or as_text(fields.get("reasoning_effort"))
    if level:
        found[semconv.REQUEST_REASONING_LEVEL] = level
    return found


BEDROCK_CONVERSE = Protocol(
    name="aws.bedrock_converse",
    operation="chat",
    own_provider="aws.bedrock",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=converse_request,
    framing=aws_framing,
    reducer=ConverseReducer,
    fold_whole=fold_converse,
)
