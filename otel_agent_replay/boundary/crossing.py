"""A crossing while it happens, and the place in the run where it happens."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from otel_agent_replay.boundary.ticks import Ticker
from otel_agent_replay.errors import ReplayInterrupt
from otel_agent_replay.model import AnswerSource, Call, Kind, Outcome, OutcomeStatus

if TYPE_CHECKING:
    from otel_agent_replay.boundary.session import Session

current: ContextVar[tuple[Session, Place] | None] = ContextVar("agent_replay_current", default=None)
"""The session and place of the code that runs now; None outside a run."""


class Answer(Protocol):
    """What a source other than LIVE gives: the outcome to serve, and its turn in the recorded order.

    A tape puts `outcome` together when somebody asks for it; who only needs a value asks `bare` and `data`.
    """

    same_request: bool  # whether the request of the recorded step it came from was the same, by digest

    @property
    def origin_step(self) -> int | None:
        """The recorded step it came from."""

    @property
    def outcome(self) -> Outcome:
        """The outcome to serve; its payloads carry their data."""

    @property
    def bare(self) -> Outcome:
        """The same; the bytes of its result may lie beside it, in `data`."""

    @property
    def data(self) -> bytes | None:
        """The bytes of its result, if it has one and they were kept."""

    def settle(self) -> None:
        """Block the calling thread until the recorded completion order allows this answer to end."""

    async def settle_async(self) -> None:
        """The same for a task; held for ever (until cancelled) when the recorded call was cancelled."""

    def done(self) -> None:
        """Told once the crossing has ended, so that the next in order may."""


class WholeAnswer:
    """For answers whose `outcome` is whole from the start."""

    __slots__ = ()

    outcome: Outcome

    @property
    def bare(self) -> Outcome:
        """The outcome itself."""
        return self.outcome

    @property
    def data(self) -> bytes | None:
        """The bytes of its result."""
        result = self.outcome.result
        return None if result is None else result.data


aside: ContextVar[bool] = ContextVar("agent_replay_aside", default=False)
"""Whether the code that runs now is nobody's run, also where the process is one: it is the ledger's own business."""


_STEPS = frozenset(kind for kind in Kind if kind is Kind.CHECKPOINT or (kind.is_crossing and not kind.is_bulk))


class Counters:
    """The run's two counters; `next` on them is atomic under the interpreter lock.

    `sequence` has gaps: turns of the event loop after an end use up numbers (`ticks`). `continues` tells that the run
    goes on from a recording: what that answers keeps its recorded step, so that a place gets its number late.
    """

    __slots__ = ("continues", "sequence", "step", "ticker")

    def __init__(self, first_sequence: int = 1, first_step: int = 1, *, continues: bool = False) -> None:
        self.sequence = itertools.count(first_sequence)
        self.step = itertools.count(first_step)
        self.ticker = Ticker(self.sequence)
        self.continues = continues


class Place:
    """Where in the run something is: the logical path, and the counters of what happened there.

    `counters` are the run's. `span` is free for the observer: it hangs its own record of the place there. `effect` is
    the side effect that its code runs for, where a ledger keeps it; `through` tells that it is a tool that is called
    through and said that it touches the world; `sandbox` is the URL that its HTTP goes to where it is only rehearsed,
    "" elsewhere; `key` is the idempotency key that it was called through with, or has on record.
    """

    __slots__ = (
        "_children",
        "_path",
        "counters",
        "effect",
        "key",
        "kind",
        "name",
        "occurrence",
        "parent",
        "sandbox",
        "sequence",
        "span",
        "step",
        "through",
    )

    kind: Kind
    name: str
    parent: Place | None
    occurrence: int
    counters: Counters
    sequence: int
    step: int | None
    span: Any
    effect: Any
    key: str
    through: bool
    sandbox: str
    _path: tuple[str, ...] | None
    _children: dict[tuple[Kind, str], Iterator[int]]

    @property
    def path(self) -> tuple[str, ...]:
        """The logical path: one `kind:name#occurrence` part a place, root first, itself last."""
        path = self._path
        if path is None:
            part = f"{self.kind._value_}:{self.name}#{self.occurrence}"
            path = self._path = (part,) if self.parent is None else (*self.parent.path, part)
        return path

    @classmethod
    def root(cls, name: str, counters: Counters | None = None) -> Place:
        """Return the root place of a run of agent `name`: of a new one, unless `counters` go on from a recording."""
        nowhere = cls()
        nowhere.counters = counters or Counters()
        nowhere._children = {}
        root = nowhere.child(Kind.RUN, name)
        root.parent = None
        return root

    def renumber(self, occurrence: int) -> None:
        """Give it this number among its like: where a recording has it. To be told before anything happens there."""
        self.occurrence = occurrence
        self._path = None

    def number(self) -> None:
        """Give it the run's next step, if it is one and has none yet."""
        if self.step is None and self.kind in _STEPS:
            self.step = next(self.counters.step)

    def child(self, kind: Kind, name: str) -> Place:
        """Return a new place inside this one, numbered among its like."""
        key = (kind, name)
        counter = self._children.get(key)
        if counter is None:
            counter = self._children.setdefault(key, itertools.count())
        counters = self.counters
        child = Place()  # filled here: an `__init__` would cost as much again
        child.kind = kind
        child.name = name
        child.parent = self
        child.occurrence = next(counter)
        child._path = None
        child.counters = counters
        child._children = {}
        child.sequence = next(counters.sequence)
        child.step = next(counters.step) if kind in _STEPS and not counters.continues else None
        child.span = None
        child.effect = None
        child.key = ""
        child.through = False
        child.sandbox = ""
        return child

    def next_sequence(self) -> int:
        """Return the next number in the run's order of begins, reads and ends."""
        return next(self.counters.sequence)


