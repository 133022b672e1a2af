"""The observer of a run in a forked child of its process: it writes nothing.

The run is the parent's. Records of both would get the same steps and places, so a child's calls in it are not
recorded; that there were any is told once. Agents that begin in the child are runs of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from otel_agent_replay.boundary.unrecorded import NothingRecorded
from otel_agent_replay.model import Loss, LossReason


class Unrecorded(NothingRecorded):
    """Implements `observer.Observer`; the parent ends what was open when it forked. `lost` is its own, asked once."""

    def __init__(self, lost: Callable[[Loss], None]) -> None:
        self._lost: Callable[[Loss], None] | None = lost

    def called(self) -> None:
        """The child makes a call that would have belonged to the run."""
        lost, self._lost = self._lost, None
        if lost is not None:
            detail = "the process forked inside the run; what the child calls in it is not recorded"
            lost(Loss(LossReason.NOT_COVERED, "calls of a forked child", 1, detail))
