"""The event log of a component run: every crossing, checkpoint, scope, callback and end, in the order of their begins.

Times are virtual. An `EventLog` is filled by one observer a run (`of_run`); it judges nothing. Owns the two forms of an
event: in full (`document`), and the line that a person reads and a case expects (`line`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.tools import KEY_PARAMETER
from otel_agent_replay.boundary.transport_faults import TransportFault
from otel_agent_replay.boundary.unrecorded import NothingRecorded
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, Payload, SideEffect
from otel_agent_replay.payload.classes import class_name
from otel_agent_replay.replay.component.fixtures import FixtureAnswer
from otel_agent_replay.replay.virtual_waits import VirtualWaits

CALLBACK, END = "callback", "end"
"""What events are that are no crossing: a function of the application called later, the end of a run."""

_CHANGES = frozenset((SideEffect.WRITE, SideEffect.EXTERNAL))
_ACTS = frozenset((Kind.TOOL, Kind.HTTP))
_WITHOUT_ARGUMENTS = frozenset((Kind.MODEL, Kind.SLEEP, Kind.CHECKPOINT))
_OK = OutcomeStatus.OK.value
_FAULT = class_name(TransportFault)


@dataclass(slots=True)
class Event:
    """One event. `kind` is that of a crossing or scope, `run`, `callback` or `end`; times are virtual nanoseconds.

    `run` numbers the run it belongs to, from 1. `effect` names the change of the world that it is, with the arguments
    that tell it from others; `happened` whether it came about. `key` is its idempotency key, where one was sent.
    """

    number: int
    at_ns: int
    kind: str
    name: str
    run: int = 1
    path: tuple[str, ...] = ()
    arguments: Any = None
    state: Any = None
    source: str = ""
    fixture: str = ""
    attempt: int = 0
    shape: str = ""
    began: str = ""
    effect: str = ""
    key: str = ""
    happened: bool = False
    status: str = OutcomeStatus.PENDING.value
    ended_ns: int | None = None
    http_status: int = 0
    error: str = ""
    message: str = ""
    result: Any = None
    digest: str = ""

    def line(self) -> dict[str, Any]:
        """Return the event as a case expects it: what is worth a person's look, in order."""
        told: dict[str, Any] = {"at": seconds(self.at_ns), self.kind: self.name}
        if self.arguments is not None:
            told["arguments"] = self.arguments
        if self.kind == Kind.CHECKPOINT.value:
            return told if self.state is None else {**told, "state": self.state}
        for name in ("attempt", "shape", "began", "http_status"):
            if getattr(self, name):
                told[name] = getattr(self, name)
        if self.happened:
            told["effect"] = "happened"
        if self.status != _OK:
            told["status"] = self.status
        if self.error:
            told["error"] = self.error
        took = 0 if self.ended_ns is None else self.ended_ns - self.at_ns
        if took:
            told["took"] = seconds(took)
        if self.kind == END:
            told["status"] = self.status
            if self.result is not None:
                told["result"] = self.result
        return told

    def document(self) -> dict[str, Any]:
        """Return the event in full, as JSON takes it; times in seconds."""
        return {
            "number": self.number,
            "at": seconds(self.at_ns),
            "ended_at": None if self.ended_ns is None else seconds(self.ended_ns),
            "kind": self.kind,
            "name": self.name,
            "run": self.run,
            "path": list(self.path),
            "arguments": self.arguments,
            "state": self.state,
            "source": self.source,
            "fixture": self.fixture,
            "attempt": self.attempt,
            "shape": self.shape,
            "began": self.began,
            "effect": self.effect,
            "key": self.key,
            "happened": self.happened,
            "status": self.status,
            "http_status": self.http_status,
            "error": self.error,
            "message": self.message,
            "result": self.result,
            "request_digest": self.digest,
        }


