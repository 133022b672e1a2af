"""Edits of model requests over a whole run: the rewriter that a fork or a re-run plugs into its session.

Owns what no single request tells: where in the conversation a message was added, so that later requests of the
same conversation, whose history knows nothing of it, get it at the same place.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Call
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.protocols.edit import is_prompt, last_user_message
from otel_agent_replay.protocols.request_edits import RequestEdits, messages_in


class EditedRequests:
    """Implements `boundary.request_changes.RequestRewriter` with one set of edits for every request of the run.

    A message is added to (or replaced in) the first request that is asked about. Later requests get it where they
    begin with the same messages; those of other conversations (a sub-agent's) only get the other edits.
    """

    def __init__(self, edits: RequestEdits) -> None:
        self.edits = edits
        self._without_messages = RequestEdits(
            model=edits.model, prompt=edits.prompt, settings=edits.settings, tools=edits.tools
        )
        self._lock = threading.Lock()
        self._at: int | None = None
        self._known = 0  # how many messages tell the conversation: those before that place, and the replaced one
        self._before = b""  # their digest

    def rewrite(
        self, call: Call, place: Place, protocol: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> bytes | None:
        """Return the edited body, None where nothing changes. Raises ConfigurationError where an edit does not fit."""
        del call, place, headers
        edits, at = self.edits, None
        if edits.messages or edits.last_user_message is not None:
            at = self._place(messages_in(protocol, body))
            if at is None:
                edits = self._without_messages
        edited = edits.apply(protocol, body, at=at)
        return None if edited == body else edited

    def address(self, url: str) -> str:
        """Return the URL with the edited model where its path names one; else the same."""
        return self.edits.address(url)

    def _place(self, messages: list[Any]) -> int | None:
        """Return where the message belongs in this request, None when it is of another conversation."""
        replaces = self.edits.last_user_message is not None
        with self._lock:
            if self._at is None:
                place = last_user_message(messages) if replaces else len(messages)
                if place is None:
                    raise ConfigurationError("the request has no user message with a text to replace")
                self._at, self._known = place, place + replaces
                self._before = _digest(messages[: self._known])
                return place
            fits = len(messages) >= self._known and _digest(messages[: self._known]) == self._before
            return self._at if fits else None


def _digest(messages: list[Any]) -> bytes:
    """Return the digest of what makes a conversation this one: its system prompt may hold the time of day."""
    said = [_settled(message) for message in messages if not is_prompt(message)]
    return hashlib.sha256(canonical_json(said)).digest()


def _settled(value: Any) -> Any:
    """Return the value without what agents change from request to request: the marks of cached prefixes."""
    if isinstance(value, dict):
        return {
            key: _settled(one)
            for key, one in value.items()
            if key != "cache_control" and not (key == "type" and one == "message")
        }
    return [_settled(one) for one in value] if isinstance(value, list) else value
