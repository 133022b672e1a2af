"""The run factories of a process that goes on from recordings: one that resumes runs, one that forks a run.

The n-th run of an agent in the process is the n-th run of that agent on record. What of those was finished is given
from its tape and recorded nowhere; the pending one goes on. Recording is done by whoever the composition root hands in.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from otel_agent_replay.boundary.crossing import Crossing, Place, current
from otel_agent_replay.boundary.effects import Effects
from otel_agent_replay.boundary.policy import EXACT, FORK, RESUME, Mode
from otel_agent_replay.boundary.runs import Continuation, RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import AgentReplayError, CannotJudge, FenceViolation, FingerprintChanged, ReplayInterrupt
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    CaptureLevel,
    Kind,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RunStatus,
    new_run_id,
)
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.continued import ContinuedPlayback, resumable_tape
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.entering import Entrance, entrance_before
from otel_agent_replay.replay.fitness import fingerprint_differences, has_input, input_differences, must_be_resumable
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.played import played
from otel_agent_replay.replay.recorded_places import RecordedPlaces
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.told_steps import ToldStep, all_steps, own_step

_NOT_DONE = (OutcomeStatus.ERROR, OutcomeStatus.CANCELLED)


class Recording(Protocol):
    """Who records; `capture.runs.RecordingRuns` is one."""

    def open(
        self,
        request: RunRequest,
        *,
        mode: Mode = ...,
        answerers: Mapping[AnswerSource, Answerer] | None = ...,
        prefix: Mapping[AnswerSource, Answerer] | None = ...,
        origin_run_id: bytes = ...,
        continuation: Continuation | None = ...,
        effects: Effects | None = ...,
    ) -> Session | None:
        """Open a session."""

    def hold(self, run_id: bytes, agent: str) -> Effects | None:
        """Hold a recorded run, so that nobody else goes on with it."""

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End it."""

    def fingerprint(self, request: RunRequest) -> Mapping[str, str]:
        """Return what tells the code and configuration of a run from others."""

    def input_of(self, request: RunRequest) -> Payload | None:
        """Return a run's input as it is recorded."""


