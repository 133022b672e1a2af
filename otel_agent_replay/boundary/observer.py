"""Who is told what happens in a run: the session's other side, beside those who answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.model import Chunk, HttpResponseHead, Loss, Outcome, Read


class Observer(Protocol):
    """Who is told what happens. Implemented outside `boundary`; must not raise, must not block.

    `wants_facts` tells that attributes are of use now that can also be read later from heads and bodies (`gen_ai.*`).
    """

    wants_facts: bool

    def began(self, crossing: Crossing) -> None:
        """A crossing begins; its place, call and source are set."""

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """It ended. Called exactly once a crossing; of an answer's `bare` outcome the bytes lie in the answer."""

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """A scope (`replay.step`) or checkpoint was opened."""

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """It was closed."""

    def read(self, place: Place, read: Read) -> None:
        """A bulk read was made at `place`."""

    def sent(self, crossing: Crossing) -> None:
        """A request body that was streamed is now known: `crossing.call` was replaced by the complete call.

        Comes at most once, between `began` and `ended`.
        """

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """A part of a long body that is still arriving, redacted: what came since the last part.

        Once a part of a body was told, all of it is told in parts, the last one just before `ended`; the
        outcome's `result` then has the digest and size of the whole and no data, and its `chunks` are empty.
        """

    def lost(self, loss: Loss) -> None:
        """Something that crossed was not, or not wholly, kept."""

    def inside(self, place: Place) -> AbstractContextManager[object]:
        """Make the place's span the current one of the tracing library while its code runs."""
