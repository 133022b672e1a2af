"""What a protocol is: its name and its parts, each a function from a provider's bytes to data.

An answer is read in one way only: `framing` cuts the bytes into named objects as they come, `reducer` takes those one
by one, and what is no stream goes to `fold_whole`. `reduction` drives the three; `fold` is that, the body in one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from otel_agent_replay.model import AttributeValue
from otel_agent_replay.protocols.folded import Folded, RequestMessages
from otel_agent_replay.protocols.providers import provider_at
from otel_agent_replay.protocols.reduction import reduce_chunks
from otel_agent_replay.protocols.stream import EventReducer, ObjectStream

Facts = dict[str, AttributeValue]
"""Attribute key (`semconv`) to value; a key is absent when the wire does not say."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One provider protocol: bytes in, data out; nothing of it raises for whatever bytes it is given.

    Bodies are decoded of any content coding first. Its parts:

        name               the value of `agent_replay.protocol`, for example `openai.chat_completions`
        operation          the value of `gen_ai.operation.name`, for example `chat`
        own_provider       the provider at a host that nobody knows
        facts_of_request   what `request_facts` gives, of a body and a URL
        facts_of_answer    what `response_facts` gives, of the protocol itself, a body, its media type and the status
        request_messages   what the model was given, in OpenTelemetry's form
        framing            a new framing for an answer of a media type that begins with some bytes (64, or all of it);
                           None when it is no stream
        reducer            a new reducer, by the status, for the objects of one stream
        fold_whole         an answer that is no stream, of its body and status
    """

    name: str
    operation: str
    own_provider: str
    facts_of_request: Callable[[bytes, str], Facts]
    facts_of_answer: Callable[[Protocol, bytes, str, int], Facts]
    request_messages: Callable[[bytes], RequestMessages]
    framing: Callable[[bytes, str], ObjectStream | None]
    reducer: Callable[[int], EventReducer]
    fold_whole: Callable[[bytes, int], Folded]

    def provider(self, url: str) -> str:
        """The value of `gen_ai.provider.name` by host, else the protocol's own provider."""
        return provider_at(url) or self.own_provider

    def request_facts(self, body: bytes, url: str = "") -> Facts:
        """`gen_ai.request.*` and the digest of the tools offered. For the hot path: does not parse the messages.

        `url` tells the model of protocols that name it there (see `address`); without it that fact is absent.
        """
        return self.facts_of_request(body, url)

    def response_facts(self, body: bytes, media_type: str, status: int) -> Facts:
        """`gen_ai.response.*`, `gen_ai.usage.*`, `error.type`. For the hot path: does not reduce a stream."""
        return self.facts_of_answer(self, body, media_type, status)

    def fold(self, body: bytes, media_type: str, status: int) -> Folded:
        """The whole answer as one value: `reduction.reduce_chunks` with one chunk."""
        return reduce_chunks(self, (body,), media_type, status)
