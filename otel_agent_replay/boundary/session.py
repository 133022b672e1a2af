"""The active session: the one place where a crossing asks who answers it.

An interceptor calls `active()`; with a session it builds a `Call` and asks `session.begin(call)` for a
`Crossing`. The session walks the mode's cell (see `policy`) through its answerers and tells its observer
what begins and ends. It contains no recording and no playback of its own: capture plugs in as an
`Observer`, replay as an `Answerer`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from otel_agent_replay.boundary import collector
from otel_agent_replay.boundary.approvals import Approvals
from otel_agent_replay.boundary.crossing import (
    Answer,
    Crossing,
    Place,
    current,
    root_strand,
    strand_label,
    within_strand,
)
from otel_agent_replay.boundary.effects import NO_TERMS, Effects, Keys, Terms, licensed_above
from otel_agent_replay.boundary.forked import Unrecorded
from otel_agent_replay.boundary.observer import Observer
from otel_agent_replay.boundary.policy import CALLED_THROUGH, Mode, OffTape
from otel_agent_replay.boundary.request_changes import ModelRoute, RequestRewriter
from otel_agent_replay.errors import CrossingRefused, ReplayInterrupt, StepLimit
from otel_agent_replay.model import (
    AnswerSource,
    AttributeValue,
    Call,
    Checkpoint,
    Kind,
    Loss,
    LossReason,
    Outcome,
    Read,
    SideEffect,
)
from otel_agent_replay.payload.redaction import Redaction

if TYPE_CHECKING:
    from otel_agent_replay.boundary.virtual_time import VirtualTime

_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
# Before Python 3.12 a member of an enumeration costs 70 ns each time it is named; a crossing names a dozen.
_LIVE, _TAPE, _LEDGER = AnswerSource.LIVE, AnswerSource.TAPE, AnswerSource.LEDGER
_DRY_RUN, _REFUSED = AnswerSource.DRY_RUN, AnswerSource.REFUSED
_HTTP, _TOOL, _MODEL, _CHECKPOINT = Kind.HTTP, Kind.TOOL, Kind.MODEL, Kind.CHECKPOINT
_NO_EFFECT = SideEffect.NONE
_MOST_LATE = 32  # places of a run whose late calls are told

_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
live_sessions = 0
"""How many sessions are open in this process; 0 lets every hook return after one comparison."""
_live_lock = threading.Lock()
_implicit: Callable[[bool], tuple[Session, Place] | None] | None = None
_may_open: Callable[[], bool] | None = None
_suppressed: Callable[[], bool] | None = None


def active() -> tuple[Session, Place] | None:
    """Return the session and place of the running code, for what opens no run: None outside one or in a closed one."""
    if not live_sessions or (collector.collecting and collector.runs_this()):
        return None
    here = current.get()
    if here is not None:
        if not here[0].closed:
            return here
        here[0].came_late(here[1])
        return None
    return None if _implicit is None else _implicit(False)


def active_for_call(*, opens: bool = True) -> tuple[Session, Place] | None:
    """Return the session and place that a crossing belongs to, or None when it is nobody's.

    Unlike `active` it leaves the tracing library's own traffic alone and, with `opens`, may open an implicit
    run (a service that has tracing but no decorated agent). Plain HTTP asks with `opens` False, so that a service
    that calls no model is not recorded.
    """
    if (_suppressed is not None and _suppressed()) or (collector.collecting and collector.runs_this()):
        return None
    here = current.get()
    if here is not None and not here[0].closed:
        return here
    other = None if _implicit is None else _implicit(opens)
    if here is not None and (other is None or here[0].forked):
        here[0].came_late(here[1])
    return other


def active_for_declared() -> tuple[Session, Place] | None:
    """Return the same as `active_for_call` for a declared function: no exporter calls one, so that is not asked."""
    here = current.get()
    if here is None:
        return None if _implicit is None else active_for_call()
    return active_for_call() if here[0].closed or collector.collecting else here


def opens_implicit_runs() -> bool:
    """Whether a model call outside any run may open one here: where none may, nobody need look whether it is one."""
    return _may_open is not None and _may_open() and not (_suppressed is not None and _suppressed())


def set_call_context(
    *,
    implicit: Callable[[bool], tuple[Session, Place] | None] | None,
    suppressed: Callable[[], bool] | None,
    may_open: Callable[[], bool] | None = None,
) -> None:
    """Set what `active_for_call` asks: who finds and opens implicit runs, whether the running code is an exporter's,
    and whether a run may be opened for it.
    """
    global _implicit, _suppressed, _may_open
    _implicit = implicit
    _suppressed = suppressed
    _may_open = may_open


class Answerer(Protocol):
    """A source of answers: a tape, a pool, fixtures. Implemented outside `boundary`."""

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the answer to `call` made at `place`, or None when this source has none."""

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return the next recorded bulk read of that name there, or None."""

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return what to raise when nothing answered: `call` for a crossing, `read` for a bulk read."""


