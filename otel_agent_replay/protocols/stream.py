"""A provider's event stream as JSON objects: the one place that knows `[DONE]`, blank data and broken events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_agent_replay.protocols.json_text import parse
from otel_agent_replay.protocols.sse import events_of, looks_like_sse

DONE = "[DONE]"


def is_stream(body: bytes, media_type: str) -> bool:
    """Whether `body` is an event stream. The bytes decide: an error in answer to a stream request is plain JSON."""
    if body[:1] in (b"{", b"["):
        return False
    return looks_like_sse(body) or "event-stream" in media_type


class JsonStream:
    """Iterate for `(event type, object)`. Afterwards `done` tells of the end mark, `problems` of what was no object."""

    def __init__(self, body: bytes) -> None:
        self.done = False
        self.problems: list[str] = []
        self._body = body

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, event in enumerate(events_of(self._body), 1):
            data = event.data.strip()
            if not data:
                continue
            if data == DONE:
                self.done = True
                continue
            if not event.valid:
                self.problems.append(f"event {number} is not UTF-8")
            value = parse(data)
            if isinstance(value, dict):
                yield event.type, value
            elif not event.ended:
                self.problems.append(f"event {number} is cut: {data[-60:]!r}")
            else:
                self.problems.append(f"event {number} is no JSON object: {data[:60]!r}")
