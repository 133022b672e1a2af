"""The run factory of a replaying process: each run it opens gets the tape of the recorded run it repeats.

The n-th run of an agent in the replay is the n-th run of that agent on record; a run that the code of another one
begins is the one that was begun there with the same input (`inner_runs`). A run that is on no tape departs: it would go
live. The replay's own recording is made by whoever the composition root hands in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from otel_agent_replay.boundary.crossing import current, strand_label
from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.policy import EXACT, Mode
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import FenceViolation, ReplayDeparture, ReplayInterrupt, TapeUnreadable
from otel_agent_replay.model import AnswerSource, FailurePhase, Payload, RecordedRun
from otel_agent_replay.replay.inner_runs import Begun, RunsOnRecord
from otel_agent_replay.replay.judge import End, compared_values, judge, recorded_input
from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.recorded_places import RecordedPlaces
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.verdict import Departure, OtherRun, ReplayVerdict, VerdictStatus


class Opener(Protocol):
    """Opens the session that a replayed run happens in, and records it as a run of its own."""

    def __call__(
        self, request: RunRequest, *, mode: Mode, answerers: Mapping[AnswerSource, Answerer], origin_run_id: bytes
    ) -> Session | None:
        """Return an open session, or None when that failed."""


class Closer(Protocol):
    """Closes such a session."""

    def __call__(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End the run."""


def _input_of(request: RunRequest) -> Payload | None:
    return request.input


class _Open:
    """A run that is being replayed."""

    __slots__ = ("given", "playback", "session")

    def __init__(self, session: Session, playback: Playback, given: Payload | None) -> None:
        self.session = session
        self.playback = playback
        self.given = given


