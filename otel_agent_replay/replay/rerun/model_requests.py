"""The model requests of a re-run on their way out: how much may still be spent, what is edited, where they go.

A candidate's base URL stands for the part of the request's URL before what the protocol itself adds. Without one the
request goes where the agent's own client sends it, be it a gateway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.environment import PLACEHOLDER
from otel_agent_replay.boundary.http_coding import CodingError, decoded_body
from otel_agent_replay.errors import ReplayInterrupt, SpendingLimit
from otel_agent_replay.model import AnswerSource, Call, Kind, Outcome
from otel_agent_replay.protocols import PROTOCOLS, cost_usd
from otel_agent_replay.protocols.address import address_of
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.ask.destination import address_below
from otel_agent_replay.replay.edited_requests import EditedRequests
from otel_agent_replay.replay.rerun.plan import Candidate, Spending

_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_BEARER = "Bearer "
_FIRST_ERROR = 400  # of HTTP's status codes


class Meter:
    """What the model calls of one re-run have used, against what it may use. Thread-safe.

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


class ModelRequests:
    """Implements `boundary.request_changes.RequestRewriter` and `ModelRoute` for one re-run.

    `key` is the value of the candidate's key, "" to leave the client's own. `stop` makes an interrupt the session's.
    """

    def __init__(
        self,
        edits: RequestEdits,
        candidate: Candidate,
        meter: Meter,
        *,
        key: str,
        stop: Callable[[ReplayInterrupt], ReplayInterrupt],
    ) -> None:
        self._edits = EditedRequests(edits) if edits else None
        self._base_url = candidate.base_url.rstrip("/")
        self._key = key
        self._meter = meter
        self._stop = stop

    def rewrite(
        self, call: Call, place: Place, protocol: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> bytes | None:
        """Return the edited body. Raises SpendingLimit where nothing is left to spend."""
        refusal = self._meter.refusal()
        if refusal is not None:
            raise self._stop(refusal)
        return None if self._edits is None else self._edits.rewrite(call, place, protocol, body, headers)

    def address(self, url: str) -> str:
        """Return the URL with the candidate's model where its path names one; else the same."""
        return url if self._edits is None else self._edits.address(url)

    def moved(
        self, protocol: str, url: str, headers: Sequence[tuple[str, str]]
    ) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return the candidate's URL and headers for this request, None where it has none of its own.

        The client's own key goes to no other host than the client's.
        """
        if not (self._base_url or self._key):
            return None
        to = url
        if self._base_url:
            named = address_of(url)
            model = "" if named is None else named.model
            to = address_below(self._base_url, protocol, recorded=url, model=model)
        host = urlsplit(to).netloc.rpartition("@")[2]
        changed = [(name, host if name.lower() == "host" else value) for name, value in headers]
        if self._key:
            return to, tuple(_keyed(changed, self._key))
        elsewhere = host != urlsplit(url).netloc.rpartition("@")[2]
        has_key = any(name.lower() in _KEY_HEADERS for name, _ in headers)
        return to, tuple(_keyed(changed, PLACEHOLDER) if elsewhere and has_key else changed)


def _keyed(headers: Sequence[tuple[str, str]], key: str) -> list[tuple[str, str]]:
    """Return the headers with another key where the client put its own."""
    found = [
        (name, (_BEARER + key if name.lower() == "authorization" else key) if name.lower() in _KEY_HEADERS else value)
        for name, value in headers
    ]
    if not any(name.lower() in _KEY_HEADERS for name, _ in headers):
        found.append(("Authorization", _BEARER + key))
    return found


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
