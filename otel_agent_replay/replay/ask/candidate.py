"""A candidate: what is changed in a recorded request, and where the changed one goes.

    Candidate.from_arguments("model=gpt-5-mini,base_url=http://127.0.0.1:8000/v1", [], read=...)

Without any change it is the recorded model asked again. Owns the form of `--candidate`, and what is sent to it.
A request goes to the recorded endpoint or to the one that `base_url` declares, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.masks import is_mask
from otel_agent_replay.protocols import PROTOCOLS, Protocol
from otel_agent_replay.protocols.address import address_of
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.protocols.translation import translate
from otel_agent_replay.replay.ask.answer import Price
from otel_agent_replay.replay.ask.destination import (
    Endpoint,
    address_below,
    checked_base_url,
    endpoint_of,
    recorded_address,
    spoken_at,
)
from otel_agent_replay.replay.ask.keys import key_headers
from otel_agent_replay.replay.ask.request import RecordedStep

_KEYS = ("model", "base_url", "key_env", "api", "price")
_GENERAL = frozenset(("content-type", "accept"))
_OF_PROTOCOL = frozenset(("anthropic-version", "anthropic-beta", "openai-beta"))
_NOT_SENT = frozenset(
    (
        "accept-encoding", "baggage", "connection", "content-encoding", "content-length", "expect", "host",
        "idempotency-key", "keep-alive", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it is sent, in `protocol`, which its answer speaks too; `model` is the one it asks for.

    `allowed` are the endpoints that it may go to. `lost` names what the recorded request asks for and this one, in
    another protocol's words, does not.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)  # the key is among them
    body: bytes
    protocol: Protocol
    provider: str
    model: str
    allowed: frozenset[Endpoint]
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is changed: `edits` in the request, `base_url` where it goes ("": where it went).

    `protocol` is the one that the endpoint speaks ("": what is known of its host, else the recorded one): a request of
    another protocol is translated. `key_variable` names the environment variable of its key where that is not its
    provider's usual one, `price` counts before the known prices.
    """

    edits: RequestEdits = field(default_factory=RequestEdits)
    base_url: str = ""
    protocol: str = ""
    key_variable: str = ""
    price: Price | None = None

    @classmethod
    def from_arguments(cls, text: str = "", settings: Sequence[str] = (), *, read: Callable[[str], str]) -> Candidate:
        """Return the candidate of `model=NEW,base_url=URL,key_env=NAME,api=PROTOCOL,price=IN/OUT` and of edits.

        `settings` are edits as `RequestEdits.from_arguments` takes them. Raises ConfigurationError.
        """
        given: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or not value or name not in _KEYS:
                raise ConfigurationError(
                    f"{part!r} is no part of a candidate, which is like model=NEW,base_url=http://127.0.0.1:8000/v1, "
                    f"each of {', '.join(_KEYS)} once at most"
                )
            if name in given:
                raise ConfigurationError(f"{name}= is given twice in the candidate {text!r}")
            given[name] = value
        edits = RequestEdits.from_arguments(settings, read=read) if settings else RequestEdits()
        if "model" in given:
            if edits.model is not None:
                raise ConfigurationError("the candidate's model is given twice: model= in it and among the settings")
            edits = replace(edits, model=given["model"])
        return cls(
            edits,
            checked_base_url(given.get("base_url", "")),
            _protocol_name(given.get("api", "")),
            given.get("key_env", ""),
            _price(given.get("price", "")),
        )

    @property
    def name(self) -> str:
        """What it is called for people: what it changes."""
        parts = [f"model={self.edits.model}"] if self.edits.model else []
        parts += [part for part in self.edits.parts if part != "model"]
        parts += [f"at {self.base_url}"] if self.base_url else []
        return ", ".join(parts) or "the recorded model again"

    def to_json(self) -> dict[str, Any]:
        """Return what tells it from others: not its key's variable, not its price."""
        whole = {"edits": self.edits.to_json(), "base_url": self.base_url, "protocol": self.protocol}
        return {name: value for name, value in whole.items() if value}

    def recorded_again(self) -> Candidate:
        """Return the baseline beside it: the recorded model at its endpoint, with this one's key if that goes there."""
        return Candidate(key_variable="" if self.base_url else self.key_variable)

    def model_for(self, recorded: str) -> str:
        """Return the model that is asked where `recorded` was."""
        return self.edits.model or recorded

    def spoken(self, recorded: str) -> str:
        """Return the protocol of what is sent where a request of protocol `recorded` was."""
        return self.protocol or (spoken_at(self.base_url, recorded) if self.base_url else recorded)

    def address(self, url: str, recorded: str, model: str) -> str:
        """Return where a request of protocol `recorded` for `model` that went to `url` goes now.

        Raises CannotJudge where nobody knows, and where another protocol is spoken but no model of it is named.
        """
        spoken = self.spoken(recorded)
        if spoken != recorded and self.edits.model is None:
            raise CannotJudge(
                f"the request speaks {recorded} and the candidate {spoken}: name a model of its own (model=NAME), or "
                f"say that it speaks {recorded} too (api={recorded})"
            )
        if self.base_url:
            return address_below(self.base_url, spoken, recorded=url, model=self.model_for(model))
        if spoken != recorded:
            raise CannotJudge(f"the recorded endpoint speaks {recorded}; say where {spoken} is spoken: base_url=URL")
        return recorded_address(url, self.edits.model)

    def question(self, step: RecordedStep, environment: Mapping[str, str]) -> Question:
        """Return the request to send; its key is looked up in `environment`.

        Without edits its body is the recorded one, byte for byte, unless another protocol is spoken there. Raises
        NoKey for a key that is not there, ConfigurationError for edits that do not fit, CannotJudge where it cannot be
        sent.
        """
        url = self.address(step.url, step.protocol.name, step.model)
        spoken, model = PROTOCOLS[self.spoken(step.protocol.name)], self.model_for(step.model)
        translated = translate(step.body, step.protocol.name, spoken.name, model=model)
        edits = self.edits
        if edits.model is not None and address_of(url) is not None:
            edits = replace(edits, model=None)  # the address names it
        return Question(
            url,
            (*self._headers(step, url, spoken.name), *key_headers(url, spoken.name, environment, self.key_variable)),
            edits.apply(spoken.name, translated.body) if edits else translated.body,
            spoken,
            spoken.provider(url),
            model,
            frozenset(endpoint_of(known) for known in (step.url, self.base_url) if known),
            translated.lost,
        )

    def _headers(self, step: RecordedStep, url: str, spoken: str) -> list[tuple[str, str]]:
        """Return the recorded headers that go along, and what the protocol needs: not the key."""
        needed = _GENERAL | _OF_PROTOCOL if spoken == step.protocol.name else frozenset[str]()
        is_recorded = bool(step.url) and endpoint_of(url) == endpoint_of(step.url)
        headers = [
            (name, value) for name, value in step.headers if _is_sent(name.lower(), value, needed, whole=is_recorded)
        ]
        there = {name.lower() for name, _ in headers}
        defaults = [("content-type", "application/json")]
        if spoken == "anthropic.messages":
            defaults.append(("anthropic-version", "2023-06-01"))
        return headers + [(name, value) for name, value in defaults if name not in there]


def _is_sent(name: str, value: str, needed: frozenset[str], *, whole: bool) -> bool:
    """Whether a recorded header goes along: to another endpoint than the recorded one only what is `needed` there."""
    if name in needed:
        return not is_mask(value)
    if not whole or name in _NOT_SENT or name.startswith(("proxy-", "x-stainless-", "x-amz-", ":")):
        return False
    return not credentials.is_header(name) and not is_mask(value)


def _protocol_name(text: str) -> str:
    if text and text not in PROTOCOLS:
        raise ConfigurationError(f"api={text} is not known; it is one of {', '.join(PROTOCOLS)}")
    return text


def _price(text: str) -> Price | None:
    if not text:
        return None
    given, slash, made = text.partition("/")
    try:
        price = Price(float(given), float(made))
    except ValueError:
        price = None
    if price is None or not slash or not (0 <= price.input_usd < float("inf") and 0 <= price.output_usd < float("inf")):
        raise ConfigurationError(
            f"price={text} is not IN/OUT, US dollars a million tokens given and made, like price=0.25/2"
        )
    return price
