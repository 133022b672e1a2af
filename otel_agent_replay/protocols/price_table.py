"""Prices by genai-prices, asked once for what it charges and multiplied from then on.

Asking takes some 100 us a call. A price is a sum of a rate for each kind of token; which rates hold depends on the
model, the moment (prices change), the tier that the input reaches, and which counts are told. These are found by asking
for prices that differ in one token, so that what is multiplied is what genai-prices would have charged, to the last
digit. What does not come out so is asked for each time. Only its public names are used, and `get_snapshot`, since a
program may load newer prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple

NAMES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""What is counted, by genai-prices' names."""

_MOST = 4096
_LARGEST = 10**12
_LEAST_INPUT, _SMALL = 8, 2  # tokens of a probe: more go in than come from caches


class _Model(NamedTuple):
    """A model that genai-prices knows: `info` is its ModelInfo; `price` its ModelPrice, None where that depends."""

    info: Any
    price: Any


class _Rates(NamedTuple):
    """What holds for one model, moment, tier and pattern of counts. `price` is kept so that its id stays its own."""

    price: Any
    fixed: Decimal
    each: tuple[Decimal | None, ...]


_UNKNOWN = _Model(None, None)
_Told = tuple[int | None, ...]


class PriceTable:
    """The prices of one snapshot of genai-prices. May be used from several threads."""

    def __init__(self, snapshot: Any) -> None:
        self.snapshot = snapshot
        self._models: dict[tuple[str | None, str], _Model] = {}
        self._tiers: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self._rates: dict[tuple[int, int, tuple[int | None, ...]], _Rates] = {}

    def price(self, provider: str | None, model: str, counts: Mapping[str, int], at_ns: int | None) -> Decimal | None:
        """Return US dollars; None for a model that has no price. Raises what genai-prices does at odd counts."""
        known = self._models.get((provider, model))
        if known is _UNKNOWN:
            return None
        when = None
        if known is None or known.price is None:
            when = datetime.now(timezone.utc) if at_ns is None else datetime.fromtimestamp(at_ns / 1e9, timezone.utc)
        if known is None:
            known = self._found(provider, model, counts, when)
            if known is _UNKNOWN:
                return None
        price = known.info.get_prices(when) if known.price is None else known.price
        told = tuple([counts.get(name) for name in NAMES])
        if not _is_plain(told):
            return _asked(provider, model, counts, when).total_price  # type: ignore[no-any-return]
        starts = self._tiers_of(price)
        tier = sum(told[0] > start for start in starts) if starts and told[0] else 0
        pattern = tuple([count and 1 for count in told])
        rates = self._rates.get((id(price), tier, pattern))
        if rates is None:
            rates = _rates_of(price, provider, model, when, _cell(starts, tier), pattern)
            asked: Decimal = _asked(provider, model, counts, when).total_price
            if _total(rates, told) != asked:
                return asked
            _keep(self._rates, (id(price), tier, pattern), rates)
        return _total(rates, told)

    def _found(self, provider: str | None, model: str, counts: Mapping[str, int], when: datetime | None) -> _Model:
        try:
            info = _asked(provider, model, counts, when).model
        except LookupError:
            found = _UNKNOWN
        else:
            found = _Model(info, None if isinstance(info.prices, list) else info.prices)
        _keep(self._models, (provider, model), found)
        return found

    def _tiers_of(self, price: Any) -> tuple[int, ...]:
        """Return above how many input tokens other rates hold, in order."""
        found = self._tiers.get(id(price))
        if found is None:
            starts = {tier.start for value in vars(price).values() for tier in getattr(value, "tiers", ())}
            found = price, tuple(sorted(starts))
            _keep(self._tiers, id(price), found)
        return found[1]


def _asked(provider: str | None, model: str, counts: Mapping[str, int], when: datetime | None) -> Any:
    from genai_prices import Usage, calc_price

    return calc_price(Usage(**counts), model, provider_id=provider, genai_request_timestamp=when)


def _is_plain(told: _Told) -> bool:
    """Whether counts are such that the price is a sum of rates: whole numbers, no more from caches than went in."""
    if not all(count is None or (type(count) is int and 0 <= count < _LARGEST) for count in told):
        return False
    return (told[0] or 0) >= (told[2] or 0) + (told[3] or 0)


def _cell(starts: tuple[int, ...], tier: int) -> tuple[int, int]:
    """Return the least and the most input tokens of a tier."""
    return starts[tier - 1] + 1 if tier else 0, starts[tier] if tier < len(starts) else _LARGEST


def _rates_of(
    price: Any, provider: str | None, model: str, when: datetime | None, cell: tuple[int, int], pattern: _Told
) -> _Rates | None:
    """Return the rates for counts of one pattern (None: not told, 0, or 1: some); None where they are not found."""
    least = max(cell[0], _LEAST_INPUT)
    if pattern[0] and least + 1 > cell[1]:
        return None
    first = {
        name: (least if name == NAMES[0] else _SMALL) if some else 0
        for name, some in zip(NAMES, pattern, strict=True)
        if some is not None
    }
    base: Decimal = _asked(provider, model, first, when).total_price
    each: list[Decimal | None] = []
    fixed = base
    for name, some in zip(NAMES, pattern, strict=True):
        if not some:
            each.append(None)
            continue
        rate = _asked(provider, model, {**first, name: first[name] + 1}, when).total_price - base
        each.append(rate)
        fixed -= rate * first[name]
    return _Rates(price, fixed, tuple(each))


def _total(rates: _Rates | None, told: _Told) -> Decimal | None:
    if rates is None:
        return None
    total = rates.fixed
    for rate, count in zip(rates.each, told, strict=True):
        if rate is not None and count:
            total += rate * count
    return total


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value; what very many different models leave behind goes all at once."""
    if len(kept) >= _MOST:
        kept.clear()
    kept[key] = value
