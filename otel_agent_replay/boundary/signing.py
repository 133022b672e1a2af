"""Who signed the request that is under way: a client's signature covers body and path, so a changed one needs another.

Owns the place where a signer is remembered between signing and sending. Knows no signature's form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from otel_agent_replay.boundary.http_call import SentRequest, header

Headers = tuple[tuple[str, str], ...]
Signer = Callable[[SentRequest], Headers]
"""Gives the headers of a request with a new signature by the same client, for the same account."""

_latest: ContextVar[tuple[str, Signer] | None] = ContextVar("agent_replay_signer", default=None)


def signed(signature: str, signer: Signer) -> None:
    """Remember that `signer` has just made `signature`, a request's `Authorization`."""
    _latest.set((signature, signer))


def signed_again(original: Headers, changed: SentRequest) -> Headers | None:
    """Return the headers of `changed` with a signature of its own, None where nobody can sign it.

    `original` are the headers of the request that it was made of: they tell whether the remembered signer signed it.
    """
    latest = _latest.get()
    if latest is None or latest[0] != header(original, "authorization"):
        return None
    return latest[1](changed)
