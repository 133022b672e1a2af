"""The recorder of a run that goes on from a recording: it writes only what is new.

Owns what of a run is there already. Calls that the recording answered are not written again, nor reads, nor scopes in
which nothing new happened; a scope in which something does is begun anew, so that each attempt's records stand by
themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.runs import Continuation
from otel_agent_replay.capture.recorder import NodeRecord, Recorder
from otel_agent_replay.model import Outcome, Read, new_span_id


class ContinuedRecorder(Recorder):
    """The observer of one attempt, or of a fork. `continuation` is set before the run opens."""

    continuation: Continuation

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._known: dict[Place, Mapping[str, Any]] = {}  # re-entered scopes that were not yet written anew
        self._known_lock = threading.Lock()

    def began(self, crossing: Crossing) -> None:
        """Write the begin of a crossing unless its answer lies in the recording."""
        place = crossing.place
        if crossing.shared:
            place.span = NodeRecord(self.continuation.span_of(place.path) or new_span_id(), None)
            return
        self.continuation.goes_beyond(crossing)
        self._write_scopes(place.parent)
        super().began(crossing)

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """Write the end of a crossing whose begin was written."""
        if not crossing.shared:
            super().ended(crossing, outcome)

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:
        """Write the begin of a scope, or wait with it until something new happens in one that the recording has."""
        known = self.continuation.span_of(place.path)
        if known is None:
            self._write_scopes(place.parent)
            super().entered(place, attributes)
            return
        place.span = NodeRecord(known, None)
        with self._known_lock:
            self._known[place] = attributes

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:
        """Write the end of a scope whose begin was written."""
        with self._known_lock:
            if self._known.pop(place, None) is not None:
                return
        super().left(place, error, attributes)

    def read(self, place: Place, read: Read) -> None:
        """Hold a bulk read that the recording does not have."""
        self._write_scopes(place)
        super().read(place, read)

    def _write_scopes(self, place: Place | None) -> None:
        """Write the begins of the re-entered scopes around `place`, outermost first."""
        if not self._known:
            return
        chain: list[tuple[Place, Mapping[str, Any]]] = []
        with self._known_lock:
            while place is not None:
                attributes = self._known.pop(place, None)
                if attributes is not None:
                    chain.append((place, attributes))
                place = place.parent
        for scope, attributes in reversed(chain):
            super().entered(scope, attributes)
