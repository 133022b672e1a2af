"""Values that strangers wrote for a fact -> the type that our attribute of it has. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from otel_agent_replay import semconv

_COUNTS: Final = frozenset(
    (
        semconv.USAGE_INPUT_TOKENS,
        semconv.USAGE_OUTPUT_TOKENS,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS,
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS,
        semconv.USAGE_REASONING_OUTPUT_TOKENS,
        semconv.REQUEST_MAX_TOKENS,
        semconv.REQUEST_SEED,
    )
)
_NUMBERS: Final = frozenset(
    (semconv.REQUEST_TEMPERATURE, semconv.REQUEST_TOP_P, semconv.REQUEST_TOP_K, semconv.COST_USD)
)
_LISTS: Final = frozenset((semconv.RESPONSE_FINISH_REASONS, semconv.REQUEST_STOP_SEQUENCES))
_INT64: Final = 1 << 63
_PROVIDERS: Final = {
    "az.ai.openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "google_genai": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "google.generative-ai": "gcp.gemini",
    "vertexai": "gcp.vertex_ai",
    "vertex_ai": "gcp.vertex_ai",
    "google.vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "amazon-bedrock": "aws.bedrock",
    "mistralai": "mistral_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "langchain": "",
}
"""Names of providers in other vocabularies -> OpenTelemetry's; "" for what is no provider."""


def fact_value(key: str, value: Any) -> Any:
    """Return the value in the type of attribute `key`; None where it cannot be that.

    Counts may come as text, lists as JSON text, texts with quotes of JSON around them.

    >>> fact_value("gen_ai.usage.input_tokens", "62")
    62
    """
    if key in _COUNTS:
        number = _number(value)
        return int(number) if number is not None and number == int(number) and abs(number) < _INT64 else None
    if key in _NUMBERS:
        return _number(value)
    if key in _LISTS:
        return _list(value)
    text = text_value(value)
    if key == semconv.PROVIDER_NAME and text:
        text = provider_name(text)
    return text or None


def text_value(value: Any) -> str:
    """Return a text, "" where `value` is none."""
    if not isinstance(value, str):
        return ""
    if value[:1] == '"' == value[-1:] and len(value) > 1:
        try:
            inner = json.loads(value)
        except ValueError:
            return value
        return inner if isinstance(inner, str) else value
    return value


def provider_name(text: str) -> str:
    """Return a provider in OpenTelemetry's words.

    >>> provider_name("openai.responses"), provider_name("OpenAI")
    ('openai', 'openai')
    """
    name = text.lower()
    for known in (name, name.rpartition(".")[0]):  # the Vercel AI SDK adds the API: `openai.responses`
        if known in _PROVIDERS:
            return _PROVIDERS[known]
    first = name.partition(".")[0]
    return name if first in ("azure", "gcp", "aws", "ibm") else first


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value.strip('"'))
        except ValueError:
            return None
    if isinstance(value, (int, float)) and abs(value) < float("inf"):
        return float(value)
    return None


def _list(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, str):
        value = [value] if value else []
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item for item in value if isinstance(item, str)) or None
