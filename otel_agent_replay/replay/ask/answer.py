"""An answer of a model as bytes, recorded or just received, and what it says of itself: tokens and price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import Protocol, cost_usd


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer, its content coding undone. Times: nanoseconds since the request was sent, None unknown."""

    status: int
    media_type: str
    body: bytes
    latency_ns: int | None = None
    first_byte_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars a million tokens."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of so many tokens."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


@dataclass(frozen=True, slots=True)
class Used:
    """What an answer used, as it says itself; None where it does not, or where no price is known."""

    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


def used_by(answer: Answer, protocol: Protocol, provider: str, model: str, *, price: Price | None = None) -> Used:
    """Return the tokens and the cost of an answer. `model` was asked for; `price` counts before the known prices."""
    facts = protocol.response_facts(answer.body, answer.media_type, answer.status)
    answering = facts.get(semconv.RESPONSE_MODEL)
    named = answering if isinstance(answering, str) and answering else model
    given, made = _count(facts, semconv.USAGE_INPUT_TOKENS), _count(facts, semconv.USAGE_OUTPUT_TOKENS)
    if price is not None:
        cost = None if given is None and made is None else price.of(given or 0, made or 0)
    else:
        cost = cost_usd(provider, named, facts)
        if cost is None and named != model:
            cost = cost_usd(provider, model, facts)
    return Used(named, given, made, cost)


def price_of(provider: str, model: str, input_tokens: int, output_tokens: int, price: Price | None) -> float | None:
    """Return what so many tokens cost today, None where no price is known."""
    if price is not None:
        return price.of(input_tokens, output_tokens)
    return cost_usd(
        provider, model, {semconv.USAGE_INPUT_TOKENS: input_tokens, semconv.USAGE_OUTPUT_TOKENS: output_tokens}
    )


def _count(facts: dict[str, Any], key: str) -> int | None:
    value = facts.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
