"""What a protocol must be able to do: the interface that each one in `recognise.PROTOCOLS` has.

An answer is read in one way only: `framing` cuts the bytes into named objects as they come, `reducer` takes those one
by one, and what is no stream goes to `fold_whole`. `reduction` drives the three; `fold` is that, the body in one chunk.
"""

from __future__ import annotations

import typing

from otel_agent_replay.model import AttributeValue
from otel_agent_replay.protocols.folded import Folded, RequestMessages
from otel_agent_replay.protocols.stream import EventReducer, ObjectStream

Facts = dict[str, AttributeValue]
"""Attribute key (`semconv`) to value; a key is absent when the wire does not say."""


class Protocol(typing.Protocol):
    """One provider protocol: bytes in, data out; no method raises for whatever bytes it is given.

    Bodies are decoded of any content coding first. `name` is the value of `agent_replay.protocol`, `operation` that
    of `gen_ai.operation.name`.
    """

    @property
    def name(self) -> str:
        """For example `openai.chat_completions`."""

    @property
    def operation(self) -> str:
        """For example `chat`."""

    def provider(self, url: str) -> str:
        """The value of `gen_ai.provider.name` by host, else the protocol's own provider."""

    def request_facts(self, body: bytes, url: str = "") -> Facts:
        """`gen_ai.request.*` and the digest of the tools offered. For the hot path: does not parse the messages.

        `url` tells the model of protocols that name it there (see `address`); without it that fact is absent.
        """

    def response_facts(self, body: bytes, media_type: str, status: int) -> Facts:
        """`gen_ai.response.*`, `gen_ai.usage.*`, `error.type`. For the hot path: does not reduce a stream."""

    def request_messages(self, body: bytes) -> RequestMessages:
        """What the model was given, in OpenTelemetry's form."""

    def framing(self, start: bytes, media_type: str) -> ObjectStream | None:
        """A new framing for an answer that begins with `start` (64 bytes or all of it); None when it is no stream."""

    def reducer(self, status: int) -> EventReducer:
        """A new reducer for the objects of one stream."""

    def fold_whole(self, body: bytes, status: int) -> Folded:
        """An answer that is no stream."""

    def fold(self, body: bytes, media_type: str, status: int) -> Folded:
        """The whole answer as one value: `reduction.reduce_chunks` with one chunk."""
