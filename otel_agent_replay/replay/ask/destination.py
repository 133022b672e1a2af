"""Where a request goes, and which protocol is spoken there: recorded addresses, base URLs, endpoints. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.payload.masks import URL_MASK
from otel_agent_replay.protocols.address import GOOGLE_ACTIONS, address_of, with_model
from otel_agent_replay.protocols.providers import provider_at

Endpoint = tuple[str, str, int]
"""Scheme, host and port."""

_PATHS: Final[Mapping[str, tuple[str, str]]] = {  # what clients append to a base URL; the version that may stand before
    "openai.chat_completions": ("/chat/completions", ""),
    "openai.completions": ("/completions", ""),
    "openai.responses": ("/responses", ""),
    "anthropic.messages": ("/messages", "/v1"),
    "google.generate_content": ("/models/{model}:{action}", "/v1beta"),
}
_CHAT: Final = ("openai.chat_completions",)
_SPOKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic.messages",),
    "gcp.gemini": ("google.generate_content",),
    "openai": ("openai.chat_completions", "openai.responses", "openai.completions"),
    "azure.ai.openai": ("openai.chat_completions", "openai.responses", "openai.completions"),
    **dict.fromkeys(
        ("groq", "deepseek", "mistral_ai", "x_ai", "openrouter", "together", "fireworks", "cerebras", "moonshot_ai"),
        _CHAT,
    ),
}
"""What a provider's own hosts speak, what is taken for granted first."""

_MASKED_PARAMETER = re.compile(rf"([?&])[^=&#]+={URL_MASK}(?=&|#|\Z)")


def endpoint_of(url: str) -> Endpoint:
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


def spoken_at(base_url: str, recorded: str) -> str:
    """Return the protocol that is spoken at a base URL: `recorded` where that is one of them, or where nobody knows."""
    spoken = _SPOKEN.get(provider_at(base_url) or "", ())
    return recorded if not spoken or recorded in spoken else spoken[0]


def recorded_address(url: str, model: str | None) -> str:
    """Return where a recorded request goes again, `model` (None: the recorded one) put where the address names it.

    What was masked in the address stays out of it. Raises CannotJudge for a recording that does not say where it went.
    """
    if not url:
        raise CannotJudge("the recording does not say where the request went; say where it goes: base_url=URL")
    if model is not None:
        url = with_model(url, model)
    return _MASKED_PARAMETER.sub(r"\1", url).replace("?&", "?").rstrip("?&")


def address_below(base_url: str, protocol: str, *, recorded: str, model: str) -> str:
    """Return the address of a protocol below a base URL, as its clients make it; of others the recorded path there."""
    ending, version = _PATHS.get(protocol, ("", ""))
    path = urlsplit(base_url).path.rstrip("/")
    if not ending:
        parts = urlsplit(recorded)
        return recorded_address(base_url + parts.path + (f"?{parts.query}" if parts.query else ""), model)
    if path.endswith(ending) or address_of(base_url) is not None:
        return base_url
    asked = address_of(recorded)
    action = asked.action if asked is not None and asked.action in GOOGLE_ACTIONS else GOOGLE_ACTIONS[0]
    whole = ending.replace("{model}", quote(model, safe="")).replace("{action}", action)
    if protocol.startswith("google.") and "alt=sse" in urlsplit(recorded).query:
        whole += "?alt=sse"
    return base_url + (whole if not version or re.search(r"/v\d\w*$", path) else version + whole)


def checked_base_url(text: str) -> str:
    """Return a base URL without a slash at its end; "" stays. Raises ConfigurationError for what is none."""
    if text:
        endpoint_of(text)
        if "@" in urlsplit(text).netloc:
            raise ConfigurationError("the base_url has a user in it: a key is named with key_env=VARIABLE")
        if urlsplit(text).query or urlsplit(text).fragment:
            raise ConfigurationError(f"base_url={text} has a query or a fragment; it is what a path can be added to")
    return text.rstrip("/")