class EventLog:
    """All events of a case's run, also of the runs that its agents began. Thread-safe."""

    def __init__(self, waits: VirtualWaits) -> None:
        self.events: list[Event] = []
        self._waits = waits
        self._lock = threading.Lock()

    def of_run(self, number: int) -> RunEvents:
        """Return the observer of the run with that number."""
        return RunEvents(self, number)

    def add(self, kind: str, name: str, **more: Any) -> Event:
        """Take down that something begins now."""
        with self._lock:
            event = Event(len(self.events) + 1, self._waits.elapsed_ns, kind, name, **more)
            self.events.append(event)
        return event

    def end(self, event: Event, error: BaseException | None = None, *, result: Any = None) -> None:
        """Take down that it ends now, with an error or well."""
        event.ended_ns = self._waits.elapsed_ns
        event.status = _OK
        if error is not None:
            event.status, event.error = OutcomeStatus.ERROR.value, class_name(type(error))
            event.message = str(error)
        event.result = result


@dataclass(eq=False)
class RunEvents(NothingRecorded):
    """Implements `boundary.observer.Observer` for one run."""

    log: EventLog
    run: int
    _open: dict[int, Event] = field(default_factory=dict)

    def began(self, crossing: Crossing) -> None:
        """A crossing begins."""
        call, answer = crossing.call, crossing.answer
        event = self.log.add(
            call.kind.value,
            call.name,
            run=self.run,
            path=crossing.place.path,
            arguments=None if call.kind in _WITHOUT_ARGUMENTS else as_json(call.request),
            source=crossing.source.value,
            key="" if call.attributes.get(semconv.IDEMPOTENCY_KEY_UNUSED) else call.idempotency_key,
            digest=call.digest.hex(),
        )
        if call.kind is Kind.CHECKPOINT:
            event.state = as_json(call.request)
        elif call.kind is Kind.SLEEP:
            event.arguments = as_json(call.request)
        changes = call.kind in _ACTS and call.side_effect in _CHANGES
        if isinstance(answer, FixtureAnswer):
            told = answer.told
            event.fixture, event.attempt, event.shape, event.began = told.fixture, told.attempt, told.shape, told.began
            changes = changes if told.effect is None else told.effect
        if changes:
            event.effect = effect_of(call)
            event.happened = bool(event.began)
        self._open[id(crossing)] = event

    def ended(self, crossing: Crossing, outcome: Outcome) -> None:
        """It ended."""
        event = self._open.pop(id(crossing), None)
        if event is None:
            return
        self.log.end(event)
        event.status = outcome.status.value
        if outcome.status is OutcomeStatus.CANCELLED:
            return  # whoever asked has gone: it got nothing of the answer
        if outcome.head is not None:
            event.http_status = outcome.head.status
        if outcome.failure is not None:
            event.message = outcome.failure.message
            # A fault of the connection is each client's own error: here it is called by its name.
            event.error = event.message if outcome.failure.type == _FAULT else outcome.failure.type
        if outcome.result is not None and event.kind not in (Kind.MODEL.value, Kind.CHECKPOINT.value):
            event.result = as_json(outcome.result)
        accepted = outcome.status is OutcomeStatus.OK and event.http_status < 400
        if event.effect and accepted and event.shape != "needs_confirmation":
            event.happened = True

    def entered(self, place: Place, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002 - the protocol's
        """A scope was opened."""
        self._open[id(place)] = self.log.add(Kind.SCOPE.value, place.name, run=self.run, path=place.path)

    def left(self, place: Place, error: BaseException | None, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002
        """It was closed."""
        event = self._open.pop(id(place), None)
        if event is not None:
            self.log.end(event, error)


def as_json(payload: Payload) -> Any:
    """Return what a payload holds as plain JSON (typed values with their tags), None for what is no JSON."""
    try:
        return json.loads(payload.data) if payload.data else None
    except ValueError:
        return None


def effect_of(call: Call) -> str:
    """Return what tells one change of the world from another: what was called, with its arguments but a made-up key."""
    given = as_json(call.request)
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if name != KEY_PARAMETER}
    shown = json.dumps(given, sort_keys=True, ensure_ascii=False) if given is not None else call.request.digest.hex()
    return f"{call.kind.value} {call.name} {shown}"


def seconds(nanoseconds: int) -> float | int:
    """Return seconds to the millisecond, whole ones as an integer."""
    rounded = round(nanoseconds / 1e9, 3)
    return int(rounded) if rounded == int(rounded) else rounded