class ContinuedRuns:
    """Implements `boundary.runs.RunFactory`. `recordings` are the recorded runs of one process, in their order.

    `target` is the run that is asked about; `reload(run_id)` reads a run again, once it is held; `reported` is told
    when the target ends or stops. With `changed` other code or configuration than recorded is accepted. `plan` is a
    fork's, None to resume. `not_begun` is set where it is known why no run can begin.
    """

    def __init__(
        self,
        recordings: Sequence[RecordedRun],
        *,
        target: bytes,
        recording: Recording,
        redaction: Callable[[CaptureLevel], Redaction],
        reload: Callable[[bytes], RecordedRun],
        changed: bool = False,
        plan: ForkRoute | None = None,
        starting: Callable[[], None] | None = None,
        reported: Callable[[ContinuedReport], None] | None = None,
    ) -> None:
        self.target = target
        self.not_begun = ""
        self._waiting: defaultdict[str, deque[RecordedRun]] = defaultdict(deque)
        for recorded in recordings:
            self._waiting[recorded.run.agent].append(recorded)
        self._recorded = {recorded.run.run_id: recorded for recorded in recordings}
        self._failed_inner = _failed_inner(self._recorded[target], recordings)
        self._recording = recording
        self._redaction = redaction
        self._reload = reload
        self._changed = changed
        self._plan = plan
        self._starting = starting
        self._reported = reported
        self._lock = threading.Lock()
        self._open: dict[Session, _Going] = {}
        self._reports: dict[bytes, ContinuedReport] = {}

    # --- the RunFactory protocol ---

    def open(self, request: RunRequest) -> Session | None:
        """Open the next run of that agent: where its recording ends, or from its begin when none is left."""
        with self._lock:
            starting, self._starting = self._starting, None
            recorded = self._next(request)
        if starting is not None:
            starting()
        if recorded is None:
            inside = current.get()
            if inside is not None and inside[0] in self._open and self._open[inside[0]].finished:
                done = inside[0].run_id.hex()
                raise ReplayInterrupt(
                    f"run {done} is done, and calls agent {request.agent!r} more often than on record"
                )
            if self._plan is not None:
                return self._unknown(request, self._plan, None if inside is None else self._open.get(inside[0]))
            return self._recording.open(request)
        try:
            return self._opened(request, recorded)
        except AgentReplayError as error:
            if recorded.run.run_id == self.target:
                run = recorded.run
                report = ContinuedReport.refused(run.run_id.hex(), run.agent, self._mode, error)
                self._reports[run.run_id] = report
                if self._reported is not None:
                    self._reported(report)
            raise

    def _next(self, request: RunRequest) -> RecordedRun | None:
        """Take the recorded run that a run of that agent is: the first one with its input, where that is known.

        Code of a run that calls an agent with another input than any on record makes a new run; elsewhere the first
        one waiting is meant, and is held against the input.
        """
        waiting = self._waiting.get(request.agent)
        if not waiting:
            return None
        given = self._recording.input_of(request)
        place = next((place for place, one in enumerate(waiting) if has_input(one, given)), None)
        if place is None:
            inside = current.get()
            if inside is not None and inside[0] in self._open:
                return None
        recorded = waiting[place or 0]
        del waiting[place or 0]
        return recorded

    def _opened(self, request: RunRequest, recorded: RecordedRun) -> Session:
        if self._plan is not None and recorded.run.run_id == self.target:
            return self._fork(request, recorded, self._plan)
        if self._plan is not None and self._is_beyond(recorded):
            return self._fork(request, recorded, self._plan.of_inner(recorded))
        if self._plan is not None or not self._goes_on(recorded):
            return self._finished(request, recorded)
        return self._resume(request, recorded)

    def _goes_on(self, recorded: RecordedRun) -> bool:
        run = recorded.run
        if run.run_id == self.target or run.status is RunStatus.PENDING:
            return True
        return run.status is not RunStatus.OK and run.run_id == self._failed_inner

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End a run, and report on it."""
        with self._lock:
            going = self._open.pop(session, None)
        if going is None:
            self._recording.close(session, output=output, error=error)
            return
        interrupt = session.interrupt or going.playback.interrupt
        if interrupt is None and isinstance(error, ReplayInterrupt):
            interrupt = error
        session.interrupt = interrupt
        if going.finished:
            session.close()
        else:
            self._recording.close(session, output=output, error=error)
        run_id = going.tape.run.run_id
        report = going.report(session, error, interrupt)
        self._reports[run_id] = report
        if run_id == self.target and self._reported is not None:
            self._reported(report)

    # --- what the process asks ---

    def refused(self, violation: FenceViolation) -> None:
        """A fence refused the code of a run: it stops there, whatever that code catches."""
        with self._lock:
            sessions = list(self._open)
        for session in sessions:
            session.interrupt = session.interrupt or violation

    def only_target(self) -> RecordedRun:
        """Return the run that is wanted."""
        return self._recorded[self.target]

    def report(self) -> ContinuedReport:
        """Return how the wanted run stands."""
        found = self._reports.get(self.target)
        if found is not None:
            return found
        with self._lock:
            going = next(((s, g) for s, g in self._open.items() if g.tape.run.run_id == self.target), None)
        if going is not None:
            session, one = going
            return one.report(session, None, session.interrupt or one.playback.interrupt, ended=False)
        run = self._recorded[self.target].run
        return ContinuedReport.never_began(run.run_id.hex(), run.agent, self._mode, self.not_begun)

    @property
    def _mode(self) -> str:
        return (RESUME if self._plan is None else FORK).name

    # --- how each kind of run is opened ---

    def _resume(self, request: RunRequest, recorded: RecordedRun) -> Session:
        run = recorded.run
        if not self._changed:
            differing = fingerprint_differences(run.versions, self._recording.fingerprint(request))
            differing += input_differences(recorded, self._recording.input_of(request))
            if differing:
                raise FingerprintChanged(run.run_id.hex(), differing)
        effects = self._recording.hold(run.run_id, run.agent)
        status = run.status
        try:
            recorded = self._reload(run.run_id)  # only now does nobody write on
            status = recorded.run.status
            must_be_resumable(recorded)
            tape = resumable_tape(recorded)
            playback = ContinuedPlayback(tape)
            going = _Going(RESUME, tape, playback)
            continuation = continuation_of(
                recorded,
                playback,
                run_id=run.run_id,
                attempt=recorded.run.attempt + 1,
                was_begun=playback.again.__contains__,
                goes_beyond=going.goes_beyond,
            )
            session = self._recording.open(
                request,
                mode=RESUME,
                answerers={AnswerSource.TAPE: playback},
                continuation=continuation,
                effects=effects,
            )
            return self._going(session, going)
        except BaseException:
            if effects is not None:
                effects.closed(status)
            raise

    def _fork(self, request: RunRequest, recorded: RecordedRun, plan: ForkRoute) -> Session:
        entrance = self._entrance(request, recorded, plan)
        past = entrance.past if isinstance(entrance, Entrance) else None
        tape = Tape(recorded, before_step=plan.at, without=plan.edited_steps, past=past)
        playback = ContinuedPlayback(tape)
        plan.shares(playback)
        going = _Going(FORK, tape, playback, plan, entrance)
        continuation = continuation_of(
            recorded,
            playback,
            run_id=new_run_id(),
            attempt=1,
            was_begun=lambda _: False,
            fork_step=plan.at,
            goes_beyond=going.goes_beyond,
        )
        session = self._recording.open(
            request,
            mode=FORK,
            prefix={**plan.edited, AnswerSource.TAPE: playback},
            answerers=plan.beyond,
            origin_run_id=recorded.run.run_id,
            continuation=continuation,
        )
        if session is not None:
            plan.take(session)
            if isinstance(entrance, Entrance):
                entrance.open(session, tape)
        return self._going(session, going)

    def _is_beyond(self, recorded: RecordedRun) -> bool:
        """Whether a run is begun by code that has left its recording: it was begun after the fork's step.

        What the process did beside the forked run is given from its recording all the same.
        """
        inside = current.get()
        going = None if inside is None else self._open.get(inside[0])
        if going is None or going.finished or self._plan is None:
            return False
        if going.tape.run.run_id != self.target:
            return True
        target, at = self._recorded[self.target], self._plan.at
        later = [item.span.start_ns for item in target.spans if item.node is not None and (item.node.step or 0) >= at]
        return bool(later) and recorded.run.started_ns > min(later)

    def _unknown(self, request: RunRequest, plan: ForkRoute, caller: _Going | None) -> Session:
        """Open a run that is not on record: beyond the fork's step nothing answers it but live models."""
        if caller is None or not caller.own:
            where = "" if caller is None else f" before step {plan.at} with this input"
            raise ReplayInterrupt(f"agent {request.agent!r} is not on record{where}: a fork is exact up to its step")
        blank = replace(self._recorded[self.target], spans=())
        return self._fork(request, blank, plan.of_inner(blank))

    def _entrance(self, request: RunRequest, recorded: RecordedRun, plan: ForkRoute) -> Entrance | str:
        """Return where the fork's agent is entered, or why it begins at its beginning."""
        if not plan.jumps:
            return "--no-jump"
        if not request.enters:
            return f"agent {request.agent!r} does not say how it can be entered (@replay.agent(enter=...))"
        if not has_input(recorded, self._recording.input_of(request)):
            return "it was called with another input than on record"
        return entrance_before(recorded, plan.at)

    def _finished(self, request: RunRequest, recorded: RecordedRun) -> Session:
        """Open the replay of a run that is done: nothing of it is live, and nothing is recorded."""
        tape = Tape(recorded)
        playback = Playback(tape)
        redaction = self._redaction(request.capture or CaptureLevel.REDACTED)
        session = played(request, recorded.run, playback, redaction)
        return self._going(session, _Going(EXACT, tape, playback))

    def _going(self, session: Session | None, going: _Going) -> Session:
        if session is None:
            raise CannotJudge(f"run {going.tape.run.run_id.hex()} could not be opened to go on")
        playback = going.playback
        places = playback.places if isinstance(playback, ContinuedPlayback) else RecordedPlaces(going.tape.nodes)
        session.number_scope = places.scope
        with self._lock:
            self._open[session] = going
        return session


