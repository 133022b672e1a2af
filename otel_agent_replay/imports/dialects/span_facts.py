"""What one span says of an agent's run, whichever dialect said it: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_agent_replay.model import AttributeValue, Fidelity, Kind, MediaType, SideEffect


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """`kind` is None where a span says nothing of a run. Its `dialect` is the first that it speaks, "" where none.

    `request` and `result` are payload bytes: of a model call a request and answer of `protocol` (a provider's, as the
    source had them, or `otel.messages`), else typed JSON; None where the source kept none. `asked` and `answered` are
    facts by our attribute keys, in their types, whether or not the span has them so itself. `wraps` marks a call that
    only stands around those below it.
    """

    kind: Kind | None = None
    name: str = ""
    dialect: str = ""
    side_effect: SideEffect = SideEffect.NONE
    fidelity: Fidelity = Fidelity.TEXT
    request: bytes | None = None
    result: bytes | None = None
    media_type: str = MediaType.JSON.value
    protocol: str = ""
    asked: Mapping[str, AttributeValue] = field(default_factory=dict)
    answered: Mapping[str, AttributeValue] = field(default_factory=dict)
    thread_id: str = ""
    subject: str = ""
    wraps: bool = False

    def all(self) -> Mapping[str, AttributeValue]:
        """Return all facts."""
        return {**self.answered, **self.asked}


NOTHING = SpanFacts()
"""Of a span that says nothing."""
