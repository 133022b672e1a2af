"""The run factory of a replaying process: each run it opens gets the tape of the recorded run it repeats.

The n-th run of an agent in the replay is the n-th run of that agent on record. A run that is on no tape
departs: it would go live. The replay's own recording is made by whoever the composition root hands in.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.policy import EXACT, Mode
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import FenceViolation, ReplayDeparture, ReplayInterrupt, TapeUnreadable
from otel_agent_replay.model import AnswerSource, FailurePhase, Payload, RecordedRun
from otel_agent_replay.replay.judge import End, judge
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


class _Open:
    """A run that is being replayed."""

    __slots__ = ("given", "playback", "session")

    def __init__(self, session: Session, playback: Playback, given: Payload | None) -> None:
        self.session = session
        self.playback = playback
        self.given = given


class ReplayRuns:
    """Implements `boundary.runs.RunFactory` for exact replay. `target` is the run whose verdict is wanted.

    `recordings` are the recorded runs of one process in the order they began. `judged` is told of each verdict
    as its run ends, `starting` is called before the first run opens.
    """

    def __init__(
        self,
        recordings: Sequence[RecordedRun],
        *,
        target: bytes,
        opener: Opener,
        closer: Closer,
        volatile: Sequence[str] = (),
        starting: Callable[[], None] | None = None,
        judged: Callable[[ReplayVerdict], None] | None = None,
    ) -> None:
        self.target = target
        self.verdicts: dict[bytes, ReplayVerdict] = {}
        self._waiting: defaultdict[str, deque[RecordedRun]] = defaultdict(deque)
        for recorded in recordings:
            self._waiting[recorded.run.agent].append(recorded)
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
        with self._lock:
            starting, self._starting = self._starting, None
            waiting = self._waiting.get(request.agent)
            recorded = waiting.popleft() if waiting else None
        if starting is not None:
            starting()
        if recorded is None:
            raise self._no_tape(request)
        playback = Playback(Tape(recorded), volatile=self._volatile)
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
        """Leave the other runs of the process out, and return the one that is wanted."""
        wanted = self._recorded[self.target]
        with self._lock:
            self._waiting.clear()
            self._waiting[wanted.run.agent].append(wanted)
        return wanted

    def verdict(self) -> ReplayVerdict:
        """Return the verdict on the wanted run, with how the other runs of its process went."""
        others = tuple(
            OtherRun(verdict.run_id, verdict.agent, verdict.status)
            for run_id, verdict in self.verdicts.items()
            if run_id != self.target
        )
        found = self.verdicts.get(self.target)
        return replace(self._not_judged() if found is None else found, others=others)

    def _no_tape(self, request: RunRequest) -> ReplayDeparture:
        recorded = ", ".join(sorted({recorded.run.agent for recorded in self._recorded.values()}))
        departure = ReplayDeparture(
            step=None,
            path=(f"run:{request.agent}",),
            expected=f"the {len(self._recorded)} recorded runs of this process (agents: {recorded})",
            came=f"a run of agent {request.agent!r} that is not on the tape",
        )
        self._off_tape = self._off_tape or departure
        return departure

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
            reason=f"the command never started a run of agent {run.agent!r}: is it the command that was recorded?",
        )
