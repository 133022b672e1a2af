"""What an agent says of itself while it runs: steps and versions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.session import Session, active_for_call
from otel_agent_replay.capture.recorder import Recorder
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Kind
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
    return session.scope(place.child(Kind.SCOPE, whole_text(name)), kept_attributes(session, attributes))


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
            {name: value for name, value in kept_attributes(here[0], declared).items() if isinstance(value, str)}
        )


def kept_attributes(session: Session, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as they may be stored and exported; what OpenTelemetry has no type for becomes JSON text.

    Never raises: what fails is told, and nothing is kept.
    """
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
