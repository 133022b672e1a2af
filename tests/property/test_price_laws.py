"""The law of prices: what a call costs is what genai-prices says, to the last digit, for all it has prices of."""

from __future__ import annotations

import datetime as dt
import logging

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.protocols import cost_usd
from otel_agent_replay.protocols.price_table import PriceTable

KEYS = {
    "input_tokens": semconv.USAGE_INPUT_TOKENS,
    "output_tokens": semconv.USAGE_OUTPUT_TOKENS,
    "cache_read_tokens": semconv.USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_tokens": semconv.USAGE_CACHE_WRITE_INPUT_TOKENS,
}
MODELS = [(provider.id, model) for provider in providers for model in provider.models]
AT = 1_764_400_000_000_000_000


def tiers_of(price):
    return sorted({tier.start for value in vars(price).values() for tier in getattr(value, "tiers", ())})


def moments_of(model):
    """Moments on both sides of every change of a model's prices."""
    moments = [dt.datetime(2025, 11, 29, 7, tzinfo=dt.timezone.utc)]
    for one in model.prices if isinstance(model.prices, list) else ():
        if hasattr(one.constraint, "start_date"):
            begin = dt.datetime.combine(one.constraint.start_date, dt.time(), dt.timezone.utc)
            moments += [begin, begin - dt.timedelta(seconds=1)]
        elif one.constraint is not None:
            for name in ("start_time", "end_time"):
                at = dt.datetime.combine(dt.date(2025, 11, 29), getattr(one.constraint, name)).replace(
                    tzinfo=dt.timezone.utc
                )
                moments += [at, at - dt.timedelta(seconds=1)]
    return moments


def asked(provider, model, counts, when):
    """What genai-prices itself says; None where it says nothing."""
    try:
        price = calc_price(Usage(**counts), model, provider_id=provider, genai_request_timestamp=when)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def ours(provider, model, counts, when):
    facts = {KEYS[name]: count for name, count in counts.items()}
    return cost_usd(provider, model, facts, at_ns=int(when.timestamp()) * 10**9)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.ERROR, logger="otel_agent_replay")


COUNTS = st.integers(0, 20) | st.integers(0, 10**9) | st.sampled_from([127_999, 128_000, 200_000, 200_001, 272_001])


@given(st.data())
def test_a_price_is_what_genai_prices_says(data):
    """Any model, any counts, told or not, on either side of a tier, at any moment."""
    provider, model = data.draw(st.sampled_from(MODELS))
    when = data.draw(st.sampled_from(moments_of(model)))
    edges = [start + by for start in tiers_of(model.get_prices(when)) for by in (0, 1)]
    for _ in range(data.draw(st.integers(1, 6))):
        counts = data.draw(st.dictionaries(st.sampled_from(sorted(KEYS)), COUNTS, min_size=1))
        if edges and "input_tokens" in counts:
            counts["input_tokens"] = data.draw(st.just(counts["input_tokens"]) | st.sampled_from(edges))
        assert ours(provider, model.id, counts, when) == asked(provider, model.id, counts, when)


def test_every_model_at_every_change_of_its_prices():
    """All models that genai-prices has, each on both sides of each of its changes and tiers."""
    priced = 0
    for provider, model in MODELS:
        for when in moments_of(model):
            for given_tokens in [9_876, *(start + by for start in tiers_of(model.get_prices(when)) for by in (0, 1))]:
                counts = {"input_tokens": given_tokens, "output_tokens": 543, "cache_read_tokens": 21}
                said = asked(provider, model.id, counts, when)
                assert ours(provider, model.id, counts, when) == said, model.id
                priced += said is not None
    assert priced > len(MODELS) / 2


def test_a_price_is_asked_for_a_few_times_only(monkeypatch):
    """A thousand calls of one model: genai-prices is asked when it is first met, never again."""
    import genai_prices

    calls = []
    real = genai_prices.calc_price
    monkeypatch.setattr(genai_prices, "calc_price", lambda *args, **more: (calls.append(args), real(*args, **more))[1])
    table = PriceTable(get_snapshot())
    for number in range(1000):
        table.price("openai", "gpt-4o", {"input_tokens": 1000 + number, "output_tokens": number + 1}, AT)
        table.price("openai", "no-such-model", {"input_tokens": 1000 + number}, AT)
    assert len(calls) < 10


def test_prices_that_the_program_replaces_count_at_once():
    """Newer prices, loaded while calls are priced, are the ones that are charged from then on."""
    facts = {semconv.USAGE_INPUT_TOKENS: 1_000_000, semconv.USAGE_OUTPUT_TOKENS: 0}
    assert cost_usd("openai", "gpt-4o", facts, at_ns=AT) == 2.5
    try:
        set_custom_snapshot(
            DataSnapshot(providers=[one for one in providers if one.id != "openai"], from_auto_update=True)
        )
        assert cost_usd("openai", "gpt-4o", facts, at_ns=AT) is None
    finally:
        set_custom_snapshot(None)
    assert cost_usd("openai", "gpt-4o", facts, at_ns=AT) == 2.5
