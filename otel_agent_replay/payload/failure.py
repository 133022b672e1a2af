"""Exceptions as data, and back: a recorded failure is raised again as its own class."""

from __future__ import annotations

import sys
from typing import Any

from otel_agent_replay.model import Failure, FailurePhase
from otel_agent_replay.payload.codec import decode, encode

MAX_CAUSES = 8


class UnknownRecordedError(RuntimeError):
    """Stands for a recorded exception whose class is not loaded; `type` names the class."""

    def __init__(self, type_: str, message: str) -> None:
        self.type = type_
        super().__init__(f"{type_}: {message}")


def failure_of(error: BaseException, phase: FailurePhase = FailurePhase.CALL) -> Failure:
    """Return `error` and its causes as data. Never raises."""
    return _failure(error, phase, MAX_CAUSES)


def _failure(error: BaseException, phase: FailurePhase, left: int) -> Failure:
    encoded = encode({"args": list(error.args), "dict": vars(error)})
    cause = error.__cause__ or error.__context__
    return Failure(
        type=f"{type(error).__module__}:{type(error).__qualname__}",
        message=str(error),
        phase=phase,
        state=encoded.data,
        round_trips=encoded.round_trips,
        cause=_failure(cause, FailurePhase.CALL, left - 1) if cause is not None and left else None,
    )


def rebuild(failure: Failure) -> BaseException:
    """Return the recorded exception as its own class, or UnknownRecordedError when that is not loaded."""
    module, _, name = failure.type.partition(":")
    cls: Any = sys.modules.get(module)
    for part in name.split("."):
        cls = getattr(cls, part, None)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        return UnknownRecordedError(failure.type, failure.message)
    state = {"args": [], "dict": {}} if failure.state is None else decode(failure.state)
    error = cls.__new__(cls, *state["args"])
    error.args = tuple(state["args"])
    error.__dict__.update(state["dict"])
    if failure.cause is not None:
        error.__cause__ = rebuild(failure.cause)
    return error
