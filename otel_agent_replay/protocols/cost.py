"""What a model call cost, by the price tables that come with genai-prices.

Offline: the tables are never refreshed here. Owns the translation of provider names between the two vocabularies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols.price_table import PriceTable

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
    try:
        price = _table().price(_PRICE_PROVIDERS.get(provider, provider) or None, model, counts, at_ns)
    except LookupError:
        return None
    except Exception as error:
        _say_once(type(error).__name__, str(error))
        return None
    return None if price is None else float(price)


def _table() -> PriceTable:
    """Return the prices of the snapshot in force, which the program may have replaced."""
    global _known
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    if _known is None or _known.snapshot is not snapshot:
        _known = PriceTable(snapshot)
    return _known


_known: PriceTable | None = None


@lru_cache(maxsize=64)
def _say_once(kind: str, message: str) -> None:
    _log.warning("no price for a model call: %s: %s", kind, message)
