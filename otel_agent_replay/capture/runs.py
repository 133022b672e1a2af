"""Opening and closing runs: the root span, the session, and the journal's first and last word on it."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Counters, Place, current, strand_label
from otel_agent_replay.boundary.effects import Effects, Keys
from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.http_exchange import finish_abandoned
from otel_agent_replay.boundary.policy import RECORD, Mode
from otel_agent_replay.boundary.runs import Continuation, RunRequest
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.capture import surroundings
from otel_agent_replay.capture.continued import ContinuedRecorder
from otel_agent_replay.capture.inline import payload_attribute
from otel_agent_replay.capture.kept_states import ALWAYS, StatesKept, flag_attributes
from otel_agent_replay.capture.recorder import JournalWriter, Recorder
from otel_agent_replay.capture.span_facts import span_kind, span_name
from otel_agent_replay.capture.traced_runs import TracedRuns
from otel_agent_replay.capture.tracing import LiveSpan, Tracing
from otel_agent_replay.errors import (
    AwaitingPerson,
    EffectInDoubt,
    LeaseLost,
    ReplayInterrupt,
    SpendingLimit,
    StepLimit,
    TapeEnded,
)
from otel_agent_replay.model import (
    CLIENT_STRAND,
    AnswerSource,
    CaptureLevel,
    CoverageEntry,
    FailurePhase,
    Kind,
    Loss,
    LossReason,
    Payload,
    Read,
    RunStatus,
    new_run_id,
    new_span_id,
    new_trace_id,
)
from otel_agent_replay.payload.level import apply_level
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.text import whole_text
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_VERSION_KEYS = {
    "agent": semconv.VERSION_AGENT,
    "prompt": semconv.VERSION_PROMPT,
    "tool_schema": semconv.VERSION_TOOL_SCHEMA,
    "model_route": semconv.VERSION_MODEL_ROUTE,
    "policy": semconv.VERSION_POLICY,
    "index": semconv.VERSION_INDEX,
}
# A replay that ended with its tape did all that the recorded run did, which never ended either.
_UNFINISHED = (TapeEnded, AwaitingPerson, EffectInDoubt, LeaseLost)
_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns

EffectsOpener = Callable[[bytes, str, bool], Effects]
"""Holds a run in the ledger: its id, its agent, and whether it is there already. Raises RunBusy, LedgerError."""


class RunJournal(JournalWriter, Protocol):
    """A journal that is told which runs are open, so that it rotates only between them."""

    def begin_run(self, run_id: bytes) -> None:
        """A run begins to write."""

    def end_run(self, run_id: bytes) -> None:
        """It has written its last record."""


class RecordingRuns:
    """The run factory of a process that records.

    `redaction(level)` returns the rules for a capture level; `coverage()` what is and is not captured now;
    `before_open()` is called before a run's first span is made. `effects` opens a run in the ledger, where there is
    one; `max_steps` (0: none) is the fuse of runs that declare none; `drill` is told where this process may die;
    `states` says whose checkpoint states are kept in the lake.
    """

    def __init__(
        self,
        *,
        journal: RunJournal,
        tracing: Tracing,
        redaction: Callable[[CaptureLevel], Redaction],
        coverage: Callable[[], Sequence[CoverageEntry]],
        level: CaptureLevel,
        inline: bool = False,
        before_open: Callable[[], None] = lambda: None,
        effects: EffectsOpener | None = None,
        max_steps: int = 0,
        drill: Callable[[str, Place], None] | None = None,
        states: StatesKept = ALWAYS,
    ) -> None:
        self._before_open = before_open
        self._effects = effects
        self._max_steps = max_steps
        self._drill = drill
        self._states = states
        self._journal = journal
        self._tracing = tracing
        self._redaction = redaction
        self._coverage = coverage
        self._level = level
        self._inline = inline
        self._ordinal = itertools.count()
        self._said: set[str] = set()
        self._traced = TracedRuns()
        self._coverage_known: tuple[tuple[CoverageEntry, ...], bytes] | None = None

    def with_effects(self, effects: EffectsOpener) -> RecordingRuns:
        """Return the same factory with another way to the ledger."""
        other = copy(self)
        other._effects = effects
        return other

    def hold(self, run_id: bytes, agent: str) -> Effects | None:
        """Hold a recorded run in the ledger, so that nobody else goes on with it; None where there is no ledger.

        To be called before its recording is read: until then somebody may write on. Raises RunBusy, LedgerError.
        """
        return None if self._effects is None else self._effects(run_id, agent, True)

    def open(
        self,
        request: RunRequest,
        *,
        mode: Mode = RECORD,
        answerers: Mapping[AnswerSource, Answerer] | None = None,
        prefix: Mapping[AnswerSource, Answerer] | None = None,
        origin_run_id: bytes = b"",
        continuation: Continuation | None = None,
        effects: Effects | None = None,
    ) -> Session | None:
        """Open a run; None when that failed (said once): the agent then runs unrecorded.

        With `continuation` the run goes on from a recording, under what `hold` gave as `effects`, and what fails is
        raised.
        """
        try:
            self._before_open()
            return self._open(request, mode, answerers, prefix, origin_run_id, continuation, effects)
        except Exception as error:
            if continuation is not None:
                raise
            self._say("a run is not recorded", f"agent {request.agent!r}", error)
            return None

    def _open(
        self,
        request: RunRequest,
        mode: Mode,
        answerers: Mapping[AnswerSource, Answerer] | None,
        prefix: Mapping[AnswerSource, Answerer] | None,
        origin_run_id: bytes,
        continuation: Continuation | None,
        effects: Effects | None,
    ) -> Session:
        level = request.capture or self._level
        redaction = self._redaction(level)
        request = _redacted(request, redaction)
        if continuation is None:
            run_id: bytes = new_run_id()
            root = Place.root(request.agent)
        else:
            run_id = continuation.run_id
            counters = Counters(continuation.first_sequence, continuation.first_step, continues=True)
            root = Place.root(request.agent, counters)
        attributes = _run_attributes(request, run_id, mode, origin_run_id)
        live = self._tracing.start(span_name(root, {}), span_kind(Kind.RUN), None, attributes)
        caller = (live is None and (self._tracing.caller() or _calling_run())) or (new_trace_id(), b"")
        make = Recorder if continuation is None else ContinuedRecorder
        recorder = make(
            run_id=run_id,
            trace_id=caller[0] if live is None else live.trace_id,
            journal=self._journal,
            tracing=self._tracing,
            level=level,
            replay=mode.is_replay,
            mode=mode.name,
            alone=mode.stands_alone,
            inline=self._inline,
        )
        if isinstance(recorder, ContinuedRecorder) and continuation is not None:
            recorder.continuation = continuation
        recorder.caller_strand = _calling_strand()
        recorder.attach_root(root, new_span_id() if live is None else live.span_id, live)
        if continuation is None and self._effects is not None and not mode.is_replay:
            effects = self._effects(run_id, request.agent, False)
        session = Session(
            run_id=run_id,
            root=root,
            mode=mode,
            observer=recorder,
            redaction=redaction,
            answerers=answerers,
            prefix=prefix,
            effects=effects,
            max_steps=request.max_steps or self._max_steps,
        )
        session.drill = self._drill
        if continuation is not None:
            session.keys = Keys(run_id, continuation.keys)
            if effects is not None:
                effects.goes_on_from(continuation)
        stored = self.input_of(request)
        self._journal.begin_run(run_id)
        record = self._begin_record(request, session, recorder, live, origin_run_id)
        if continuation is not None:
            record.run_begun.attempt = continuation.attempt
            record.run_begun.fork_step = continuation.fork_step
        if live is None:
            record.run_begun.parent_span_id = caller[1]
        if stored is not None:
            record.run_begun.input_digest = stored.digest
            if recorder.inline is not None and live is not None:
                live.span.set_attributes(payload_attribute(semconv.REQUEST_BODY, stored))
        self._journal.append(*recorder.bodies(stored), record)
        self._observe_client_environment(session, recorder)
        if live is not None:
            self._traced.add(live.context.trace_id, recorder, session.membership)
        session.open()
        return session

    @staticmethod
    def _observe_client_environment(session: Session, recorder: Recorder) -> None:
        for name, value in surroundings.client_environment().items():
            stored, masked = session.redaction.env(name, value)
            read = Read(Kind.ENV, f"os.environ[{name}]", stored, CLIENT_STRAND, session.root.next_sequence(), masked)
            recorder.read(session.root, read)

    def _begin_record(
        self, request: RunRequest, session: Session, recorder: Recorder, live: LiveSpan | None, origin_run_id: bytes
    ) -> wire.Record:
        record = wire.Record()
        begun = record.run_begun
        begun.run_id = session.run_id
        begun.trace_id = recorder.trace_id
        begun.span_id = session.root.span.span_id
        begun.agent = request.agent
        begun.entry = request.entry
        begun.time_ns = _time_ns() if live is None else live.start_ns
        begun.thread_id = request.thread_id
        begun.mode = session.mode.name
        begun.replay = session.mode.is_replay
        begun.origin_run_id = origin_run_id
        begun.subject = request.subject
        begun.ordinal = next(self._ordinal)
        begun.hash_seed = surroundings.hash_seed()
        begun.capture = recorder.level.value
        if live is not None:
            begun.parent_span_id = live.parent_span_id
            begun.trace_state = live.trace_state
            begun.flags = live.flags
        versions = _fingerprint(request)
        begun.versions.extend(wire.Version(name=name, value=value) for name, value in versions.items() if value)
        return record

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End a run: what is still open in it ends with what was taken of it, or as pending; then the run itself."""
        if session.forked:  # it is the run of the process that we were forked from
            return
        try:
            self._close(session, output, error)
        except Exception as defect:
            self._say("the end of a run was not recorded", f"run {session.run_id.hex()}", defect)
            session.observer.lost(Loss(LossReason.INTERNAL, "end of a run", 1, type(defect).__name__))
        finally:
            session.close()
            if isinstance(session.observer, Recorder):
                self._traced.discard(session.observer)
            self._journal.end_run(session.run_id)
            if session.effects is not None:
                session.effects.closed(_status(session, error))

    def run_of(self, trace_id: int, span_id: int) -> tuple[bytes, str]:
        """Return the id of the run whose open span this is, and of a replay its mode; empty for none."""
        return self._traced.run_of(trace_id, span_id)

    def input_of(self, request: RunRequest) -> Payload | None:
        """Return a run's input as it is recorded, None for none."""
        level, given = request.capture or self._level, request.input
        if given is None or given.data is None:
            return None
        return apply_level(Payload.of(self._redaction(level).value_bytes(given.data), given.media_type), level)

    def fingerprint(self, request: RunRequest) -> dict[str, str]:
        """Return what tells a run's code and configuration from others, by the names of its versions, as recorded."""
        return _fingerprint(_redacted(request, self._redaction(request.capture or self._level)))

    def _covered(self) -> bytes:
        """Return the part of a run's end that says what was captured: the same for most runs of a process."""
        entries = tuple(self._coverage())
        known = self._coverage_known
        if known is None or known[0] != entries:
            part = wire.RunEnded(coverage=[convert.coverage_to_wire(entry) for entry in entries])
            known = self._coverage_known = (entries, part.SerializeToString())
        return known[1]

    def _say(self, what: str, which: str, error: Exception) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.error("%s (%s); the agent goes on, it is said once", what, which, exc_info=error)

    def _close(self, session: Session, output: Payload | None, error: BaseException | None) -> None:
        recorder = session.observer
        if not isinstance(recorder, Recorder):
            raise TypeError("this session was not opened here")
        finish_abandoned()
        for place, crossing in recorder.close_open():
            if crossing is None:
                recorder.left(place, None, {})
            else:
                crossing.abandon()
        record = wire.Record()
        ended = record.run_ended
        ended.run_id = session.run_id
        ended.end_sequence = session.root.next_sequence()
        status = _status(session, error)
        ended.status = status.value
        stored = None
        if output is not None and output.data is not None:
            redacted = Payload.of(session.redaction.value_bytes(output.data), output.media_type)
            stored = apply_level(redacted, recorder.level)
            ended.output_digest = stored.digest
        if error is not None:
            failure = recorded_failure(error, FailurePhase.CALL, session.redaction)
            ended.error_type = type(error).__qualname__
            ended.error_message = failure.message
            ended.failure.CopyFrom(convert.failure_to_wire(failure))
        marks = {**session.marks, **flag_attributes(recorder.flags)}
        if self._states.leaves_out(session.run_id, status, flagged=bool(recorder.flags)):
            marks[semconv.STATES_LEFT_OUT] = True
        if recorder.caller_strand:
            marks[semconv.CALLER_STRAND] = recorder.caller_strand
        ended.attributes.extend(convert.attributes_to_wire(marks))
        ended.versions.extend(wire.Version(name=name, value=value) for name, value in _learnt(recorder).items())
        ended.MergeFromString(self._covered())
        ended.time_ns = _time_ns()
        self._journal.append(*recorder.flush(session.root), *recorder.bodies(stored), record)
        live = session.root.span.live
        if live is not None:
            facts: dict[str, Any] = {semconv.RUN_STATUS: status.value}
            if recorder.inline is not None:
                facts.update(payload_attribute(semconv.RESULT_BODY, stored))
            live.end(ended.time_ns, ended.error_type, facts)


