"""Who changes model requests on their way out: another body, another endpoint. Implemented outside `boundary`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import Call


class RequestRewriter(Protocol):
    """Changes model requests on their way out, for a fork or a re-run."""

    def rewrite(
        self, call: Call, place: Place, protocol: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> bytes | None:
        """Return the body to send instead, or None to leave it as it is."""

    def address(self, url: str) -> str:
        """Return the URL to send it to instead, for protocols that name the model there; else the same."""


class ModelRoute(Protocol):
    """Sends model requests to another endpoint, for a re-run."""

    def moved(
        self, protocol: str, url: str, headers: Sequence[tuple[str, str]]
    ) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return the URL and headers to send with instead, or None to leave both as they are."""
