"""Playback of what a run that goes on shares with its recording: up to a crash, or up to the step of a fork.

Owns the line between the two: each thread of control takes what was recorded for it and is beyond the tape only when
nothing of its own is left there. A call that comes before is a departure, never a live call. What was in flight at the
crash is asked for again, under its recorded step.
"""

from __future__ import annotations

from collections.abc import Iterable

from otel_agent_replay.boundary.crossing import Answer, Place, strand_label
from otel_agent_replay.errors import DamagedRecording, MissingPayload, TapeUnreadable
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, Read, RecordedRun, RunStatus
from otel_agent_replay.replay.playback import Playback, tape_answer
from otel_agent_replay.replay.recorded_places import RecordedPlaces
from otel_agent_replay.replay.recorded_waits import TapedWait
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry, is_background_save

_FIRST_ERROR = 400  # of HTTP's status codes
_STOPPED = frozenset({RunStatus.ERROR, RunStatus.ABORTED, RunStatus.DEPARTED})


class ContinuedPlayback(Playback):
    """Answers what the recording has; None beyond it. `again` are the places whose call was in flight at the crash."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self.again: set[Place] = set()
        self._met: set[str] = set()  # threads of control that made a call of their own on record
        self.places = RecordedPlaces(tape.nodes, goes_on=True, past=tape.past)

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the recorded answer, or None when this call is beyond the recording or was in flight at its end.

        Raises ReplayDeparture when the same thread of control still has recorded calls to make.
        """
        if self.interrupt is not None:
            raise self.interrupt
        call_above, strand = _call_above(place), strand_label()
        if call_above is not None and call_above not in self.again:
            return None  # a call that is made for the first time: no part of it is on record
        beside = is_background_save(call)
        if call_above is None and strand in self._met and not beside and self.tape.left_in(strand) is None:
            self.places.new(place)
            return None  # what is left is other threads' own, also where it is equal
        parent = () if place.parent is None else place.parent.path
        entry, same_request = self.tape.take(parent, call, lambda: strand), True
        if entry is None:
            entry = self._near(parent, call)
            if entry is None:
                if call_above is None and not beside and self.tape.left_in(strand) is not None:
                    raise self.stop(self._explain(call, place))
                self.places.new(place)
                return None
            same_request = entry.call.digest == call.digest
        if entry.node.strand == strand and not beside:
            self._met.add(strand)
        self.places.found(place, entry.node)
        place.step = entry.node.step
        place.key = entry.call.idempotency_key
        self.order.began(entry)
        if entry.node.outcome is None or entry.node.outcome.status is OutcomeStatus.PENDING:
            self.again.add(place)
            return None
        try:
            data = self.tape.result(entry)
        except (MissingPayload, DamagedRecording) as error:
            raise self.stop(TapeUnreadable(entry.node.step, str(error))) from error
        return tape_answer(self, entry, data, same_request)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return the next recorded bulk read of that name there, or None."""
        return super().read(kind, name, place, strand) if self._is_on_record(place) else None

    def recorded_wait(self, name: str, place: Place, strand: str) -> TapedWait | None:
        """The same for what became of a wait."""
        return super().recorded_wait(name, place, strand) if self._is_on_record(place) else None

    def _is_on_record(self, place: Place) -> bool:
        """Whether what code at `place` reads may be on record: it is the agent's own, or of a call in flight."""
        call = place if place.kind.is_crossing else _call_above(place)
        return call is None or call in self.again


def _call_above(place: Place) -> Place | None:
    """Return the call that code at `place` is made in, None for the agent's own code."""
    above = place.parent
    while above is not None and not above.kind.is_crossing:
        above = above.parent
    return above


def resumable_tape(recorded: RecordedRun) -> Tape:
    """Return the tape of a run that is to be finished.

    Of a run that ended in an error, the last call of each thread of control is left out when it failed: it is what
    there is to try again.
    """
    tape = Tape(recorded)
    if recorded.run.status not in _STOPPED:
        return tape
    failed = _last_failures(tape.entries)
    return Tape(recorded, without=failed) if failed else tape


def _last_failures(entries: Iterable[Entry]) -> set[int]:
    last: dict[str, Entry] = {}
    for entry in entries:
        if not entry.below:
            last[entry.node.strand] = entry
    return {entry.node.step for entry in last.values() if entry.node.step is not None and _failed(entry.node.outcome)}


def _failed(outcome: Outcome | None) -> bool:
    """Whether a call failed: it raised, or it was answered with an error that its client may have raised."""
    if outcome is None:
        return False
    return outcome.failure is not None or (outcome.head is not None and outcome.head.status >= _FIRST_ERROR)