def _calling_run() -> tuple[bytes, bytes] | None:
    """Return the trace id and span id of the code of a run that calls this one's agent, where there is one."""
    here = current.get()
    if here is None or here[0].closed or not isinstance(here[0].observer, Recorder) or here[1].span is None:
        return None
    return here[0].observer.trace_id, here[1].span.span_id


def _calling_strand() -> str:
    """Return the thread of control of the run whose code calls this one's agent; "" for its first one, and for none.

    Two threads may call one agent with equal inputs: a replay gives each its own run.
    """
    here = current.get()
    return "" if here is None or here[0].closed else strand_label()


def _redacted(request: RunRequest, redaction: Redaction) -> RunRequest:
    """Return the request with every text that people chose redacted: a command line may hold a key."""
    return replace(
        request,
        agent=whole_text(redaction.text(request.agent)),
        entry=whole_text(redaction.text(request.entry)),
        thread_id=whole_text(redaction.text(request.thread_id)),
        subject=whole_text(redaction.text(request.subject)),
        versions={name: whole_text(redaction.named(name, value)) for name, value in request.versions.items()},
    )


def _fingerprint(redacted: RunRequest) -> dict[str, str]:
    return {"code": surroundings.code_revision(), "source": surroundings.source_digest(), **redacted.versions}


