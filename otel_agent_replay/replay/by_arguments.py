"""Answers by arguments: what a recording says of the same call, wherever in the run it was made.

For runs that left their tape (forks, re-runs): a read may be answered again and again by what was read last, a write by
each of its recordings once. Owns no place, no order and no strand; those are exact playback's.
"""

from __future__ import annotations

import threading
from collections import deque

from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.errors import CrossingRefused, DamagedRecording, MissingPayload, ReplayInterrupt, TapeUnreadable
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, Read, RecordedRun, SideEffect
from otel_agent_replay.replay.tape import Entry, Tape

_READS = frozenset({SideEffect.NONE, SideEffect.READ})
_Key = tuple[Kind, str, bytes]


class ByArguments:
    """Answers the calls of one recorded run by kind, name and request digest. Thread-safe.

    A read is answered by its recordings in their order, then by the last one again, unless the recording wrote
    something between the two: what was read before a write says nothing of after it. A write, an external call or an
    approval is answered by each of its recordings once.
    """

    def __init__(self, recorded: RecordedRun) -> None:
        self._tape = Tape(recorded)
        self._lock = threading.Lock()
        self._waiting: dict[_Key, deque[Entry]] = {}
        self._last: dict[_Key, Entry] = {}
        self._written = 0
        for entry in self._tape.entries:
            if entry.node.outcome is not None and entry.node.outcome.status is not OutcomeStatus.PENDING:
                self._waiting.setdefault(_key(entry.call), deque()).append(entry)
        self._environment = {read.name: read for node in recorded.nodes for read in node.reads if read.kind is Kind.ENV}

    def answer(self, call: Call, place: Place) -> Answer | None:  # noqa: ARG002 - the protocol's
        """Return what the recording says of this call, or None."""
        entry = self._find(call)
        if entry is None:
            return None
        try:
            outcome = self._tape.outcome(entry)
        except (MissingPayload, DamagedRecording) as error:
            raise TapeUnreadable(entry.node.step, str(error)) from error
        return RecordedAnswer(outcome, entry.node.step, same_request=True)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return an environment variable as it was recorded; None for every other read, which time has changed."""
        found = self._environment.get(name) if kind is Kind.ENV else None
        if found is None or found.masked:
            return None
        return found._replace(strand=strand, sequence=place.next_sequence())

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what the recording does not have."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, "fork")

    def _find(self, call: Call) -> Entry | None:
        key = _key(call)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting:
                entry = waiting.popleft()
                self._last[key] = entry
                if call.side_effect not in _READS:
                    self._written = max(self._written, entry.node.sequence)
                return entry
            last = self._last.get(key)
            if last is None or call.side_effect not in _READS or self._written > last.node.sequence:
                return None
            return last


class RecordedAnswer:
    """A recorded outcome without a turn in any order; implements `crossing.Answer`."""

    def __init__(self, outcome: Outcome, origin_step: int | None, *, same_request: bool) -> None:
        self.outcome = outcome
        self.origin_step = origin_step
        self.same_request = same_request

    def settle(self) -> None:
        """Wait for nothing."""

    async def settle_async(self) -> None:
        """Wait for nothing."""

    def done(self) -> None:
        """Tell nobody."""


def _key(call: Call) -> _Key:
    return call.kind, call.name, call.digest
