"""A candidate: what is changed in a recorded request, and where the changed one goes.

    Candidate.from_arguments("model=gpt-5-mini,base_url=http://127.0.0.1:8000/v1", [], read=...)

Without any change it is the recorded model asked again. Owns the form of `--candidate`, the address, and the headers.
A request goes to the recorded endpoint or to the one that `base_url` declares, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.masks import URL_MASK, is_mask
from otel_agent_replay.protocols import PROTOCOLS, Protocol
from otel_agent_replay.protocols.address import with_model
from otel_agent_replay.protocols.providers import provider_at
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.ask.answer import Price
from otel_agent_replay.replay.ask.keys import key_headers
from otel_agent_replay.replay.ask.request import RecordedStep

_KEYS = ("model", "base_url", "key_env", "api", "price")
_PATHS: Final[Mapping[str, tuple[str, str]]] = {  # what clients append to a base URL; with a version before it
    "openai.chat_completions": ("/chat/completions", ""),
    "openai.responses": ("/responses", ""),
    "anthropic.messages": ("/messages", "/v1"),
}
_OWN_PROTOCOL: Final[Mapping[str, str]] = {"anthropic": "anthropic.messages"}
"""What a provider's host speaks, where that is one protocol only."""

_MEANINGFUL = frozenset(("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta"))
_NOT_SENT = frozenset(
    (
        "accept-encoding", "baggage", "connection", "content-encoding", "content-length", "expect", "host",
        "idempotency-key", "keep-alive", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
_DEPLOYMENT = re.compile(r"(/openai/deployments/)[^/?#]+")
_MASKED_PARAMETER = re.compile(rf"([?&])[^=&#]+={URL_MASK}(?=&|#|\Z)")


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it is sent. `allowed` are the endpoints that it may go to; `model` is the one it asks for."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)  # the key is among them
    body: bytes
    protocol: Protocol
    provider: str
    model: str
    allowed: frozenset[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is changed: `edits` in the request, `base_url` where it goes ("": where it went).

    `protocol` is the one that the endpoint speaks ("": the recorded one), `key_variable` names the environment
    variable of its key where that is not its provider's usual one, `price` counts before the known prices.
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
            _base_url(given.get("base_url", "")),
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

    def model_for(self, recorded: str) -> str:
        """Return the model that is asked where `recorded` was."""
        return self.edits.model or recorded

    def address(self, url: str, protocol: str) -> str:
        """Return where a request of `protocol` that went to `url` goes now. Raises CannotJudge where nobody knows."""
        self._same_protocol(protocol)
        if self.base_url:
            return _joined(self.base_url, url, protocol)
        if not url:
            raise CannotJudge("the recording does not say where the request went; say where it goes: base_url=URL")
        if self.edits.model is not None:
            if provider_at(url) == "azure.ai.openai":
                url = _DEPLOYMENT.sub(lambda match: match[1] + str(self.edits.model), url)
            url = with_model(url, self.edits.model)
        return url

    def question(self, step: RecordedStep, environment: Mapping[str, str]) -> Question:
        """Return the request to send; its key is looked up in `environment`.

        Without edits its body is the recorded one, byte for byte. Raises ConfigurationError for edits that do not fit
        and for a key that is not there, CannotJudge where it cannot be sent.
        """
        url = _MASKED_PARAMETER.sub(r"\1", self.address(step.url, step.protocol.name)).replace("?&", "?").rstrip("?&")
        body = self.edits.apply(step.protocol.name, step.body) if self.edits else step.body
        is_recorded = bool(step.url) and endpoint_of(url) == endpoint_of(step.url)
        headers = [(name, value) for name, value in step.headers if _is_sent(name.lower(), value, whole=is_recorded)]
        there = {name.lower() for name, _ in headers}
        defaults = [("content-type", "application/json")]
        if step.protocol.name == "anthropic.messages":
            defaults.append(("anthropic-version", "2023-06-01"))
        headers += [(name, value) for name, value in defaults if name not in there]
        headers += key_headers(url, step.protocol.name, environment, self.key_variable)
        allowed = {endpoint_of(known) for known in (step.url, self.base_url) if known}
        return Question(
            url,
            tuple(headers),
            body,
            step.protocol,
            step.protocol.provider(url),
            self.model_for(step.model),
            frozenset(allowed),
        )

    def _same_protocol(self, recorded: str) -> None:
        """Refuse an endpoint of another protocol: a request is sent as it was written.

        Who translates requests begins here: `Question.protocol` is the protocol of what is sent and answered.
        """
        spoken = self.protocol or (_OWN_PROTOCOL.get(provider_at(self.base_url) or "", "") if self.base_url else "")
        if spoken and spoken != recorded:
            raise CannotJudge(
                f"the request speaks {recorded} and {self.base_url or 'the candidate'} speaks {spoken}: requests "
                f"are not translated; give an endpoint that speaks {recorded}, or say that this does: api={recorded}"
            )


def endpoint_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL. Raises ConfigurationError for one that is not HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"{url!r} is no http or https URL")
    return parts.scheme, parts.hostname.lower(), port or (443 if parts.scheme == "https" else 80)


def shown_endpoint(url: str) -> str:
    """Return an endpoint as `host:port`."""
    _, host, port = endpoint_of(url)
    return f"{host}:{port}"


def _joined(base: str, recorded: str, protocol: str) -> str:
    ending, version = _PATHS.get(protocol, ("", ""))
    path = urlsplit(base).path.rstrip("/")
    if not ending:
        parts = urlsplit(recorded)
        return base + parts.path + (f"?{parts.query}" if parts.query else "")
    if path.endswith(ending):
        return base
    return base + (ending if path.endswith("/v1") or not version else version + ending)


def _is_sent(name: str, value: str, *, whole: bool) -> bool:
    """Whether a recorded header goes along: to another endpoint than the recorded one only what the protocol needs."""
    if name in _MEANINGFUL:
        return not is_mask(value)
    if not whole or name in _NOT_SENT or name.startswith(("proxy-", "x-stainless-", "x-amz-", ":")):
        return False
    return not credentials.is_header(name) and not is_mask(value)


def _base_url(text: str) -> str:
    if text:
        endpoint_of(text)
        if urlsplit(text).query or urlsplit(text).fragment:
            raise ConfigurationError(f"base_url={text} has a query or a fragment; it is what a path can be added to")
    return text.rstrip("/")


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
