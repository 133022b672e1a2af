"""What a run that asks models live may spend, and has: held while it runs, before each further request.

A call's use is known when it has ended, so a run may go beyond its limit by the calls that are in flight then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.boundary.request_changes import RequestRewriter
from otel_agent_replay.errors import ReplayInterrupt, SpendingLimit
from otel_agent_replay.model import AnswerSource, Call, Kind, Outcome
from otel_agent_replay.protocols import PROTOCOLS, cost_usd

_FIRST_ERROR = 400  # of HTTP's status codes


@dataclass(frozen=True, slots=True)
class Spending:
    """What one run may use: `tokens` and `usd` of its model calls; None: as much as it wants."""

    tokens: int | None = None
    usd: float | None = None


class Meter:
    """What the model calls of one run have used, against what it may use. Thread-safe.

    A call's use is known when it has ended: what is in flight beside it may go beyond the limit. `price` (US dollars a
    million tokens given and made) counts before the known prices.
    """

    def __init__(self, limit: Spending, price: tuple[float, float] | None = None) -> None:
        self._limit = limit
        self._price = price
        self._lock = threading.Lock()
        self.tokens = 0
        self.usd = 0.0
        self.unpriced = ""
        self.untold = False

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Count a crossing that has ended, if it is a live model call."""
        if crossing.call.kind is not Kind.MODEL or crossing.source is not AnswerSource.LIVE or outcome.head is None:
            return
        facts = {**crossing.call.attributes, **outcome.attributes, **_facts(crossing.call, outcome)}
        counts = [facts.get(key) for key in (semconv.USAGE_INPUT_TOKENS, semconv.USAGE_OUTPUT_TOKENS)]
        tokens = [count if isinstance(count, int) else 0 for count in counts]
        model = facts.get(semconv.RESPONSE_MODEL) or facts.get(semconv.REQUEST_MODEL)
        cost = self._cost(facts, model, tokens) if any(tokens) else None
        with self._lock:
            self.tokens += sum(tokens)
            self.usd += cost or 0.0
            if outcome.head.status < _FIRST_ERROR:
                self.untold = self.untold or not any(tokens)
                if cost is None:
                    self.unpriced = str(model or "an unnamed model")

    def _cost(self, facts: Mapping[str, Any], model: object, tokens: Sequence[int]) -> float | None:
        if self._price is not None:
            return sum(count * price for count, price in zip(tokens, self._price, strict=True)) / 1e6
        provider = facts.get(semconv.PROVIDER_NAME)
        return cost_usd(provider, model, facts) if isinstance(provider, str) and isinstance(model, str) else None

    def refusal(self) -> ReplayInterrupt | None:
        """Return what to raise instead of another model call, or None."""
        limit = self._limit
        with self._lock:
            if self.untold and limit != Spending():
                return SpendingLimit("an answer does not tell what it used, so no limit can be held")
            if limit.tokens is not None and self.tokens >= limit.tokens:
                return SpendingLimit(f"it has used {self.tokens} tokens of {limit.tokens}")
            if limit.usd is None:
                return None
            if self.unpriced:
                return SpendingLimit(f"no price is known for {self.unpriced}, so {limit.usd} USD cannot be held")
            if self.usd >= limit.usd:
                return SpendingLimit(f"it has spent {self.usd:.6f} USD of {limit.usd}")
        return None


class MeteredRequests:
    """Implements `boundary.request_changes.RequestRewriter`: stops a run before a request that it may not pay for.

    `inner` changes the request (None: nobody does); `stop` makes an interrupt the session's.
    """

    def __init__(
        self, meter: Meter, inner: RequestRewriter | None, stop: Callable[[ReplayInterrupt], ReplayInterrupt]
    ) -> None:
        self._meter, self._inner, self._stop = meter, inner, stop

    def rewrite(
        self, call: Call, place: Place, protocol: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> bytes | None:
        """Return what `inner` does. Raises SpendingLimit where nothing is left to spend."""
        refusal = self._meter.refusal()
        if refusal is not None:
            raise self._stop(refusal)
        return None if self._inner is None else self._inner.rewrite(call, place, protocol, body, headers)

    def address(self, url: str) -> str:
        """Return the URL as `inner` has it."""
        return url if self._inner is None else self._inner.address(url)


def _facts(call: Call, outcome: Outcome) -> dict[str, object]:
    """Return what the answer tells of its model and its use; {} where its bytes are not at hand."""
    protocol = PROTOCOLS.get(str(call.attributes.get(semconv.PROTOCOL)))
    result, head = outcome.result, outcome.head
    if protocol is None or result is None or result.data is None or head is None:
        return {}
    url = "" if call.head is None else call.head.url
    try:
        body = decoded_body(result.data, head.headers)
    except CodingError:
        return {}
    asked = protocol.request_facts(call.request.data or b"", url)
    answered = protocol.response_facts(body, result.media_type, head.status)
    return {semconv.PROVIDER_NAME: protocol.provider(url), **asked, **answered}
