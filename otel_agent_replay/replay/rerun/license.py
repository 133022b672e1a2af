"""Which code of a re-run may reach the declared endpoints: the same host takes the reads, and would take a write.

Calls of the model and code that was declared and is called through (a live read, a rehearsal, a retriever) may; the
agent's own code, and whatever runs beside or after a run, may not: nobody asked the table for it. A connection that was
made before the first run began is nobody's write, and may be used.
"""

from __future__ import annotations

from otel_agent_replay.boundary.crossing import aside, current
from otel_agent_replay.model import Kind

_CALLED_THROUGH = frozenset({Kind.MODEL, Kind.HTTP, Kind.RETRIEVAL, Kind.INPUT})


class License:
    """Whether the code that runs now may connect. `begun` tells that a run has begun."""

    def __init__(self) -> None:
        self.begun = False

    def __call__(self) -> bool:
        """Look at where the running code is; a simulator of the user runs beside all runs, by the person's own word."""
        here = current.get()
        if here is None:
            return aside.get() or not self.begun
        if here[0].closed:
            return False
        place = here[1]
        while True:
            if place.kind in _CALLED_THROUGH or (place.kind is Kind.TOOL and place.through):
                return True
            if place.parent is None:
                return False
            place = place.parent