class ReplayRuns:
    """Implements `boundary.runs.RunFactory` for exact replay. `target` is the run whose verdict is wanted.

    `recordings` are the recorded runs of one process in the order they began. `input_of` gives a run's input as
    it would be recorded. `judged` is told of each verdict as its run ends, `starting` is called before the first run
    opens. `not_begun` is set where it is known why no run can begin.
    """

    def __init__(
        self,
        recordings: Sequence[RecordedRun],
        *,
        target: bytes,
        opener: Opener,
        closer: Closer,
        input_of: Callable[[RunRequest], Payload | None] = _input_of,
        volatile: Sequence[str] = (),
        starting: Callable[[], None] | None = None,
        judged: Callable[[ReplayVerdict], None] | None = None,
    ) -> None:
        self.target = target
        self.not_begun = ""
        self.verdicts: dict[bytes, ReplayVerdict] = {}
        self._on_record = RunsOnRecord(recordings)
        self._tapes: dict[bytes, Tape] = {}
        self._orders: dict[bytes, CompletionOrder] = {}
        self._input_of = input_of
        self._opener = opener
        self._closer = closer
        self._volatile = tuple(volatile)
        self._starting = starting
        self._judged = judged
        self._lock = threading.Lock()
        self._open: dict[bytes, _Open] = {}
        self._off_tape: ReplayDeparture | None = None
        self._recorded = {recorded.run.run_id: recorded for recorded in recordings}

    def open(self, request: RunRequest) -> Session:
        """Open the replay of the next recorded run of that agent. Raises ReplayInterrupt: a run never goes live."""
        inside = self._inside()
        begun = self._begun(request, inside)
        with self._lock:
            starting, self._starting = self._starting, None
            recorded = self._on_record.take(begun)
            playback = None if recorded is None else self._playback(recorded)
        if starting is not None:
            starting()
        if recorded is None or playback is None:
            raise self._no_tape(request, begun, inside)
        if inside is not None:
            self._hold_against_input(request, begun, inside, playback.tape)
        session = self._opener(
            request, mode=EXACT, answerers={AnswerSource.TAPE: playback}, origin_run_id=recorded.run.run_id
        )
        if session is None:
            raise TapeUnreadable(None, f"the replay of run {recorded.run.run_id.hex()} could not be opened")
        session.number_scope = RecordedPlaces(playback.tape.nodes).scope
        given = request.input
        if given is not None and given.data is not None:
            given = Payload.of(session.redaction.value_bytes(given.data), given.media_type)
        with self._lock:
            self._open[session.run_id] = _Open(session, playback, given)
        return session

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End the replay of a run and judge it."""
        with self._lock:
            opened = self._open.pop(session.run_id, None)
        if opened is None:
            return
        playback = opened.playback
        interrupt = playback.interrupt or session.interrupt
        if interrupt is None and isinstance(error, ReplayInterrupt):
            interrupt = error
        if session.interrupt is None:
            session.interrupt = interrupt
        failure = None if error is None else recorded_failure(error, FailurePhase.CALL, session.redaction)
        if output is not None and output.data is not None:
            output = Payload.of(session.redaction.value_bytes(output.data), output.media_type)
        try:
            self._closer(session, output=output, error=error)
        finally:
            verdict = judge(playback.tape, playback, End(session.run_id, opened.given, output, failure, interrupt))
            self._stop_caller(playback.tape, interrupt)
            self.verdicts[playback.tape.run.run_id] = verdict
            if self._judged is not None:
                self._judged(verdict)

    @property
    def idle(self) -> bool:
        """Whether no run was asked for so far."""
        with self._lock:
            return not (self._open or self.verdicts or self._off_tape)

    def refused(self, violation: FenceViolation) -> None:
        """A fence refused the code of a run: the replay has departed, whatever that code catches."""
        with self._lock:
            playbacks = [opened.playback for opened in self._open.values()]
        for playback in playbacks:
            playback.stop(violation)

    def only_target(self) -> RecordedRun:
        """Return the run that is wanted."""
        return self._recorded[self.target]

    def verdict(self) -> ReplayVerdict:
        """Return the verdict on the wanted run, with how the other runs of its process went."""
        others = tuple(
            OtherRun(verdict.run_id, verdict.agent, verdict.status)
            for run_id, verdict in self.verdicts.items()
            if run_id != self.target
        )
        found = self.verdicts.get(self.target)
        return replace(self._not_judged() if found is None else self._with_inner(found), others=others)

    # --- runs inside runs ---

    def _inside(self) -> _Open | None:
        """Return the run whose code is running."""
        here = current.get()
        if here is None:
            return None
        with self._lock:
            return self._open.get(here[0].run_id)

    def _begun(self, request: RunRequest, inside: _Open | None) -> Begun:
        given = self._input_of(request)
        here = current.get()
        digest = None if given is None else given.digest
        if inside is None or here is None:
            return Begun(request.agent, digest)
        return Begun(request.agent, digest, inside.playback.tape.run.run_id, here[1].path, strand_label())

    def _playback(self, recorded: RecordedRun) -> Playback:
        """Return what answers a run. Runs that lie in one another complete in one recorded order."""
        run_id = recorded.run.run_id
        if run_id not in self._tapes:
            outermost = self._on_record.outermost(recorded)
            family = [outermost, *self._on_record.inner_of(outermost.run.run_id)]
            if all(one is not recorded for one in family):
                family = [recorded]
            tapes = {one.run.run_id: Tape(one) for one in family}
            self._tapes.update(tapes)
            order = CompletionOrder(list(tapes.values()))
            self._orders.update(dict.fromkeys(tapes, order))
        return Playback(self._tapes.pop(run_id), volatile=self._volatile, order=self._orders.pop(run_id))

    def _hold_against_input(self, request: RunRequest, begun: Begun, inside: _Open, tape: Tape) -> None:
        """An agent that a run's code calls is asked something, as a tool is: with another input the run departs."""
        known, given = recorded_input(tape), self._input_of(request)
        if known is None or given is None or tape.root is None or tape.root.call is None:
            return
        if known.digest == given.digest or not tape.root.call.round_trips:
            return
        same, differences = compared_values(tape, known, given)
        if same is False:
            raise inside.playback.stop(
                ReplayDeparture(
                    step=None,
                    path=(*begun.path, f"run:{request.agent}"),
                    expected=f"a run of agent {request.agent!r} with its recorded input",
                    came=f"a run of agent {request.agent!r} with another input",
                    differences=differences,
                )
            )

    def _stop_caller(self, tape: Tape, interrupt: ReplayInterrupt | None) -> None:
        """What an inner run departed from, its caller departed from, whatever that catches."""
        if not isinstance(interrupt, (ReplayDeparture, FenceViolation)):
            return
        caller = self._on_record.calling(self._recorded[tape.run.run_id]).caller
        with self._lock:
            callers = [one.playback for one in self._open.values() if one.playback.tape.run.run_id == caller]
        for playback in callers:
            playback.stop(interrupt)

    def _with_inner(self, found: ReplayVerdict) -> ReplayVerdict:
        """Return the verdict on the wanted run with what the runs that its code begins add to it."""
        if found.status is not VerdictStatus.SAME:
            return found
        with self._lock:
            inner = list(self._on_record.inner_of(self.target))
            never = [one.run for one in inner if self._on_record.is_waiting(one)]
        for one in inner:
            verdict = self.verdicts.get(one.run.run_id)
            if verdict is not None and verdict.status is not VerdictStatus.SAME:
                reason = f"run {verdict.run_id} of agent {verdict.agent!r}, which its code begins: {verdict.status}"
                told = f"{reason}: {verdict.reason}" if verdict.reason else reason
                return replace(found, status=verdict.status, departure=verdict.departure, reason=told)
        if never and not found.tape_ended:
            what = f"run {never[0].run_id.hex()} of agent {never[0].agent!r}"
            departure = Departure(
                None,
                (*self._on_record.calling(self._recorded[never[0].run_id]).path, f"run:{never[0].agent}"),
                f"{len(inner)} runs that the code of this one begins",
                f"it began {len(inner) - len(never)} of them",
                message=f"{what} was never begun",
            )
            return replace(found, status=VerdictStatus.DEPARTED, departure=departure)
        return found

    def _no_tape(self, request: RunRequest, begun: Begun, inside: _Open | None) -> ReplayInterrupt:
        recorded = ", ".join(sorted({recorded.run.agent for recorded in self._recorded.values()}))
        departure = ReplayDeparture(
            step=None,
            path=(*begun.path, f"run:{request.agent}"),
            expected=f"the {len(self._recorded)} recorded runs of this process (agents: {recorded})",
            came=f"a run of agent {request.agent!r} that is not on the tape",
        )
        self._off_tape = self._off_tape or departure
        return departure if inside is None else inside.playback.stop(departure)

    def _not_judged(self) -> ReplayVerdict:
        """Return the verdict when the wanted run never ended, or never began."""
        run = self._recorded[self.target].run
        unknown = ReplayVerdict(VerdictStatus.CANNOT_JUDGE, run.run_id.hex(), run.agent)
        with self._lock:
            opened = next((one for one in self._open.values() if one.playback.tape.run.run_id == self.target), None)
        if opened is not None:
            playback = opened.playback
            end = End(opened.session.run_id, opened.given, None, None, playback.interrupt or opened.session.interrupt)
            if end.interrupt is not None:
                return judge(playback.tape, playback, end)
            return replace(
                unknown,
                reason=f"the replay never ended: the process left it after {playback.tape.taken} steps",
                steps_recorded=playback.tape.steps,
                steps_replayed=playback.tape.taken,
            )
        if self._off_tape is not None:
            return replace(unknown, status=VerdictStatus.DEPARTED, departure=Departure.of(self._off_tape))
        departed = next((one for one in self.verdicts.values() if one.status is VerdictStatus.DEPARTED), None)
        if departed is not None:
            reason = f"run {departed.run_id}, which the same process recorded before, departed: this one never began"
            return replace(unknown, status=VerdictStatus.DEPARTED, departure=departed.departure, reason=reason)
        return replace(
            unknown,
            reason=self.not_begun
            or f"the command never started a run of agent {run.agent!r}: is it the command that was recorded?",
        )
