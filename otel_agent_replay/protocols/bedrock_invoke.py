"""Bedrock InvokeModel and InvokeModelWithResponseStream: Bedrock's envelope around each maker's own protocol.

Known bodies: Anthropic Messages and its text completions, Amazon Nova and Titan, Meta Llama, Mistral, Cohere Command,
and whatever is spelled like OpenAI's. Others are named as of unknown shape. The URL names the model. What it does not
know: the counts of a plain answer's tokens where the body has none (they are in `x-amzn-bedrock-*-token-count`
headers), and the name of an exception that comes as an HTTP status (`x-amzn-ErrorType`).
"""

from __future__ import annotations

from typing import Final

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.aws_stream import FrameStream, aws_framing
from otel_agent_replay.protocols.bedrock_invoke_fold import InvokeReducer, fold_invoke
from otel_agent_replay.protocols.bedrock_invoke_request import invoke_facts, invoke_request
from otel_agent_replay.protocols.json_text import parse_object
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.stream import objects_of

# Objects that carry content alone.
_CONTENT: Final = (b'"content_block_delta"', b'"contentBlockDelta"')


def _facts_of_request(body: bytes, url: str) -> Facts:
    return facts.with_address(facts_around(body, b"messages", invoke_facts), url)


def _facts_of_answer(protocol: Protocol, body: bytes, media_type: str, status: int) -> Facts:
    """Of a stream only the objects that carry facts are reduced."""
    stream = aws_framing(body[:64], media_type)
    if isinstance(stream, FrameStream):
        reducer = InvokeReducer(status, wanted=_has_facts)
        for name, value in objects_of(stream, body):
            reducer.add(name, value)
        folded = reducer.result(ended=stream.done, problems=stream.problems)
        return facts.facts_of(folded, cached_apart=reducer.cached_apart)
    folded = protocol.fold(body, media_type, status)
    return facts.facts_of(folded, cached_apart="choices" not in (parse_object(body) or {}))


def _has_facts(data: bytes) -> bool:
    return not any(mark in data for mark in _CONTENT)


BEDROCK_INVOKE = Protocol(
    name="aws.bedrock_invoke",
    operation="chat",
    own_provider="aws.bedrock",
    facts_of_request=_facts_of_request,
    facts_of_answer=_facts_of_answer,
    request_messages=invoke_request,
    framing=aws_framing,
    reducer=InvokeReducer,
    fold_whole=fold_invoke,
)
