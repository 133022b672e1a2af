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
from otel_agent_replay.protocols.folded import Folded, RequestMessages
from otel_agent_replay.protocols.json_text import as_object, as_text
from otel_agent_replay.protocols.outer import facts_around
from otel_agent_replay.protocols.protocol import Facts
from otel_agent_replay.protocols.providers import provider_at
from otel_agent_replay.protocols.reduction import reduce_chunks
from otel_agent_replay.protocols.stream import EventReducer, ObjectStream, objects_of

_CONTENT = frozenset(("contentBlockStart", "contentBlockDelta", "contentBlockStop"))


class BedrockConverse:
    """The protocol `aws.bedrock_converse`; see `Protocol` for the methods."""

    name = "aws.bedrock_converse"
    operation = "chat"

    def provider(self, url: str) -> str:
        """The provider at `url`, else `aws.bedrock`."""
        return provider_at(url) or "aws.bedrock"

    def request_facts(self, body: bytes, url: str = "") -> Facts:
        """See `Protocol`."""
        return facts.with_address(facts_around(body, b"messages", converse_facts), url)

    def response_facts(self, body: bytes, media_type: str, status: int) -> Facts:
        """See `Protocol`. Of a stream only the events around the content are reduced."""
        if is_aws_stream(body[:64], media_type):
            stream, reducer = FrameStream(without=_CONTENT), ConverseReducer(status)
            for name, value in objects_of(stream, body):
                reducer.add(name, value)
            folded = reducer.result(ended=stream.done, problems=stream.problems)
        else:
            folded = self.fold(body, media_type, status)
        return facts.facts_of(folded, cached_apart=True)

    def request_messages(self, body: bytes) -> RequestMessages:
        """See `Protocol`."""
        return converse_request(body)

    def framing(self, start: bytes, media_type: str) -> ObjectStream | None:
        """See `Protocol`."""
        return aws_framing(start, media_type)

    def reducer(self, status: int) -> EventReducer:
        """See `Protocol`."""
        return ConverseReducer(status)

    def fold_whole(self, body: bytes, status: int) -> Folded:
        """See `Protocol`."""
        return fold_converse(body, status)

    def fold(self, body: bytes, media_type: str, status: int) -> Folded:
        """See `Protocol`."""
        return reduce_chunks(self, (body,), media_type, status)


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


BEDROCK_CONVERSE = BedrockConverse()
