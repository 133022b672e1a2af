"""Save-points that an agent declares: its state, what it may still spend, and whether one may go on from here.

Owns what is true of a checkpoint at the moment it is taken. What can be derived from the run's other records (versions,
messages, tool calls) is not written again; the view `checkpoints` joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.outcomes import NOT_KEPT, lacking, value_outcome
from otel_agent_replay.boundary.session import Session, active_for_call
from otel_agent_replay.capture.recorder import Recorder
from otel_agent_replay.capture.scopes import kept_attributes
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, SideEffect
from otel_agent_replay.wire.text import whole_text

_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
_ACTS = frozenset({Kind.TOOL, Kind.HTTP})


def checkpoint(
    name: str,
    state: Any = None,
    *,
    resumable: bool,
    unsafe_reasons: Sequence[str] = (),
    budget: Mapping[str, Any] | None = None,
) -> None:
    """Declare a save-point with the state it takes to be back here. The state may be handed over whole each time.

    `resumable` says whether a run may go on from here; it is declared, never guessed. `unsafe_reasons` say why not:
    with one the checkpoint is not resumable, whatever `resumable` says, so that reasons may be given as they are found.
    Nor is it while a write or external call of this run is in flight that has no idempotency key, nor when `state`
    could not be kept whole or something in it was masked; that reason is added.
    `budget` is what the run may use in all: `steps`, `tokens`, and whatever else the agent counts. Members of `state`
    named `plan`, `scratchpad`, `variables` and `budget` are columns of their own in the view `checkpoints`.

        replay.checkpoint("planned", {"plan": plan, "messages": messages}, resumable=True, budget={"tokens": 50_000})
    """
    here = active_for_call()
    if here is None:
        return
    session, place = here
    name = whole_text(name)
    kept = value_outcome(session, state)
    reasons = [*unsafe_reasons, *_in_flight(session), *lacking(kept)]
    facts: dict[str, Any] = {semconv.CHECKPOINT_UNSAFE_REASONS: reasons}
    if budget is not None:
        facts[semconv.CHECKPOINT_BUDGET] = dict(budget)
    attributes: dict[str, Any] = {
        semconv.CHECKPOINT_NAME: name,
        semconv.CHECKPOINT_RESUMABLE: bool(resumable) and not reasons,
        **kept_attributes(session, facts),
    }
    if session.max_steps:
        attributes[semconv.MAX_STEPS] = session.max_steps
    call = Call(
        kind=Kind.CHECKPOINT,
        name=name,
        side_effect=SideEffect.NONE,
        request=kept.result or NOT_KEPT,
        attributes=attributes,
        round_trips=kept.round_trips,
        notes=kept.notes,
    )
    crossing = session.begin(call, place)
    crossing.finish(Outcome(status=OutcomeStatus.OK) if crossing.answer is None else crossing.answer.outcome)


def _in_flight(session: Session) -> list[str]:
    """Return why what the run is doing right now makes it unsafe to begin again from here."""
    recorder = session.observer
    if not isinstance(recorder, Recorder):
        return []
    try:
        return list(dict.fromkeys(_without_key(recorder.in_flight())))
    except Exception as error:
        report(session, "looking for what is in flight at a checkpoint", error)
        return ["what was in flight is not known"]


def _without_key(crossings: Iterable[Crossing]) -> Iterator[str]:
    for crossing in crossings:
        call = crossing.call
        if call.kind not in _ACTS or call.side_effect not in _CHANGES or _below_a_tool(crossing.place):
            continue  # what a tool sends is the tool's: it is called again as a whole
        if not call.idempotency_key or call.attributes.get(semconv.IDEMPOTENCY_KEY_UNUSED):
            yield f"{call.name} is in flight and has no idempotency key"


def _below_a_tool(place: Place) -> bool:
    above = place.parent
    while above is not None:
        if above.kind is Kind.TOOL:
            return True
        above = above.parent
    return False
