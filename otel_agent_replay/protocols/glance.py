"""The cheap facts of an answer, from a glance at it.

Facts of a stream come from the few objects that hold them (`glance`), given to the same reducer; where those are not
enough (a cut stream, an error) the whole stream is reduced, so that facts and fold never tell two stories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, without_surrogates
from otel_agent_replay.protocols.json_text import has_surrogate_escape
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.stream import NamedObject
from otel_agent_replay.protocols.stream_scan import scan

Glance = Callable[[bytes, str], Iterable[NamedObject]]
"""From a stream and its media type to the objects of it that hold id, model, finish reason and usage, in order."""


def glancing(glance: Glance) -> Callable[[Protocol, bytes, str, int], Facts]:
    """Return the `facts_of_answer` of a protocol whose streams are glanced at."""

    def facts_of_answer(protocol: Protocol, body: bytes, media_type: str, status: int) -> Facts:
        if protocol.framing(body[:64], media_type) is None:
            folded = protocol.fold_whole(body, status)
        else:
            reducer = protocol.reducer(status)
            for name, value in glance(body, media_type):
                reducer.add(name, value)
            folded = reducer.result(ended=False, problems=())
            if folded.error is not None or folded.finish_reason is None:
                return _facts(protocol.fold(body, media_type, status))
        return _facts(without_surrogates(folded) if has_surrogate_escape(body) else folded)

    return facts_of_answer


def sse_glance(markers: tuple[bytes, ...]) -> Glance:
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
