"""Who answers in a component run: the case's fixtures, one attempt a call, each at its moment.

Implements `boundary.session.Answerer` for source FIXTURE. Owns which fixture answers which call, what was begun by
which call, and what calls back. A call that no fixture answers stops the run and names the nearest ones.
"""

from __future__ import annotations

import fnmatch
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.casefile.holding import holds
from otel_agent_replay.errors import Candidate, CodecError, ReplayDeparture, ReplayInterrupt
from otel_agent_replay.model import Call, Kind, MediaType, Outcome, Read
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay.component.case import Attempt, CallBack, Case, Fixture, attempt_of
from otel_agent_replay.replay.component.shapes import Shapes
from otel_agent_replay.replay.virtual_waits import VirtualWaits, Wait

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Told:
    """What the event log says of an answer: whose it is, which attempt of it (from 1), its shape, what it began.

    `effect` tells whether such calls change something; None: as the call declares.
    """

    fixture: str
    attempt: int
    shape: str
    began: str = ""
    effect: bool | None = None


class FixtureAnswer(Wait):
    """A prepared answer; it comes at its moment in virtual time, over HTTP with the first byte of its head."""

    __slots__ = ("_asked_ns", "told")

    def __init__(self, waits: VirtualWaits, wakes_ns: int, outcome: Outcome, told: Told) -> None:
        super().__init__(waits, wakes_ns, outcome)
        self._asked_ns = waits.elapsed_ns
        self.told = told

    def settle_within(self, patience_s: float | None) -> bool:
        """Let the time pass until it comes, or until the caller's patience is over; return whether it came."""
        came = self._within(patience_s)
        self._waits.until(self.wakes_ns)
        return came

    async def settle_within_async(self, patience_s: float | None) -> bool:
        """The same for a task."""
        came = self._within(patience_s)
        await self._waits.until_async(self.wakes_ns)
        return came

    def _within(self, patience_s: float | None) -> bool:
        """Whether it comes while somebody waits for it; else it is over when they give up."""
        given_up_ns = self.wakes_ns if patience_s is None else self._asked_ns + int(patience_s * 1e9)
        came = self.wakes_ns <= given_up_ns
        self.wakes_ns = min(self.wakes_ns, given_up_ns)
        return came


class Fixtures:
    """The fixtures of one case in one run. `call_back` calls a function of the application. Thread-safe.

    `interrupt` is what stopped the run because an answer could not be made, whatever its code caught.
    """

    def __init__(self, case: Case, waits: VirtualWaits, call_back: Callable[[CallBack], None]) -> None:
        self._case = case
        self._waits = waits
        self._call_back = call_back
        self._shapes = Shapes(case)
        self._lock = threading.Lock()
        self._taken = dict.fromkeys((fixture.number for fixture in case.fixtures), 0)
        self.interrupt: ReplayInterrupt | None = None
        self._complete_at: dict[str, int] = {}  # of operations that were begun, in virtual nanoseconds
        for fixture in case.fixtures:
            for number, attempt in enumerate(fixture.attempts):
                where = f"fixtures[{fixture.number - 1}].attempts[{number}]"
                self._shapes.check(attempt, fixture.kind, where)

    # --- the Answerer protocol ---

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the next attempt of the first fixture that fits and has one left; None when there is none."""
        if self.interrupt is not None:
            raise self.interrupt
        with self._lock:
            found = self._next(call)
        if found is None:
            return None
        fixture, number, attempt = found
        now = self._waits.elapsed_ns
        began = attempt.begins
        if began is not None:
            with self._lock:
                self._complete_at.setdefault(began.operation, now + began.completes_after_ns)
        moment = now + attempt.takes_ns
        shown, shape = attempt, attempt.shape
        if shape == "operation":
            state, shown = self._of_operation(attempt, moment)
            shape = f"{shape} {state}"
        try:
            outcome = self._shapes.outcome(shown, call)
        except Exception as error:  # a wrong case, or a defect of ours: the orchestrator must not meet it as its own
            told = f"fixture {fixture.number} ({fixture.label}), attempt {number}: {error}"
            self.interrupt = ReplayInterrupt(told)
            raise self.interrupt from error
        if attempt.calls_back is not None:
            back = attempt.calls_back
            self._waits.call_after(back.after_ns, lambda: self._call_back(back))
        place.number()
        about = Told(fixture.label, number, shape, "" if began is None else began.operation, fixture.effect)
        return FixtureAnswer(self._waits, moment, outcome, about)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return None: fixtures answer no bulk reads."""
        del kind, name, place, strand
        return None

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return what stops a run that asks for something which no fixture answers."""
        came = f"a read of {read[1]}" if call is None and read is not None else _described(call)
        near = [one for one in self._case.fixtures if call is not None and one.kind is call.kind]
        candidates = [Candidate(None, (one.label,), (self._why_not(one, call),)) for one in near if call is not None]
        return ReplayDeparture(
            step=place.step,
            path=place.path,
            expected="a call that a fixture of the case answers",
            came=came,
            candidates=candidates,
        )

    # --- what was never asked for ---

    def unused(self) -> list[str]:
        """Return the attempts that no call took, one line a fixture."""
        with self._lock:
            taken = dict(self._taken)
        left = [(one, len(one.attempts) - taken[one.number]) for one in self._case.fixtures]
        return [
            f"fixture {one.number} ({one.label}): {n} of {len(one.attempts)} never asked" for one, n in left if n > 0
        ]

    # --- inside ---

    def _next(self, call: Call) -> tuple[Fixture, int, Attempt] | None:
        for fixture in self._case.fixtures:
            if not _fits(fixture, call):
                continue
            number = self._taken[fixture.number]
            if number < len(fixture.attempts):
                self._taken[fixture.number] = number + 1
                return fixture, number + 1, fixture.attempts[number]
            if fixture.repeat:
                self._taken[fixture.number] = number + 1
                return fixture, number + 1, fixture.attempts[-1]
        return None

    def _of_operation(self, attempt: Attempt, moment_ns: int) -> tuple[str, Attempt]:
        """Return how the operation stands at that moment, and what a status query is answered then."""
        given = attempt.given
        complete = self._complete_at.get(given["name"])
        state = "unknown" if complete is None else "done" if complete <= moment_ns else "running"
        return state, attempt_of(given.get(state, given["unknown"]))

    def _why_not(self, fixture: Fixture, call: Call) -> str:
        if not fnmatch.fnmatchcase(call.name, fixture.name):
            return f"it is for {fixture.label}"
        if not _has_arguments(fixture, call):
            return f"its arguments are {json.dumps(fixture.arguments)}"[:_LONGEST]
        return f"its {len(fixture.attempts)} attempts are used up; add one, or say `repeat: true`"


def arguments_of(call: Call) -> Any:
    """Return a call's arguments, or the JSON of its body; None when they are neither."""
    data = call.request.data
    if not data:
        return None
    try:
        return decode(data) if call.request.media_type == MediaType.VALUE.value else json.loads(data)
    except (CodecError, ValueError):
        return None


def _fits(fixture: Fixture, call: Call) -> bool:
    if fixture.kind is not call.kind or not fnmatch.fnmatchcase(call.name, fixture.name):
        return False
    return _has_arguments(fixture, call)


def _has_arguments(fixture: Fixture, call: Call) -> bool:
    return fixture.arguments is None or holds(arguments_of(call), fixture.arguments)


def _described(call: Call | None) -> str:
    if call is None:
        return "nothing"
    arguments = "" if call.kind is Kind.MODEL else f" with {arguments_of(call)!r}"
    return f"{call.kind.value} {call.name}{arguments}"[:_LONGEST]
