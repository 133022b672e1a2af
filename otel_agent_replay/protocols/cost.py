"""What a model call cost, by the price tables that come with genai-prices.

Offline: the tables are never refreshed here. Owns the translation of provider names between the two vocabularies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from otel_agent_replay import semconv

_log = logging.getLogger("otel_agent_replay")

# OpenTelemetry's provider names, where genai-prices spells them otherwise.
_PRICE_PROVIDERS = {
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "aws.bedrock": "aws",
    "gcp.vertex_ai": "google",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "mistral_ai": "mistral",
    "x_ai": "x-ai",
    "moonshot_ai": "moonshotai",
    "z_ai": "zai",
}
_COUNTS = {
    "input_tokens": semconv.USAGE_INPUT_TOKENS,
    "output_tokens": semconv.USAGE_OUTPUT_TOKENS,
    "cache_read_tokens": semconv.USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_tokens": semconv.USAGE_CACHE_WRITE_INPUT_TOKENS,
}


def cost_usd(provider: str, model: str, facts: Mapping[str, Any], *, at_ns: int | None = None) -> float | None:
    """The price in US dollars of the tokens in `facts` (`gen_ai.usage.*`), or None where no price is known.

    `at_ns` is when the call was made, Unix nanoseconds: prices change. Without usage there is no price, not a price
    of nought. Where `provider` is "" the model's name tells whose it is, if it can.
    """
    counts = {name: facts[key] for name, key in _COUNTS.items() if isinstance(facts.get(key), int)}
    if not counts or not model:
        return None
    when = datetime.fromtimestamp(at_ns / 1e9, timezone.utc) if at_ns is not None else None
    try:
        from genai_prices import Usage, calc_price

        price = calc_price(
            Usage(**counts),
            model,
            provider_id=_PRICE_PROVIDERS.get(provider, provider) or None,
            genai_request_timestamp=when,
        )
    except LookupError:
        return None
    except Exception as error:
        _say_once(type(error).__name__, str(error))
        return None
    return float(price.total_price)


@lru_cache(maxsize=64)
def _say_once(kind: str, message: str) -> None:
    _log.warning("no price for a model call: %s: %s", kind, message)
