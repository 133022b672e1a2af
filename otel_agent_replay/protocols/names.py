"""Finding a protocol by the name that a person gives it: ours, or one of those that are in use elsewhere."""

from __future__ import annotations

import re
from typing import Final

from otel_agent_replay.protocols.protocol import Protocol
from otel_agent_replay.protocols.recognise import PROTOCOLS

# Providers whose name alone means Chat Completions.
_COMPATIBLE: Final = [
    "alibaba",
    "azure",
    "cerebras",
    "crusoe",
    "deepseek",
    "fireworks",
    "groq",
    "huggingface",
    "mistral",
    "moonshotai",
    "openrouter",
    "perplexity",
    "snowflake",
    "together",
    "vllm",
    "writer",
    "xai",
    "zai",
]
_ALIASES: Final = {
    **dict.fromkeys(_COMPATIBLE, "openai.chat_completions"),
    "openai": "openai.chat_completions",
    "openai.chat": "openai.chat_completions",
    "chat.completions": "openai.chat_completions",
    "azure.openai": "openai.chat_completions",
    "mistral.chat": "openai.chat_completions",
    "azure.openai.chat.completions": "openai.chat_completions",
    "azure.openai.responses": "openai.responses",
    "responses": "openai.responses",
    "anthropic": "anthropic.messages",
    "messages": "anthropic.messages",
    "google": "google.generate_content",
    "gemini": "google.generate_content",
    "google.gemini": "google.generate_content",
    "google.vertex": "google.generate_content",
    "vertex": "google.generate_content",
    "bedrock.converse": "aws.bedrock_converse",
    "bedrock.converse.stream": "aws.bedrock_converse",
    "bedrock.invoke": "aws.bedrock_invoke",
    "bedrock.invoke.model": "aws.bedrock_invoke",
    "cohere": "cohere.chat",
    "ollama": "ollama.chat",
    "completions": "openai.completions",
}


def protocol_named(name: str) -> Protocol | None:
    """The protocol of a name, dots, dashes, underscores and case being all one; None where nobody has it.

    >>> protocol_named("openai.chat.completions").name
    'openai.chat_completions'
    """
    return _BY_PLAIN_NAME.get(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", ".", name.strip().lower())


_BY_PLAIN_NAME: Final = {
    **{_plain(alias): PROTOCOLS[name] for alias, name in _ALIASES.items() if name in PROTOCOLS},
    **{_plain(name): protocol for name, protocol in PROTOCOLS.items()},
}