class ForkRoute(Protocol):
    """Where a fork leaves its origin and what answers it then; `replay.fork.PreparedFork` is one."""

    at: int
    jumps: bool
    edited_steps: Sequence[int]
    edited: Mapping[AnswerSource, Answerer]
    beyond: Mapping[AnswerSource, Answerer]

    def shares(self, playback: ContinuedPlayback) -> None:
        """Take what answers the part that is shared, before anything is asked."""

    def take(self, session: Session) -> None:
        """Make an open session go this way."""

    def goes_beyond(self, call: Call) -> None:
        """The fork makes a call that the recording does not answer."""

    def told(self) -> Sequence[str]:
        """Return what was changed, one line each, and whether it was asked for."""

    def of_inner(self, recorded: RecordedRun) -> ForkRoute:
        """Return how a run goes that the fork's code begins beyond the step: it is on its own from its first step."""


class _Going:
    """A run that goes on."""

    __slots__ = ("entrance", "finished", "mode", "own", "plan", "playback", "tape")

    def __init__(
        self,
        mode: Mode,
        tape: Tape,
        playback: Playback,
        plan: ForkRoute | None = None,
        entrance: Entrance | str = "",
    ) -> None:
        self.mode = mode
        self.tape = tape
        self.playback = playback
        self.plan = plan
        self.entrance = entrance
        self.finished = mode is EXACT
        self.own: list[ToldStep] = []

    def goes_beyond(self, crossing: Crossing) -> None:
        if self.plan is not None:
            self.plan.goes_beyond(crossing.call)
        self.own.append(own_step(crossing))

    def report(
        self, session: Session, error: BaseException | None, interrupt: ReplayInterrupt | None, *, ended: bool = True
    ) -> ContinuedReport:
        return ContinuedReport.of(
            session,
            self.tape,
            mode=self.mode.name,
            error=error,
            interrupt=interrupt,
            ended=ended,
            changes=() if self.plan is None else tuple(self.plan.told()),
            entrance=self.entrance,
            steps=all_steps(self.tape, self.own),
        )


