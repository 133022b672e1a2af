"""The run factory of a process that re-runs a recorded run.

The n-th run of an agent in the process is the n-th run of that agent on record. The wanted one is run again, and with
it the runs that its code begins, each by its own recording; what the process did before and after is given from its
tape and recorded nowhere. Recording is done by whoever the composition root hands in.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.policy import Mode
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import CannotJudge, FenceViolation, ReplayInterrupt
from otel_agent_replay.model import AnswerSource, CaptureLevel, Payload, RecordedRun
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.fitness import fingerprint_differences
from otel_agent_replay.replay.inner_runs import input_digest
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.played import played
from otel_agent_replay.replay.recorded_places import RecordedPlaces
from otel_agent_replay.replay.rerun.report import RerunReport, RerunStatus, refusals, standing
from otel_agent_replay.replay.rerun.route import Route, World
from otel_agent_replay.replay.tape import Tape


class Recording(Protocol):
    """Who records; `capture.runs.RecordingRuns` is one."""

    def open(
        self,
        request: RunRequest,
        *,
        mode: Mode = ...,
        answerers: Mapping[AnswerSource, Answerer] | None = ...,
        origin_run_id: bytes = ...,
    ) -> Session | None:
        """Open a session."""

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End it."""

    def fingerprint(self, request: RunRequest) -> Mapping[str, str]:
        """Return what tells the code and configuration of a run from others."""

    def input_of(self, request: RunRequest) -> Payload | None:
        """Return a run's input as it is recorded."""