class _Strand:
    """A thread of control: one task or thread, labelled by its parent's label and its number there.

    `owner` is whoever runs it: a thread's token, a weak reference to a task, or None until someone claims it.
    """

    __slots__ = ("children", "label", "owner", "parent")

    def __init__(self, label: str, owner: object, parent: _Strand | None = None) -> None:
        self.label = label
        self.owner = owner
        self.parent = parent
        self.children = itertools.count(1)

    def child(self) -> _Strand:
        """Return a new strand below this one, numbered among its like."""
        number = next(self.children)
        return _Strand(f"{self.label}.{number}" if self.label else str(number), None, self)

    def is_below(self, other: _Strand) -> bool:
        """Whether `other` is among its ancestors."""
        above = self.parent
        while above is not None and above is not other:
            above = above.parent
        return above is other


class _Thread(threading.local):
    """What belongs to the running thread: a token that no later thread can have, and the strand it was given."""

    def __init__(self) -> None:
        self.token = object()
        self.given: _Strand | None = None


_strand: ContextVar[_Strand | None] = ContextVar("agent_replay_strand", default=None)
_thread = _Thread()
_running_loop = asyncio._get_running_loop
_current_task = asyncio.current_task


def _task() -> asyncio.Task[Any] | None:
    loop = _running_loop()
    return None if loop is None else _current_task(loop)


def _claimed() -> _Strand:
    """Return the running code's strand, made its own if it was nobody's."""
    loop = _running_loop()
    task = None if loop is None else _current_task(loop)
    strand = _strand.get()
    if strand is None:
        strand = _Strand("", None)
    else:
        owner = strand.owner
        if owner is not None:
            if task is None:
                if owner is _thread.token:
                    return strand
                # A worker runs in a copy of its caller's context; the strand it was given lies beside that.
                given = _thread.given
                strand = given if given is not None and given.is_below(strand) else strand.child()
            elif type(owner) is weakref.ref and owner() is task:
                return strand
            else:
                strand = strand.child()
    strand.owner = _thread.token if task is None else weakref.ref(task)
    _strand.set(strand)
    return strand


def strand_label() -> str:
    """Return the label of the running thread of control: "" for the run's first, "1", "1.2" ... below it.

    Labels depend on the order in which tasks and threads are made (`new_strand`), else on the order in which
    they first ask, never on ids or times, so that a replay finds the same ones.
    """
    return _claimed().label


def new_strand() -> object:
    """Label a thread or task that is about to start, in its parent; run its code in `within_strand` of it."""
    return _claimed().child()


def label_of(strand: object) -> str:
    """Return the label that `new_strand` gave."""
    return cast("_Strand", strand).label


def root_strand(next_child: int = 1) -> object:
    """Return the label of a run's first thread of control; `next_child` is the number of the next one it starts."""
    strand = _Strand("", None)
    strand.children = itertools.count(next_child)
    return strand


@contextmanager
def within_strand(strand: object) -> Iterator[None]:
    """Run the enclosed code under a label from `new_strand` or `root_strand`, in whatever thread or task this is."""
    if not isinstance(strand, _Strand):
        raise TypeError(f"a strand comes from new_strand() or root_strand(), not {strand!r}")
    strand.owner = None
    before = _thread.given
    in_thread = _task() is None
    token = _strand.set(strand)
    if in_thread:
        _thread.given = strand
    try:
        yield
    finally:
        if in_thread:
            _thread.given = before
        _strand.reset(token)


_T = TypeVar("_T")


