"""The run factory of a component run: each run it opens is answered by the case's fixtures, clock and seed.

Runs that agents of the case begin share its fixtures, its time and its event log. Owns what stops them, and how a
function of the application is called later, as a webhook would.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from otel_agent_replay.boundary.crossing import Place, current, new_strand, within_strand
from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.http_exchange import finish_abandoned
from otel_agent_replay.boundary.policy import COMPONENT
from otel_agent_replay.boundary.runs import RunRequest
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import FenceViolation, ReplayInterrupt
from otel_agent_replay.model import AnswerSource, FailurePhase, Kind, Payload, new_run_id
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.component.case import CallBack, Case
from otel_agent_replay.replay.component.event_log import CALLBACK, END, Event, EventLog, as_json
from otel_agent_replay.replay.component.fixtures import Fixtures
from otel_agent_replay.replay.seeded import SeededReads
from otel_agent_replay.replay.virtual_clock import Start, VirtualClock
from otel_agent_replay.replay.virtual_waits import VirtualWaits

_Function = Callable[..., Any]


class ComponentRuns:
    """Implements `boundary.runs.RunFactory` for one case. `callbacks` are the functions that its fixtures call back."""

    def __init__(self, case: Case, callbacks: Mapping[str, _Function]) -> None:
        self.waits = VirtualWaits()
        self.log = EventLog(self.waits)
        self.fixtures = Fixtures(case, self.waits, self._call_back)
        self._case = case
        self._callbacks = callbacks
        self._clock = VirtualClock(Start(case.start_ns, case.ahead_s), waits=self.waits)
        self._seeded = SeededReads(case.seed, now_ns=self._clock.now_ns)
        self._redaction = Redaction.default()
        self._lock = threading.Lock()
        self._sessions: list[Session] = []
        self._later: set[asyncio.Task[Any]] = set()
        self._defects: list[ReplayInterrupt] = []

    # --- the RunFactory protocol ---

    def open(self, request: RunRequest) -> Session:
        """Open a run of an agent."""
        return self.begin(request.agent, request.max_steps)

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End it, and take down how it ended."""
        if session.closed:
            return
        finish_abandoned()
        if isinstance(error, ReplayInterrupt):
            session.interrupt = session.interrupt or error
        with self._lock:
            number = self._sessions.index(session) + 1
        event = self.log.add(END, session.root.name, run=number, path=session.root.path)
        kept = None if output is None or output.data is None else session.redaction.value_bytes(output.data)
        self.log.end(event, result=None if kept is None else as_json(Payload.of(kept, "application/json")))
        if error is not None:
            failure = recorded_failure(error, FailurePhase.CALL, session.redaction)
            event.status, event.error, event.message = "error", failure.type, failure.message
        session.close()

    # --- what the run of a case asks ---

    def begin(self, name: str, max_steps: int = 0) -> Session:
        """Open a run of that name; `max_steps` is its own fuse, beside the case's."""
        with self._lock:
            number = len(self._sessions) + 1
            session = Session(
                run_id=new_run_id(),
                root=Place.root(name),
                mode=COMPONENT,
                observer=self.log.of_run(number),
                redaction=self._redaction,
                answerers={
                    AnswerSource.FIXTURE: self.fixtures,
                    AnswerSource.VIRTUAL: self._clock,
                    AnswerSource.SEEDED: self._seeded,
                },
                max_steps=min(max_steps or self._case.max_steps, self._case.max_steps),
            )
            session.virtual_time = self.waits
            self._sessions.append(session)
        session.open()
        self.log.end(self.log.add(Kind.RUN.value, name, run=number, path=session.root.path))
        return session

    @property
    def interrupt(self) -> ReplayInterrupt | None:
        """What stopped a run of the case, whatever its code caught; None: nothing did."""
        with self._lock:
            stopped = [one.interrupt for one in self._sessions if one.interrupt is not None]
        return self.fixtures.interrupt or next(iter([*stopped, *self._defects]), None)

    def refused(self, violation: FenceViolation) -> None:
        """A fence refused the code of a run: the case is broken, whatever that code catches."""
        with self._lock:
            for session in self._sessions:
                session.interrupt = session.interrupt or violation

    # --- functions that are called later ---

    def deliver_what_is_left(self) -> None:
        """Let what is to be called later be called, now that the orchestrator has ended."""
        if not self.waits.run_out(self._case.max_steps):
            told = f"callbacks went on after {self._case.max_steps} of them: each leads to another"
            self._defects.append(ReplayInterrupt(told))

    def _call_back(self, back: CallBack) -> None:
        """Call a function of the application as part of the first run, or of one of its own when that has ended."""
        with self._lock:
            session = next((one for one in self._sessions if not one.closed), None)
        beside = session is None
        session = session or self.begin(back.entry)
        event = self.log.add(CALLBACK, back.entry, arguments=dict(back.arguments))
        token = current.set((session, session.root))
        try:
            with within_strand(new_strand()), session.observer.inside(session.root):
                self._run(self._callbacks[back.entry], back.arguments, event)
        finally:
            current.reset(token)
            if beside:
                self.close(session, output=None, error=session.interrupt)

    def _run(self, function: _Function, arguments: Mapping[str, Any], event: Event) -> None:
        """Call it; what it raises is its own: a webhook's error does not reach the orchestrator."""
        try:
            result = function(**arguments)
            if not inspect.isawaitable(result):
                self.log.end(event)
            elif asyncio._get_running_loop() is None:
                asyncio.run(_awaited(result))
                self.log.end(event)
            else:
                task = asyncio.get_running_loop().create_task(_awaited(result))
                self._later.add(task)
                task.add_done_callback(lambda done: self._later_done(done, event))
        except ReplayInterrupt as interrupt:
            self._defects.append(interrupt)
            self.log.end(event, interrupt)
        except Exception as error:
            self.log.end(event, error)

    def _later_done(self, task: asyncio.Task[Any], event: Event) -> None:
        self._later.discard(task)
        if task.cancelled():
            event.status = "cancelled"
            return
        error = task.exception()
        self.log.end(event, error)
        if isinstance(error, ReplayInterrupt):
            self._defects.append(error)


async def _awaited(result: Any) -> Any:
    return await result
