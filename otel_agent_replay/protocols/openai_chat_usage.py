"""Token counts of Chat Completions and Completions answers, wherever a provider puts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_agent_replay.protocols.folded import Usage
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects

_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")  # DeepSeek; Together, Moonshot; Mistral


def usage_in(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The usage object of a chunk or answer, also where Groq and Moonshot put it."""
    usage = value.get("usage")
    if usage is None and isinstance(value.get("x_groq"), dict):
        usage = value["x_groq"].get("usage")
    if usage is None:
        usage = next((choice["usage"] for choice in as_objects(value.get("choices")) if choice.get("usage")), None)
    return usage if isinstance(usage, Mapping) else None


def usage_of(usage: Mapping[str, Any] | None) -> Usage | None:
    """The counts of a Chat Completions usage object."""
    if usage is None:
        return None
    prompt = as_object(usage.get("prompt_tokens_details"))
    completion = as_object(usage.get("completion_tokens_details"))
    cached = (prompt.get("cached_tokens"), *(usage.get(name) for name in _CACHED))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        cache_read_input_tokens=next((count for count in map(as_count, cached) if count is not None), None),
        cache_creation_input_tokens=as_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=as_count(completion.get("reasoning_tokens", usage.get("reasoning_tokens"))),
    )
