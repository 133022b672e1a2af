"""Prices of model calls."""

from __future__ import annotations

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.protocols import cost_usd

AT = 1_764_400_000_000_000_000


def facts(given=1_000_000, made=0, cached=None):
    counts = {semconv.USAGE_INPUT_TOKENS: given, semconv.USAGE_OUTPUT_TOKENS: made}
    return counts if cached is None else {**counts, semconv.USAGE_CACHE_READ_INPUT_TOKENS: cached}


def test_a_known_model_has_its_price():
    """A million input tokens of gpt-4o cost 2.50 dollars, a million output tokens 10."""
    assert cost_usd("openai", "gpt-4o-2024-08-06", facts(), at_ns=AT) == pytest.approx(2.5)
    assert cost_usd("openai", "gpt-4o-2024-08-06", facts(0, 1_000_000), at_ns=AT) == pytest.approx(10.0)


def test_cached_tokens_are_cheaper():
    """Cached input is priced as cached, within the input total."""
    assert cost_usd("openai", "gpt-4o-2024-08-06", facts(cached=1_000_000), at_ns=AT) == pytest.approx(1.25)


def test_opentelemetry_provider_names_are_understood():
    """Azure and Mistral have other names in the price tables."""
    assert cost_usd("azure.ai.openai", "gpt-4o", facts(), at_ns=AT) is not None
    assert cost_usd("mistral_ai", "mistral-large-latest", facts(), at_ns=AT) is not None


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "no-such-model", facts()),
        ("no-such-provider", "gpt-4o", facts()),
        ("openai", "gpt-4o", {}),
        ("openai", "", facts()),
        ("anthropic", "claude-sonnet-4-5", facts(given=5, cached=50)),
    ],
)
def test_an_unknown_price_is_none_not_nought(provider, model, usage):
    """No model, no provider, no usage or counts that contradict each other: no price."""
    assert cost_usd(provider, model, usage, at_ns=AT) is None