def handing_over(strand: object, make: Callable[[], _T], context: Context | None = None) -> _T:
    """Return `make()`, which makes a task whose code then runs under `strand`.

    `context` is the one that the task was asked to run in; None: it gets a copy of the current one.
    """
    given = cast("_Strand", strand)
    if context is not None:
        # A context that somebody runs in now refuses: the task's label is then settled when it first asks.
        with suppress(RuntimeError):
            context.run(_strand.set, given)
        return make()
    token = _strand.set(given)
    try:
        return make()
    finally:
        _strand.reset(token)


class _Inside(AbstractContextManager[None]):
    """Makes a place current; a class, not a generator, because every recorded call enters it."""

    __slots__ = ("_place", "_session", "_span", "_token")

    def __init__(self, session: Session, place: Place) -> None:
        self._session = session
        self._place = place

    def __enter__(self) -> None:
        self._token = current.set((self._session, self._place))
        try:
            span = self._session.observer.inside(self._place)
            span.__enter__()
        except BaseException:
            current.reset(self._token)
            raise
        self._span = span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._span.__exit__(kind, error, trace)
        finally:
            current.reset(self._token)


class Leaver(Protocol):
    """Whoever hands an answer over bit by bit."""

    def run_over(self) -> None:
        """The run is over: end the crossing with what was taken so far, or leave it if nothing was."""


@contextmanager
def outside_runs() -> Iterator[None]:
    """Run the enclosed code as part of no run: nothing of it is recorded or answered."""
    token, beside = current.set(None), aside.set(True)
    try:
        yield
    finally:
        aside.reset(beside)
        current.reset(token)


def leave_of(leaver: Leaver) -> Callable[[], None]:
    """Return what tells `leaver` that the run is over, without keeping it alive: dropped responses must be seen."""
    reference = weakref.ref(leaver)

    def leave() -> None:
        alive = reference()
        if alive is not None:
            alive.run_over()

    return leave


_NOT_DONE = (OutcomeStatus.ERROR, OutcomeStatus.CANCELLED)


class Crossing:
    """One call across the boundary, from begin to end.

    `answer` is None when the interceptor must call through; else it holds the outcome to serve. `shared` tells that
    the answer lies in the recording that this run goes on from, so that it is not recorded again. Exactly one
    `finish` ends it (`ended` tells); later ones are ignored, so that close, garbage collection and errors may all try.
    `leave` is set by an interceptor whose answer is taken bit by bit: it ends the crossing with what was taken so far.
    """

    __slots__ = ("answer", "call", "ended", "leave", "place", "session", "shared", "source")

    session: Session
    place: Place
    call: Call
    source: AnswerSource
    answer: Answer | None
    shared: bool
    leave: Callable[[], None] | None
    ended: bool

    def inside(self) -> AbstractContextManager[None]:
        """Run the enclosed code as part of this crossing: what crosses in it becomes its child.

        Never keep it open across a `yield` to foreign code.
        """
        return _Inside(self.session, self.place)

    def finish(self, outcome: Outcome) -> None:
        """End the crossing with `outcome`, or with its answer's `bare` one.

        Raises LeaseLost when the run belongs to another worker by now.
        """
        if self.ended:
            return
        self.ended = True
        self.leave = None
        session, place, answer = self.session, self.place, self.answer
        effect, drill = place.effect, session.drill
        if drill is not None:
            drill("during", place)
        if self.call.idempotency_key and outcome.status in _NOT_DONE:
            session.keys.failed(self.call, on_record=self.shared)
        try:
            session.observer.ended(self, outcome)
            if session.watch is not None:
                session.watch(self, answer.outcome if answer is not None and outcome is answer.bare else outcome)
            if effect is not None:  # last: what the ledger knows to be done, the recording has the result of
                effect.finish(outcome)
        except ReplayInterrupt as interrupt:
            session.interrupt = session.interrupt or interrupt
            raise
        finally:
            if _running_loop() is not None:
                place.counters.ticker.ended()  # the event loop's turns count from here
            if answer is not None:
                answer.done()
            if drill is not None:
                drill("after", place)

    def abandon(self) -> None:
        """End the crossing because its run is over: with what was taken of its answer, else as pending."""
        if self.leave is not None:
            self.leave()
        self.finish(Outcome(status=OutcomeStatus.PENDING))

    def settle(self) -> None:
        """Wait for the answer's turn in the recorded order; at once when live."""
        if self.answer is not None:
            self.answer.settle()

    async def settle_async(self) -> None:
        """Wait for the answer's turn in the recorded order, letting other tasks run; at once when live."""
        if self.answer is not None:
            await self.answer.settle_async()
