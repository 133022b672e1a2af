"""What going on live would take, from what the recording used from that step on. Pure: it asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind, RecordedRun, RecordedSpan
from otel_agent_replay.protocols.cost import cost_usd
from otel_agent_replay.trials.options import TrialOptions


@dataclass(frozen=True, slots=True)
class Forecast:
    """Model calls, tokens and US dollars of one live trial from a step on; `usd` None: no price is known.

    `untold` of the calls have no tokens on record, so that they count as nothing.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    untold: int = 0

    def times(self, count: int) -> Forecast:
        """Return what so many of them take."""
        usd = None if self.usd is None else self.usd * count
        return Forecast(
            self.calls * count, self.input_tokens * count, self.output_tokens * count, usd, self.untold * count
        )


def forecast(recorded: RecordedRun, at: int, options: TrialOptions) -> Forecast:
    """Return what a live trial from step `at` takes if it uses what the recording used, at the candidate's price."""
    calls = [
        one
        for one in recorded.spans
        if one.node is not None and one.node.kind is Kind.MODEL and (one.node.step or 0) >= at
    ]
    tokens = [(_tokens(one, semconv.USAGE_INPUT_TOKENS), _tokens(one, semconv.USAGE_OUTPUT_TOKENS)) for one in calls]
    told = [(one, was, made) for one, (was, made) in zip(calls, tokens, strict=True) if was or made]
    prices = [_usd(one, was, made, options) for one, was, made in told]
    usd = None if any(price is None for price in prices) else sum(price or 0.0 for price in prices)
    if calls and not told:
        usd = None
    return Forecast(
        len(calls), sum(was for _, was, _ in told), sum(made for *_, made in told), usd, len(calls) - len(told)
    )


def total(forecasts: Sequence[Forecast]) -> Forecast:
    """Return all of them together; no price of one is no price of all."""
    usd = None if any(one.usd is None for one in forecasts) else sum(one.usd or 0.0 for one in forecasts)
    return Forecast(
        sum(one.calls for one in forecasts),
        sum(one.input_tokens for one in forecasts),
        sum(one.output_tokens for one in forecasts),
        usd,
        sum(one.untold for one in forecasts),
    )


def _tokens(one: RecordedSpan, key: str) -> int:
    found = one.span.attributes.get(key)
    return found if isinstance(found, int) else 0


def _usd(one: RecordedSpan, given: int, made: int, options: TrialOptions) -> float | None:
    candidate, facts = options.candidate, one.span.attributes
    if candidate.price is not None:
        return (given * candidate.price[0] + made * candidate.price[1]) / 1e6
    recorded = facts.get(semconv.COST_USD)
    if not candidate.model and isinstance(recorded, (int, float)):
        return float(recorded)
    model = candidate.model or str(facts.get(semconv.RESPONSE_MODEL) or facts.get(semconv.REQUEST_MODEL) or "")
    counts = {semconv.USAGE_INPUT_TOKENS: given, semconv.USAGE_OUTPUT_TOKENS: made}
    return cost_usd(str(facts.get(semconv.PROVIDER_NAME) or ""), model, counts)