class RerunRuns:
    """Implements `boundary.runs.RunFactory`. `recordings` are the recorded runs of one process, in their order.

    The target of `world` is the run that is wanted; `reported` is told when it begins and when it ends; `starting` is
    called before the first run opens. A run makes at most `max_steps` steps (0: no limit). `not_begun` is set where it
    is known why no run can begin.
    """

    def __init__(
        self,
        recordings: Sequence[RecordedRun],
        world: World,
        *,
        recording: Recording,
        redaction: Callable[[CaptureLevel], Redaction],
        max_steps: int = 0,
        starting: Callable[[], None] | None = None,
        reported: Callable[[], None] | None = None,
    ) -> None:
        self.not_begun = ""
        self._world = world
        self._waiting: defaultdict[str, deque[RecordedRun]] = defaultdict(deque)
        for recorded in recordings:
            self._waiting[recorded.run.agent].append(recorded)
        self._recording = recording
        self._redaction = redaction
        self._max_steps = max_steps
        self._starting = starting
        self._reported = reported
        self._lock = threading.Lock()
        self._routes: dict[Session, Route] = {}
        self._played: set[Session] = set()
        self._all: list[Route] = []
        self._target: tuple[Session, Route, tuple[str, ...]] | None = None
        self._report: RerunReport | None = None

    # --- the RunFactory protocol ---

    def open(self, request: RunRequest) -> Session:
        """Open the next run of that agent. Raises ReplayInterrupt, CannotJudge: a run never goes live."""
        here = current.get()
        inside = here is not None and here[0] in self._routes
        with self._lock:
            starting, self._starting = self._starting, None
            recorded = self._next(request)
        if starting is not None:
            starting()
        if inside:
            return self._again(request, recorded or replace(self._world.target, spans=()))
        if recorded is None:
            raise ReplayInterrupt(
                f"agent {request.agent!r} is called by nobody's run and is not on record: a re-run does not open it"
            )
        if recorded is self._world.target:
            return self._again(request, recorded)
        playback = Playback(Tape(recorded))
        session = played(request, recorded.run, playback, self._redaction(request.capture or CaptureLevel.REDACTED))
        session.number_scope = RecordedPlaces(playback.tape.nodes).scope
        with self._lock:
            self._played.add(session)
        return session

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End a run, and report on it if it is the wanted one."""
        with self._lock:
            if session in self._played:
                self._played.discard(session)
                session.close()
                return
            route = self._routes.pop(session, None)
        if session.interrupt is None and isinstance(error, ReplayInterrupt):
            session.interrupt = error
        self._recording.close(session, output=output, error=error)
        if route is not None and route.recorded is self._world.target and self._report is None:
            self._report = self._told(session, error, ended=True)
            if self._reported is not None:
                self._reported()

    # --- what the process asks ---

    def refused(self, violation: FenceViolation) -> None:
        """A fence refused the code of a run: it stops there, whatever that code catches."""
        with self._lock:
            sessions = [*self._routes, *self._played]
        for session in sessions:
            session.interrupt = session.interrupt or violation

    def only_target(self) -> RecordedRun:
        """Return the run that is wanted."""
        return self._world.target

    def report(self) -> RerunReport:
        """Return how the wanted run stands."""
        if self._report is not None:
            return self._report
        run = self._world.target.run
        if self._target is None:
            why = f"the command never started a run of agent {run.agent!r}: is it the command that was recorded?"
            return RerunReport.not_begun(run.run_id.hex(), run.agent, self.not_begun or why)
        return self._told(self._target[0], None, ended=False)

    # --- inside ---

    def _next(self, request: RunRequest) -> RecordedRun | None:
        """Take the first waiting run of that agent with the same input, else the first one waiting."""
        waiting = self._waiting.get(request.agent)
        if not waiting:
            return None
        given = self._recording.input_of(request)
        digest = None if given is None else given.digest
        place = next((place for place, one in enumerate(waiting) if input_digest(one) == digest), 0)
        recorded = waiting[place]
        del waiting[place]
        return recorded

    def _again(self, request: RunRequest, recorded: RecordedRun) -> Session:
        if self._max_steps:
            request = replace(request, max_steps=min(request.max_steps or self._max_steps, self._max_steps))
        fingerprint = self._recording.fingerprint(request)
        route = Route(self._world, recorded, policy=fingerprint.get("policy", ""))
        session = self._recording.open(
            request, mode=self._world.mode, answerers=route.answerers, origin_run_id=recorded.run.run_id
        )
        if session is None:
            raise CannotJudge(f"the re-run of run {recorded.run.run_id.hex()} could not be opened")
        route.take(session)
        with self._lock:
            self._routes[session] = route
            self._all.append(route)
            is_target = recorded is self._world.target and self._target is None
            if is_target:
                changed = fingerprint_differences(recorded.run.versions, fingerprint)
                given = self._recording.input_of(request)
                if given is not None and given.digest != input_digest(recorded):
                    changed.append("it was called with another input than on record")
                if self._world.plan.live_clock:
                    changed.append("clocks showed today (--live-clock)")
                self._target = session, route, tuple(changed)
        if is_target and self._reported is not None:
            self._reported()
        return session

    def _told(self, session: Session, error: BaseException | None, *, ended: bool) -> RerunReport:
        run = self._world.target.run
        status, reason, code = standing(error, session.interrupt, ended=ended)
        if status is RerunStatus.NOT_BEGUN and not ended:
            status = RerunStatus.STOPPED
        checks = [route.drift for route in self._all]
        missed: dict[str, bytes] = {}
        for route in self._all:
            missed.update(dict(route.tape.missed))  # a copy: threads of the run may still be asking
        return RerunReport(
            status,
            run.run_id.hex(),
            session.run_id.hex(),
            run.agent,
            reason,
            code,
            getattr(session.interrupt, "step", None),
            refusals(
                session.interrupt, {name: data for route in self._all for name, data in route.tape.missed.items()}
            ),
            tuple(one for check in checks for one in check.drifted),
            sum(check.checked for check in checks),
            sum(check.unknown for check in checks),
            tuple(miss for route in self._all for miss in route.pool.misses),
            sum(route.tape.turns.closely for route in self._all),
            () if self._target is None else self._target[2],
            spent_usd=self._world.meter.usd,
        )
