"""The bodies of a trajectory's requests, each message of them written and redacted once. Pure.

A request repeats all messages before it. Requests that begin alike are written together: the longest of them once, and
the others are its beginning with the same end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.imports.trajectories.trajectory import Beginning, ModelTurn
from otel_agent_replay.model import MediaType
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols import conversation_of

_MOST_ALIKE = 8
"""How many of the last conversations a request may be the beginning of: several agents may speak in turns."""


@dataclass(slots=True)
class _Conversation:
    """Requests that are beginnings of one: `messages` is the longest list, `head` and `tail` stand around each."""

    head: str
    tail: str
    messages: Sequence[Any]
    parts: list[bytes] = field(default_factory=list)
    """Head, messages, tail, written and redacted; empty until they are asked for."""
    digests: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    """Digest and bytes of a request, by the number of its messages."""

    def begins_with(self, messages: Sequence[Any]) -> bool:
        ours = self.messages
        if isinstance(ours, Beginning) and isinstance(messages, Beginning) and ours.of is messages.of:
            return messages.length <= ours.length
        if len(messages) > len(ours):
            return False
        beginning, asked = list(ours[: len(messages)]), list(messages)
        # What is equal may be written otherwise: members in another order, 1 and 1.0 and true.
        return beginning == asked and all(
            one is other or written(one) == written(other) for one, other in zip(beginning, asked, strict=True)
        )


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request: the first `count` messages of a conversation. `digest` is of `data()`, `size` its bytes."""

    conversation: _Conversation
    count: int
    digest: bytes
    size: int

    def data(self) -> bytes:
        """Return the bytes, put together anew."""
        parts = self.conversation.parts
        return b"".join((*parts[: self.count + 1], parts[-1]))

    def outline(self) -> bytes:
        """Return the bytes without messages: what facts about a request are read from."""
        return self.conversation.parts[0] + self.conversation.parts[-1]


class RequestBodies:
    """The bodies of the requests of a trajectory, by turn. `body` gives None for one in no form that has messages."""

    def __init__(self, turns: Iterable[ModelTurn], redaction: Redaction) -> None:
        self._redaction = redaction
        self._of: dict[int, tuple[_Conversation, int]] = {}
        recent: list[_Conversation] = []
        for turn in reversed(list(turns)):  # the longest comes last
            found = _around(turn.request, conversation_of(turn.protocol))
            if found is None:
                continue
            head, messages, tail = found
            alike = next(
                (one for one in recent if one.head == head and one.tail == tail and one.begins_with(messages)), None
            )
            if alike is None:
                alike = _Conversation(head, tail, messages)
            recent = [alike, *(one for one in recent if one is not alike)][:_MOST_ALIKE]
            alike.digests[len(messages)] = (b"", 0)
            self._of[id(turn)] = alike, len(messages)

    def body(self, turn: ModelTurn) -> RequestBody | None:
        """Return the body of the request of a turn, which must be one of those that were given."""
        found = self._of.get(id(turn))
        if found is None:
            return None
        conversation, count = found
        if not conversation.parts:
            self._write(conversation)
        return RequestBody(conversation, count, *conversation.digests[count])

    def _write(self, conversation: _Conversation) -> None:
        texts = [written(message) for message in conversation.messages]
        texts[1:] = [", " + text for text in texts[1:]]
        whole = [text.encode("utf-8", "surrogatepass") for text in (conversation.head, *texts, conversation.tail)]
        conversation.parts = parts = self._redaction.chunks(whole, MediaType.JSON.value)
        hashed, size, tail = hashlib.sha256(), 0, parts[-1]
        for count, part in enumerate(parts[:-1]):
            hashed.update(part)
            size += len(part)
            if count in conversation.digests:
                ended = hashed.copy()
                ended.update(tail)
                conversation.digests[count] = ended.digest(), size + len(tail)


def written(value: Any) -> str:
    """Return the JSON text of a value, in the spelling in which imported bodies are kept."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=list)


def _around(request: Mapping[str, Any], conversation: str) -> tuple[str, Sequence[Any], str] | None:
    """Return a request's text before its messages, the messages, and the text after them."""
    messages = request.get(conversation)
    if not isinstance(messages, (list, Beginning)):
        return None
    members = list(request)
    at = members.index(conversation)
    head = [f"{written(name)}: {written(request[name])}, " for name in members[:at]]
    tail = [f", {written(name)}: {written(request[name])}" for name in members[at + 1 :]]
    return "{" + "".join(head) + f"{written(conversation)}: [", messages, "]" + "".join(tail) + "}"