def continuation_of(
    recorded: RecordedRun,
    playback: ContinuedPlayback,
    *,
    run_id: bytes,
    attempt: int,
    was_begun: Callable[[Place], bool],
    fork_step: int = 0,
    goes_beyond: Callable[[Crossing], None],
) -> Continuation:
    """Return what a run that goes on takes over from its recording, as far as `playback` has it."""
    tape = playback.tape
    spans, keys = {}, set()
    last_sequence = last_step = 0
    for item in recorded.spans:
        node = item.node
        if node is None:
            continue
        last_sequence = max(last_sequence, node.sequence, node.end_sequence, *(read.sequence for read in node.reads), 0)
        if node.step is not None and (not fork_step or node.step < fork_step):
            last_step = max(last_step, node.step)
        if node.end_sequence and tape.has(node):
            spans[node.path] = item.span.span_id
        failed = node.outcome is not None and node.outcome.status in _NOT_DONE
        if node.kind is Kind.TOOL and node.call is not None and not failed and tape.has(node):
            keys.add(node.call.idempotency_key)
    return Continuation(
        run_id,
        attempt,
        last_sequence + 1,
        last_step + 1,
        spans.get,
        was_begun,
        recorded.payload,
        fork_step,
        frozenset(keys),
        goes_beyond,
    )


def _failed_inner(target: RecordedRun, recordings: Sequence[RecordedRun]) -> bytes:
    """Return the run in which the wanted run failed: the last one that its code began and did last; b"" for none."""
    run = target.run
    if run.status is RunStatus.PENDING:
        return b""
    traces = {run.trace_id, *(attempt.trace_id for attempt in target.attempts)} - {b""}
    inner = [one.run for one in recordings if one.run.trace_id in traces and one.run.started_ns >= run.started_ns]
    last = max(inner, key=lambda one: (one.started_ns, one.ordinal), default=run)
    done = any(item.span.start_ns > last.ended_ns for item in target.spans if item.node is not None and item.node.step)
    return b"" if last.run_id == run.run_id or done else last.run_id
