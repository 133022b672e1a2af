"""What an agent says of itself while it runs: steps, checkpoints, versions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.session import active_for_call
from otel_agent_replay.capture.recorder import Recorder
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Call, Kind, MediaType, Outcome, OutcomeStatus, Payload, SideEffect
from otel_agent_replay.payload.codec import encode

_DECLARABLE = frozenset({"agent", "prompt", "tool_schema", "model_route", "policy", "index"})


def step(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """Name a part of the agent's own code: what crosses inside it becomes its child.

    with replay.step("plan", attempt=2):
        ...
    """
    here = active_for_call()
    if here is None:
        return nullcontext()
    session, place = here
    return session.scope(place.child(Kind.SCOPE, name), session.redaction.attributes(attributes))


def checkpoint(name: str, state: Any = None, *, resumable: bool = False, unsafe_reasons: Sequence[str] = ()) -> None:
    """Declare a save-point with the state it takes to be back here.

    `resumable` says whether a run may go on from here; `unsafe_reasons` why not. Never guessed.
    """
    here = active_for_call()
    if here is None:
        return
    session, place = here
    encoded = encode(state)
    call = Call(
        kind=Kind.CHECKPOINT,
        name=name,
        side_effect=SideEffect.NONE,
        request=Payload.of(session.redaction.value_bytes(encoded.data), MediaType.VALUE.value),
        attributes={
            semconv.CHECKPOINT_NAME: name,
            semconv.CHECKPOINT_RESUMABLE: resumable,
            semconv.CHECKPOINT_UNSAFE_REASONS: [session.redaction.text(reason) for reason in unsafe_reasons],
        },
        round_trips=encoded.round_trips,
        notes=encoded.notes,
    )
    crossing = session.begin(call, place)
    crossing.finish(Outcome(status=OutcomeStatus.OK) if crossing.answer is None else crossing.answer.outcome)


def versions(**declared: str) -> None:
    """Say what the run runs with: agent, prompt, tool_schema, model_route, policy, index (texts).

    Raises ConfigurationError for any other name.
    """
    unknown = sorted(set(declared) - _DECLARABLE)
    if unknown:
        raise ConfigurationError(f"unknown version {unknown[0]!r}; known: {', '.join(sorted(_DECLARABLE))}")
    here = active_for_call()
    if here is not None and isinstance(here[0].observer, Recorder):
        redaction = here[0].redaction
        here[0].observer.versions.update({name: redaction.text(value) for name, value in declared.items()})
