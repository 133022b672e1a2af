"""An observer that keeps nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from otel_agent_replay.model import Chunk, HttpResponseHead, Loss, Outcome, Read

if TYPE_CHECKING:
    from otel_agent_replay.boundary.crossing import Crossing, Place

_NOTHING_CURRENT = nullcontext()


class NothingRecorded:
    """Implements `boundary.observer.Observer`."""

    wants_facts = False

    def began(self, crossing: Crossing) -> None:
        """A crossing begins."""

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """It ended."""

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """A scope was opened."""

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """It was closed."""

    def read(self, place: Place, read: Read) -> None:
        """A bulk read was made."""

    def sent(self, crossing: Crossing) -> None:
        """A streamed request is known."""

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """A part of a body came."""

    def lost(self, loss: Loss) -> None:
        """Something was not kept."""

    def inside(self, place: Place) -> AbstractContextManager[object]:  # noqa: ARG002 - the protocol's
        """Make nothing current."""
        return _NOTHING_CURRENT
