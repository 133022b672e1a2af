"""What an agent says of itself while it runs: steps, checkpoints, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary import tools
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.session import Session, active_for_call
from otel_agent_replay.capture.recorder import Recorder
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, SideEffect
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.wire.text import whole_text

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
    return session.scope(place.child(Kind.SCOPE, whole_text(name)), _kept(session, attributes))


def checkpoint(name: str, state: Any = None, *, resumable: bool = False, unsafe_reasons: Sequence[str] = ()) -> None:
    """Declare a save-point with the state it takes to be back here.

    `resumable` says whether a run may go on from here; `unsafe_reasons` why not. Never guessed.
    """
    here = active_for_call()
    if here is None:
        return
    session, place = here
    name = whole_text(name)
    kept = tools.value_outcome(session, state)
    call = Call(
        kind=Kind.CHECKPOINT,
        name=name,
        side_effect=SideEffect.NONE,
        request=kept.result or tools.NOT_KEPT,
        attributes={
            semconv.CHECKPOINT_NAME: name,
            semconv.CHECKPOINT_RESUMABLE: resumable,
            **_kept(session, {semconv.CHECKPOINT_UNSAFE_REASONS: list(unsafe_reasons)}),
        },
        round_trips=kept.round_trips,
        notes=kept.notes,
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
        here[0].observer.versions.update(
            {name: value for name, value in _kept(here[0], declared).items() if isinstance(value, str)}
        )


def _kept(session: Session, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as they may be stored and exported; what OpenTelemetry has no type for becomes JSON text."""
    try:
        return session.redaction.attributes({whole_text(key): _taken(value) for key, value in attributes.items()})
    except Exception as error:
        report(session, "keeping the attributes of a step", error)
        return {}


def _taken(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return whole_text(value)
    if _is_simple(value):
        return value
    if kind is list or kind is tuple:
        if all(type(item) is str for item in value):
            return [whole_text(item) for item in value]
        if all(map(_is_simple, value)):
            return list(value)
    return encode(value).data.decode()


def _is_simple(value: Any) -> bool:
    kind = type(value)
    return kind is bool or kind is float or (kind is int and -(2**63) <= value < 2**63)
