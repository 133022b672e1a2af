"""A protocol put together from its parts, and the cheap facts of its answers.

Facts of a stream come from the few objects that hold them (`glance`), given to the same reducer; where those are not
enough (a cut stream, an error) the whole stream is reduced, so that facts and fold never tell two stories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, RequestMessages, without_surrogates
from otel_agent_replay.protocols.json_text import has_surrogate_escape
from otel_agent_replay.protocols.protocol import Facts
from otel_agent_replay.protocols.providers import provider_at
from otel_agent_replay.protocols.reduction import reduce_chunks
from otel_agent_replay.protocols.stream import EventReducer, NamedObject, ObjectStream
from otel_agent_replay.protocols.stream_scan import scan


@dataclass(frozen=True, kw_only=True)
class ComposedProtocol:
    """See `Protocol`, whose methods these parts are. `own_provider` answers at a host that nobody knows.

    `glance(body, media_type)` gives the objects of a stream that hold id, model, finish reason and usage, in order.
    """

    name: str
    operation: str
    own_provider: str
    read_facts: Callable[[bytes], Facts]
    read_messages: Callable[[bytes], RequestMessages]
    frame: Callable[[bytes, str], ObjectStream | None]
    glance: Callable[[bytes, str], Iterable[NamedObject]]
    reduce: Callable[[int], EventReducer]
    read_whole: Callable[[bytes, int], Folded]

    def provider(self, url: str) -> str:
        """The provider at `url`, else the protocol's own."""
        return provider_at(url) or self.own_provider

    def request_facts(self, body: bytes, url: str = "") -> Facts:
        """See `Protocol`."""
        return facts.with_deployment(self.read_facts(body), url)

    def response_facts(self, body: bytes, media_type: str, status: int) -> Facts:
        """See `Protocol`."""
        if self.frame(body[:64], media_type) is None:
            folded = self.read_whole(body, status)
        else:
            reducer = self.reduce(status)
            for name, value in self.glance(body, media_type):
                reducer.add(name, value)
            folded = reducer.result(ended=False, problems=())
            if folded.error is not None or folded.finish_reason is None:
                return _facts(self.fold(body, media_type, status))
        return _facts(without_surrogates(folded) if has_surrogate_escape(body) else folded)

    def request_messages(self, body: bytes) -> RequestMessages:
        """See `Protocol`."""
        return self.read_messages(body)

    def framing(self, start: bytes, media_type: str) -> ObjectStream | None:
        """See `Protocol`."""
        return self.frame(start, media_type)

    def reducer(self, status: int) -> EventReducer:
        """See `Protocol`."""
        return self.reduce(status)

    def fold_whole(self, body: bytes, status: int) -> Folded:
        """See `Protocol`."""
        return self.read_whole(body, status)

    def fold(self, body: bytes, media_type: str, status: int) -> Folded:
        """See `Protocol`."""
        return reduce_chunks(self, (body,), media_type, status)


def sse_glance(markers: tuple[bytes, ...]) -> Callable[[bytes, str], Iterator[NamedObject]]:
    """A `glance` at the first object of an event stream and those in whose text a marker occurs."""

    def glance(body: bytes, media_type: str) -> Iterator[NamedObject]:
        del media_type
        seen = scan(body, markers)
        for value in (seen.first, *seen.marked):
            yield "message", value

    return glance


def _facts(folded: Folded) -> Facts:
    reasons = (message.get("finish_reason") for message in folded.output_messages)
    return facts.response_facts(
        response_id=folded.response_id,
        model=folded.model,
        finish_reasons=[reason for reason in reasons if reason],
        usage=folded.usage,
        error_type=folded.error.type if folded.error else None,
    )