class Session:
    """One run's answer to "who answers this?".

    `answerers` maps answer sources to who gives them, `prefix` those that the mode asks first; a source without one
    answers nothing. `effects` is the run's way to a ledger. `membership` is the run's id and, of a replay, the mode's
    name. `reads_live` tells that bulk reads are always live here, so that hooks need not ask; `guarded` that no call
    may go through unasked; `last_state` is the digest of what the agent last said or saw as a whole (a checkpoint's
    state, a model request), `live_steps` counts the steps that no shared recording answered. After `max_steps` (0:
    none) the run is aborted. `number_scope` gives a scope that is entered the number that it has on record. `edits` and
    `route` change model requests that go live, `watch` is told of each crossing that has ended, `marks` are facts of
    the run that are recorded at its end. `drill`, for tests, is told of each point at which a process may die.
    `entered_at` is the checkpoint that the agent is entered at (None: it begins at its beginning), `strand` its first
    thread of control. `asleep` is told how many seconds a live wait is to take, and what it returns, when that is over:
    it may take less (`sleeps_at_most_s`). All public methods may be called from any thread or task of the run.
    """

    def __init__(
        self,
        *,
        run_id: bytes,
        root: Place,
        mode: Mode,
        observer: Observer,
        redaction: Redaction,
        answerers: Mapping[AnswerSource, Answerer] | None = None,
        prefix: Mapping[AnswerSource, Answerer] | None = None,
        effects: Effects | None = None,
        max_steps: int = 0,
    ) -> None:
        self.run_id = run_id
        self.root = root
        self.mode = mode
        self.observer = observer
        self.redaction = redaction
        self.answerers: Mapping[AnswerSource, Answerer] = answerers or {}
        self.prefix: Mapping[AnswerSource, Answerer] = prefix or {}
        self.effects = effects
        self.approvals = Approvals()
        self.keys = Keys(run_id)
        self.last_state = b""
        self.live_steps = 0
        self.edits: RequestRewriter | None = None
        self.route: ModelRoute | None = None
        self.watch: Callable[[Crossing, Outcome], None] | None = None
        self.marks: Mapping[str, AttributeValue] = {}
        self.drill: Callable[[str, Place], None] | None = None
        self.number_scope: Callable[[Place, Callable[[], str]], None] | None = None
        self.sleeps_at_most_s: float | None = None
        self.asleep: Callable[[float], Callable[[], None]] | None = None
        self.virtual_time: VirtualTime | None = None
        self.interrupt: ReplayInterrupt | None = None
        self.entered_at: Checkpoint | None = None
        self.closed = False
        self.membership = (run_id, mode.name if mode.is_replay else "")
        self.guarded = mode.name != "record" or effects is not None
        self.max_steps = max_steps
        self._prefix = tuple((source, self.prefix[source]) for source in mode.prefix if source in self.prefix)
        self._shares = None if not mode.continues else (self.prefix if mode.prefix else self.answerers)
        self._cells: dict[tuple[Kind, SideEffect], tuple[AnswerSource, ...]] = {}
        self._tape = self.answerers.get(_TAPE) if mode.asks_tape_alone else None
        self._named = {key: self._given(cell) for key, cell in mode.named.items()}
        self._late: set[Place] = set()
        self.strand = root_strand()
        self.reads_live = mode.reads_live

    def begin(
        self,
        call: Call,
        place: Place,
        terms: Terms = NO_TERMS,
        rehearses: bool = False,
        revise: Callable[[Call, Place], Call] | None = None,
    ) -> Crossing:
        """Ask who answers `call`, made inside `place`; tell the observer that it begins.

        `terms` are the call's towards a ledger; `rehearses` tells that the caller has a dry run of it; `revise` gives
        the call as it is sent when it goes live. Returns a crossing whose `answer` is None when the interceptor must
        call through. Raises the session's interrupt when nobody may answer, and again on every later call: a replay
        that has departed stays departed, whatever the agent's code catches. Raises what `Effects.intend` raises.
        """
        if self.interrupt is not None:
            raise self.interrupt
        kind, side_effect = call.kind, call.side_effect
        child = place.child(kind, call.name)
        drill = self.drill
        if drill is not None and child.step is not None:
            drill("before", child)
            drill = None  # a run that goes on learns its step late: it is told then
        if self._tape is not None and drill is None and not terms.derives_key:
            answer = self._tape.answer(call, child)
            if answer is None:
                raise self._stop(call, child, None)
            return self._begun(child, call, _TAPE, answer, False, terms)
        if not self.guarded and drill is None and not terms.derives_key:  # plain recording: everything is live
            if kind is _TOOL:
                child.through = side_effect is not _NO_EFFECT
            child.key = call.idempotency_key
            if revise is not None:
                child.number()
                call = revise(call, child)
            return self._begun(child, call, _LIVE, None, False, terms)
        for source, answerer in self._prefix:
            answer = answerer.answer(call, child)
            if answer is not None:
                shared = source is _TAPE
                if not shared:
                    child.number()
                if terms.derives_key:
                    call = self._keyed(call, child)
                if drill is not None:
                    drill("before", child)
                return self._begun(child, call, source, answer, shared, terms)
        cell = self._named.get((call.name, side_effect)) if self._named else None
        if cell is None:
            cell = self._cells.get((kind, side_effect))
            if cell is None:
                cell = self._cells[kind, side_effect] = self._given(self.mode.sources(kind, side_effect))
        if kind is _HTTP and self.guarded and licensed_above(place):
            cell = self.mode.below_tool
        keyed = not terms.derives_key
        for source in cell:
            answer = None
            if drill is not None and source is not _TAPE:
                child.number()
                drill("before", child)
                drill = None
            if not keyed and source is not _TAPE:
                call, keyed = self._keyed(call, child), True
            if source is _LIVE:
                pass
            elif source is _LEDGER:
                answer = self._asked_ledger(call, child, terms)
                if answer is None:
                    continue
            elif source is _DRY_RUN:
                if not rehearses:
                    continue
            elif source is _REFUSED:
                child.number()
                self.interrupt = CrossingRefused(child.step, f"{kind.value} {call.name}", self.mode.name)
                raise self.interrupt
            elif source not in CALLED_THROUGH:
                answer = self.answerers[source].answer(call, child)
                if answer is None:
                    continue
            if answer is None:
                if kind is _TOOL:
                    child.through = side_effect is not _NO_EFFECT
                child.key = call.idempotency_key
                if revise is not None and source is _LIVE:
                    child.number()
                    call = revise(call, child)
            if not keyed:
                call = self._keyed(call, child)
            if drill is not None:
                drill("before", child)
            shared = source is _TAPE and self._shares is self.answerers
            return self._begun(child, call, source, answer, shared, terms)
        raise self._stop(call, child, None)

    def _keyed(self, call: Call, place: Place) -> Call:
        """Return the call with an idempotency key: the one that it has on record, else the next one."""
        return replace(call, idempotency_key=self.keys.of(call, place.key))

    def _begun(
        self, place: Place, call: Call, source: AnswerSource, answer: Answer | None, shared: bool, terms: Terms
    ) -> Crossing:
        step = place.step
        if step is None:
            place.number()
            step = place.step
        if self.max_steps and step is not None and step > self.max_steps:
            self.interrupt = StepLimit(self.max_steps)
            raise self.interrupt
        if not shared:
            self.live_steps += 1
        elif self.effects is not None and answer is not None and call.side_effect in _CHANGES:
            self.effects.passed(call, place, answer.outcome, terms)
        kind = place.kind
        if kind is _MODEL or kind is _CHECKPOINT:
            self.last_state = call.request.digest
        crossing = Crossing()  # filled here: an `__init__` would cost as much again
        crossing.session = self
        crossing.place = place
        crossing.call = call
        crossing.source = source
        crossing.answer = answer
        crossing.shared = shared
        crossing.leave = None
        crossing.ended = False
        self.observer.began(crossing)
        return crossing

    def _given(self, cell: tuple[AnswerSource, ...]) -> tuple[AnswerSource, ...]:
        """Return the sources of a cell that somebody gives."""
        given = {AnswerSource.REFUSED, *CALLED_THROUGH, *self.answerers}
        if self.effects is not None:
            given.add(AnswerSource.LEDGER)
        return tuple(source for source in cell if source in given)

    def _asked_ledger(self, call: Call, place: Place, terms: Terms) -> Answer | None:
        """Return what the ledger knows of the call; None when it is to be made now, its intent committed."""
        effects = self.effects
        if effects is None:
            return None
        place.number()
        if call.kind is Kind.APPROVAL:
            return effects.decided(call, place)
        try:
            return effects.intend(call, place, terms)
        except ReplayInterrupt as interrupt:
            self.interrupt = self.interrupt or interrupt
            raise

    def answer_read(self, kind: Kind, name: str) -> Read | None:
        """Return the tape's read, or None when the caller must read live and then call `observe_read`."""
        if self.interrupt is not None:
            raise self.interrupt
        if self.reads_live:
            return None
        place, strand = self.here()
        read = self._given_read(kind, name, place, strand)
        if read is None and _LIVE not in self.mode.cells[(kind, None)]:
            raise self._stop(None, place, (kind, name))
        return read

    def _given_read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return what a source says that is not the real thing; the observer is told unless it lies on record."""
        for _, answerer in self._prefix:
            read = answerer.read(kind, name, place, strand)
            if read is not None:
                return read  # it lies in the recording that this run shares
        for source in self.mode.cells[(kind, None)]:
            given = self.answerers.get(source)
            read = None if given is None else given.read(kind, name, place, strand)
            if read is not None:
                if self._shares is not self.answerers or source is not _TAPE:
                    self.observer.read(place, read)
                return read
        return None

    def observe_read(self, kind: Kind, name: str, value: Any, *, masked: bool = False) -> None:
        """Tell the observer of a live read."""
        here = current.get()
        place = here[1] if here is not None and here[0] is self else self.root
        self.observer.read(place, Read(kind, name, value, strand_label(), place.next_sequence(), masked))

    def mark(self, place: Place, name: str) -> None:
        """What `name` (of `ORDER_MARKS`) stands for is about to happen at `place`; a replay gives it its turn."""
        if self.closed or self.interrupt is not None:
            return
        if not self.reads_live:
            with suppress(ReplayInterrupt):  # the thread's own result is not to be replaced; later calls raise it
                if self._mark_answered(place, name):
                    return
        self.observer.read(place, Read(Kind.CLOCK, name, _time_ns(), strand_label(), place.next_sequence()))

    def _mark_answered(self, place: Place, name: str) -> bool:
        """Whether a recording has this one and has let it happen, or nobody may make one."""
        read = self._given_read(Kind.CLOCK, name, place, strand_label())
        return read is not None or _LIVE not in self.mode.cells[(Kind.CLOCK, None)]

    def here(self) -> tuple[Place, str]:
        """Return the current place in this session and the label of the thread of control."""
        here = current.get()
        place = here[1] if here is not None and here[0] is self else self.root
        return place, strand_label()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the enclosed code as the root of this run, on its first strand."""
        token = current.set((self, self.root))
        try:
            with within_strand(self.strand), self.observer.inside(self.root):
                yield
        finally:
            current.reset(token)

    @contextmanager
    def scope(self, place: Place, attributes: Mapping[str, Any]) -> Iterator[Place]:
        """Run the enclosed code inside a child place that is no crossing (`replay.step`)."""
        if self.number_scope is not None:
            self.number_scope(place, strand_label)
        self.observer.entered(place, attributes)
        token = current.set((self, place))
        try:
            with self.observer.inside(place):
                yield place
        except BaseException as error:
            self.observer.left(place, error, {})
            raise
        else:
            self.observer.left(place, None, {})
        finally:
            current.reset(token)

    def _stop(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        if self.mode.off_tape is not OffTape.STOP:
            raise AssertionError(f"mode {self.mode.name} left a crossing without an answer: {place.path}")
        first = next(iter(self.answerers.values()))
        self.interrupt = first.departed(call, place, read)
        return self.interrupt

    def open(self) -> None:
        """Count this session as live, so that hooks look for it."""
        global live_sessions
        collector.watch()
        with _live_lock:
            live_sessions += 1
            _open.add(self)

    def close(self) -> None:
        """End the session; later crossings of its threads go live and are counted as late (`came_late`)."""
        global live_sessions
        with _live_lock:
            if not self.closed:
                self.closed = True
                live_sessions -= 1
                _open.discard(self)

    @property
    def forked(self) -> bool:
        """Whether this is the copy of a session in a forked child: the run is the parent's."""
        return isinstance(self.observer, Unrecorded)

    def came_late(self, place: Place) -> None:
        """Code of this run, at `place`, goes on after its end, unrecorded: told once a place, of a few places."""
        observer, late = self.observer, self._late
        if isinstance(observer, Unrecorded):
            observer.called()
        elif place not in late and len(late) < _MOST_LATE:
            late.add(place)
            detail = "/".join(place.path) if len(late) < _MOST_LATE else "and at further places"
            observer.lost(Loss(LossReason.LATE, "calls after the run's end", 1, detail, self.run_id))


_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _in_forked_child() -> None:
    """Close the sessions that the parent had open; its locks may have been held when it forked."""
    global _live_lock, live_sessions
    _live_lock = threading.Lock()
    live_sessions = 0
    for session in list(_open):
        session.closed = True
        session.observer = Unrecorded(session.observer.lost)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
