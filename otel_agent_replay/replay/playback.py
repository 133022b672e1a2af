"""Playback: the answerer that serves a run's crossings and bulk reads from its tape.

Owns the conversation between the boundary, the tape and the completion order, and what stops a replay: once
it has stopped, every later question gets the same interrupt, whatever the agent's code catches. It never
calls through and never falls back to anything but the tape.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice

from otel_agent_replay.boundary.callers import application_place
from otel_agent_replay.boundary.crossing import Answer, Place, strand_label
from otel_agent_replay.boundary.one_ending import take_turn
from otel_agent_replay.errors import (
    DamagedRecording,
    MissingPayload,
    ReplayDeparture,
    ReplayInterrupt,
    TapeEnded,
    TapeUnreadable,
)
from otel_agent_replay.model import ORDER_MARKS, Call, Kind, Outcome, OutcomeStatus, Read
from otel_agent_replay.replay import matching
from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.recorded_waits import TapedWait
from otel_agent_replay.replay.tape import Tape, with_data
from otel_agent_replay.replay.tape_entry import Entry

_PENDING = Outcome(status=OutcomeStatus.PENDING, notes=("the recorded process died during this call",))
_IS_PENDING = OutcomeStatus.PENDING  # naming a member costs 70 ns before Python 3.12
_MOST_ELSEWHERE = 2000  # how many recorded steps elsewhere in the run are looked at to explain a departure
_MOST_COMPARED = 8  # how many candidates' requests are compared in full


class TapeAnswer:
    """The recorded outcome of one crossing and its turn in the completion order; implements `crossing.Answer`."""

    __slots__ = ("_ended", "_entry", "_playback", "bare", "data", "same_request")

    bare: Outcome
    data: bytes | None
    same_request: bool
    _playback: Playback
    _entry: Entry
    _ended: bool

    @property
    def outcome(self) -> Outcome:
        """The recorded outcome with its bytes."""
        return with_data(self.bare, self.data)

    @property
    def origin_step(self) -> int | None:
        """The recorded step."""
        return self._entry.step or None

    def settle(self) -> None:
        """Block until the recorded order allows this answer to end. Raises the interrupt of a stopped replay."""
        playback = self._playback
        playback.order.settle(self._entry)
        if playback.interrupt is not None or self.bare.status is _IS_PENDING:
            playback.check(self._entry, self.bare)

    async def settle_async(self) -> None:
        """The same for a task. A call that was cancelled is held until the caller cancels it."""
        playback = self._playback
        if self.bare.status is OutcomeStatus.CANCELLED:
            await playback.order.hold(self._entry)
        else:
            await playback.order.settle_async(self._entry)
        playback.check(self._entry, self.bare)

    def done(self) -> None:
        """Told once the crossing has ended."""
        if not self._ended:
            self._ended = True
            self._playback.order.ended(self._entry)


def tape_answer(playback: Playback, entry: Entry, data: bytes | None, same_request: bool) -> TapeAnswer:
    """Return the answer that `entry` is; `data` are the bytes of its result."""
    answer = TapeAnswer()
    answer._playback = playback
    answer._entry = entry
    answer._ended = False
    answer.bare = entry.outcome or _PENDING
    answer.data = data
    answer.same_request = same_request
    return answer


class Playback:
    """Answers one run from its tape. `volatile` are the JSON paths whose values may differ.

    `order` is the one that it shares with runs that it lies in or that lie in it; None: it has its own.
    """

    def __init__(self, tape: Tape, *, volatile: Sequence[str] = (), order: CompletionOrder | None = None) -> None:
        self.tape = tape
        self.volatile = matching.Volatile(volatile)
        self.order = order or CompletionOrder([tape])
        self.interrupt: ReplayInterrupt | None = None
        self.canonical_matches: list[int] = []

    # --- the Answerer protocol ---

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the recorded answer to `call`, or None when the tape has none there."""
        if self.interrupt is not None:
            raise self.interrupt
        above = place.parent
        parent = () if above is None else above.path
        entry = self.tape.take(parent, call, strand_label)
        same_request = True
        if entry is None:
            entry = self._near(parent, call)
            if entry is None:
                return None
            same_request = entry.call.digest == call.digest
        try:
            data = self.tape.result(entry)
        except (MissingPayload, DamagedRecording) as error:
            raise self.stop(TapeUnreadable(entry.node.step, str(error))) from error
        if entry.key:
            place.key = entry.key
        self.order.began(entry)
        return tape_answer(self, entry, data, same_request)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return the next recorded bulk read of that name there, or None."""
        if self.interrupt is not None:
            raise self.interrupt
        read = self.tape.reads.take(place.path, kind, name, strand)
        if read is not None and name in ORDER_MARKS:
            self._await_turn(read)
        return read

    def recorded_wait(self, name: str, place: Place, strand: str) -> TapedWait | None:
        """Return what became of the next wait of that name there, or None."""
        if self.interrupt is not None:
            raise self.interrupt
        read = self.tape.reads.take_wait(place.path, name, strand)
        return None if read is None else TapedWait(read, self.tape, self.order, lambda: self.interrupt)

    def _await_turn(self, read: Read) -> None:
        """Hold a thread that is done, or puts something on a queue, until what came before that has come."""
        end = self.tape.thread_ends.get(read.sequence)
        if end is not None:
            self.order.settle(end)
            take_turn()
            self.order.ended(end)

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the departure of a call or bulk read that the tape does not hold, and stop the replay with it."""
        if self.interrupt is not None:
            return self.interrupt
        if self.tape.died and next(self.tape.left(), None) is None:
            what = matching.describe(call) if call is not None else f"a read of {read[1] if read else 'nothing'}"
            return self.stop(TapeEnded(self.tape.steps, f"after the last recorded step, before {what}"))
        if call is not None:
            departure = self._explain(call, place)
        elif read is None:
            raise AssertionError("either a call or a read departs")
        else:
            left = self.tape.reads.left(place.path)
            departure = matching.explain_read(read[0], read[1], place.path, place.step, left)
        departure.location = application_place(sys._getframe(1))
        return self.stop(departure)

    # --- what stops a replay ---

    def stop(self, interrupt: ReplayInterrupt) -> ReplayInterrupt:
        """Stop the replay with `interrupt` unless it is stopped already; return what it is stopped with."""
        if self.interrupt is None:
            self.interrupt = interrupt
            self.order.open_up()
        return self.interrupt

    def check(self, entry: Entry, outcome: Outcome) -> None:
        """Raise the interrupt of a stopped replay; stop it where the recording itself ends."""
        if self.interrupt is None and outcome.status is _IS_PENDING:
            self.stop(TapeEnded(entry.node.step, matching.describe(entry.call)))
        if self.interrupt is not None:
            raise self.interrupt

    # --- matching beyond the exact digest ---

    def _near(self, parent: tuple[str, ...], call: Call) -> Entry | None:
        """Return the exchange that says the same: in another scope of the same name, or in canonical form."""
        entry = self.tape.take_relaxed(parent, call)
        if entry is not None:
            return entry
        wanted: bytes | None = None
        for candidate in self.tape.alike(parent, call.kind, call.name):
            wanted = wanted or matching.normal_form(call, call.request.data, self.volatile)
            if wanted is None:
                return None
            if candidate.canonical is None:
                form = matching.normal_form(candidate.call, self.tape.request(candidate), self.volatile)
                candidate.canonical = b"" if form is None else form
            if candidate.canonical == wanted and self.tape.claim(candidate):
                self.canonical_matches.append(candidate.node.step or 0)
                return candidate
        return None

    def _explain(self, call: Call, place: Place) -> ReplayDeparture:
        parent = place.path[:-1]
        here = list(islice(self.tape.alike(parent, call.kind, call.name), _MOST_ELSEWHERE))
        here.sort(key=lambda entry: entry.node.occurrence != place.occurrence)
        same_request = [
            entry
            for entry in self.tape.entries
            if entry.call.digest == call.digest and entry.call.kind is call.kind and entry.call.name == call.name
        ]
        expected = next((entry for entry in self.tape.left() if entry.node.path[:-1] == parent), None)
        if expected is None:
            expected = next(self.tape.left(), None)
        others = [entry for entry in islice(self.tape.left(), _MOST_ELSEWHERE) if entry.node.kind is call.kind]
        return matching.explain(
            call,
            place.path,
            place.occurrence,
            here=[self._recorded(entry) for entry in here[:_MOST_COMPARED]],
            same_request=[self._recorded(entry) for entry in same_request[:_MOST_COMPARED]],
            others=[self._recorded(entry) for entry in others[:_MOST_COMPARED]],
            expected=None if expected is None else self._recorded(expected),
            steps=self.tape.steps,
        )

    def _recorded(self, entry: Entry) -> matching.Recorded:
        return matching.Recorded(entry.node.step, entry.node.path, entry.call, self.tape.request(entry), entry.taken)
