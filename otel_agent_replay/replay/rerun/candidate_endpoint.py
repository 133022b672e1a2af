"""Where the model requests of a re-run go: to the candidate's endpoint, with its key.

A candidate's base URL stands for the part of the request's URL before what the protocol itself adds. Without one the
request goes where the agent's own client sends it, be it a gateway.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from otel_agent_replay.boundary.environment import PLACEHOLDER
from otel_agent_replay.protocols.address import address_of
from otel_agent_replay.replay.ask.destination import address_below

_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_BEARER = "Bearer "


class CandidateEndpoint:
    """Implements `boundary.request_changes.ModelRoute`. "" for `base_url` or `key` leaves the client's own."""

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._key = key

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
