"""Exceptions as data, and back: a recorded failure is raised again as its own class."""

from __future__ import annotations

from otel_agent_replay.errors import CodecError
from otel_agent_replay.model import Failure, FailurePhase
from otel_agent_replay.payload.classes import class_name, find_class, is_findable
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.payload.exceptions import from_state, state_of

MAX_CAUSES = 8
"""How many causes of causes are kept."""

MAX_MESSAGE = 10_000
"""Characters of an exception's text that are kept."""


class UnknownRecordedError(RuntimeError):
    """Stands for a recorded exception that cannot be made again: its class is not loaded, or its state is lost.

    `type` is the class, `module:qualified.name`, and `recorded_message` its text. Import that module before the replay.
    """

    def __init__(self, type_: str, recorded_message: str) -> None:
        self.type = type_
        self.recorded_message = recorded_message
        super().__init__(
            f"{recorded_message} (recorded as {type_}, which is not loaded here: import {type_.partition(':')[0]} "
            "before the replay)"
        )

    def __reduce__(self) -> tuple[type[UnknownRecordedError], tuple[str, str]]:
        return (type(self), (self.type, self.recorded_message))


def failure_of(error: BaseException, phase: FailurePhase = FailurePhase.CALL) -> Failure:
    """Return `error` and, bounded, its causes as data. Never raises."""
    return _failure(error, phase, {id(error)})


def _failure(error: BaseException, phase: FailurePhase, seen: set[int]) -> Failure:
    cause = error.__cause__
    implicit = cause is None and not error.__suppress_context__
    if implicit:
        cause = error.__context__
    cls = type(error)
    try:
        state = state_of(error)
        if implicit and cause is not None:
            state["implicit_cause"] = True
        encoded = encode(state)
        data, round_trips = encoded.data, encoded.round_trips and is_findable(cls)
    except Exception as problem:  # an attribute that raises when it is read
        data, round_trips = encode({"args": [], "dict": {}, "problem": type(problem).__name__}).data, False
    kept = cause is not None and id(cause) not in seen and len(seen) <= MAX_CAUSES
    return Failure(
        type=class_name(cls),
        message=_message(error),
        phase=phase,
        state=data,
        round_trips=round_trips,
        cause=_failure(cause, FailurePhase.CALL, seen | {id(cause)}) if kept and cause is not None else None,
    )


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as problem:
        text = f"<its text raised {type(problem).__name__}>"
    text = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} ..."
    return text.encode("utf-8", "replace").decode("utf-8")


def rebuild(failure: Failure) -> BaseException:
    """Return the recorded exception as its own class, with its attributes and causes, its `__init__` not run.

    The class is looked up among the loaded modules, never imported; UnknownRecordedError stands for one that
    is not there.
    """
    cls = find_class(failure.type)
    error: BaseException | None = None
    implicit = False
    if cls is not None and issubclass(cls, BaseException) and failure.state is not None:
        try:
            state = decode(failure.state)
            error = from_state(cls, state)
            implicit = bool(state.get("implicit_cause"))
        except (CodecError, TypeError, ValueError, AttributeError):
            error = None
    if error is None:
        error = UnknownRecordedError(failure.type, failure.message)
    if failure.cause is not None:
        cause = rebuild(failure.cause)
        if implicit:
            error.__context__ = cause
        else:
            error.__cause__ = cause
    return error