def _status(session: Session, error: BaseException | None) -> RunStatus:
    interrupt = session.interrupt or error
    if isinstance(interrupt, _UNFINISHED):
        return RunStatus.PENDING
    if isinstance(interrupt, (StepLimit, SpendingLimit)):
        return RunStatus.ABORTED
    if isinstance(interrupt, ReplayInterrupt):
        return RunStatus.DEPARTED
    return RunStatus.OK if error is None else RunStatus.ERROR


def _learnt(recorder: Recorder) -> dict[str, str]:
    learnt = {f"package:{name}": version for name, version in surroundings.packages().items()}
    learnt.update(recorder.versions)
    return learnt


def _run_attributes(request: RunRequest, run_id: bytes, mode: Mode, origin_run_id: bytes) -> dict[str, object]:
    attributes: dict[str, object] = {
        semconv.OPERATION_NAME: "invoke_agent",
        semconv.AGENT_NAME: request.agent,
        semconv.RUN_ID: run_id.hex(),
        semconv.RUN_MODE: mode.name,
        semconv.KIND: Kind.RUN.value,
    }
    if request.thread_id:
        attributes[semconv.CONVERSATION_ID] = request.thread_id
    if mode.is_replay:
        attributes[semconv.REPLAY] = True
    if origin_run_id:
        attributes[semconv.RUN_ORIGIN] = origin_run_id.hex()
    attributes.update({_VERSION_KEYS[name]: value for name, value in request.versions.items() if value})
    return attributes
