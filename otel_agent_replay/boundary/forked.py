"""The observer of a run in a forked child of its process: it writes nothing.

The run is the parent's. Records of both would get the same steps and places, so a child's calls in it are not
recorded; that there were any is told once. Agents that begin in the child are runs of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from otel_agent_replay.model import Chunk, HttpResponseHead, Loss, LossReason, Outcome, Read

if TYPE_CHECKING:
    from otel_agent_replay.boundary.crossing import Crossing, Place


class Unrecorded:
    """Implements `session.Observer`. `lost` is the parent's own, asked once."""

    wants_facts = False

    def __init__(self, lost: Callable[[Loss], None]) -> None:
        self._lost: Callable[[Loss], None] | None = lost

    def called(self) -> None:
        """The child makes a call that would have belonged to the run."""
        lost, self._lost = self._lost, None
        if lost is not None:
            detail = "the process forked inside the run; what the child calls in it is not recorded"
            lost(Loss(LossReason.NOT_COVERED, "calls of a forked child", 1, detail))

    def began(self, crossing: Crossing) -> None:
        """Nothing is written."""

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Nothing is written: the parent ends what was open when it forked."""

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """Nothing is written."""

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """Nothing is written."""

    def read(self, place: Place, read: Read) -> None:
        """Nothing is written."""

    def sent(self, crossing: Crossing) -> None:
        """Nothing is written."""

    def partial(self, crossing: Crossing, head: HttpResponseHead, data: bytes, chunks: Sequence[Chunk]) -> None:
        """Nothing is written."""

    def lost(self, loss: Loss) -> None:
        """Nothing is written."""

    def inside(self, place: Place) -> AbstractContextManager[object]:  # noqa: ARG002 - the protocol's signature
        """Return a context that does nothing."""
        return nullcontext()
