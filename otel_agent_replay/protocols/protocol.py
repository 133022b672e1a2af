"""What a protocol must be able to do: the interface of `openai_chat`, `openai_responses` and `anthropic_messages`."""

from __future__ import annotations

import typing

from otel_agent_replay.model import AttributeValue
from otel_agent_replay.protocols.folded import Folded, RequestMessages

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

    def request_facts(self, body: bytes) -> Facts:
        """`gen_ai.request.*` and the digest of the tools offered. For the hot path: does not parse the messages."""

    def response_facts(self, body: bytes, media_type: str, status: int) -> Facts:
        """`gen_ai.response.*`, `gen_ai.usage.*`, `error.type`. For the hot path: does not reduce a stream."""

    def request_messages(self, body: bytes) -> RequestMessages:
        """What the model was given, in OpenTelemetry's form."""

    def fold(self, body: bytes, media_type: str, status: int) -> Folded:
        """The whole answer as one value."""
