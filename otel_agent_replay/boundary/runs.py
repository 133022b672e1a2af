"""How a run is opened: `@replay.agent` asks here; capture or replay plugs in a factory.

With no factory (the package is imported but not configured) an agent runs unrecorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from otel_agent_replay.boundary.crossing import Crossing, Place
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CaptureLevel, Payload


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is known of a run before it starts. `input` holds the typed arguments; `entry` is module:qualified.name.

    `enters` tells that its agent can be entered at a checkpoint.
    """

    agent: str
    entry: str = ""
    input: Payload | None = None
    thread_id: str = ""
    subject: str = ""
    capture: CaptureLevel | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = 0
    enters: bool = False


def _nothing(_crossing: Crossing) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a run that goes on from a recording takes over from it.

    `run_id` is that of the resumed run, or of the new one that a fork makes; `attempt` is its number. New steps and
    begins are numbered from `first_step` and `first_sequence`. `span_of(path)` gives the span id of a node that the
    recording has and that ended, None for any other. `was_begun(place)` tells that the call at a place was in flight
    when the recording ended; `payload(digest)` gives bytes that the recording keeps. `fork_step` is where a fork
    leaves its origin (0: it is none); `keys` are the idempotency keys of recorded calls that did not fail.
    `goes_beyond` is told of each crossing that the recording did not answer.
    """

    run_id: bytes
    attempt: int
    first_sequence: int
    first_step: int
    span_of: Callable[[tuple[str, ...]], bytes | None]
    was_begun: Callable[[Place], bool]
    payload: Callable[[bytes], bytes | None]
    fork_step: int = 0
    keys: frozenset[str] = frozenset()
    goes_beyond: Callable[[Crossing], None] = _nothing


class RunFactory(Protocol):
    """Opens and closes runs. Must not raise into the host."""

    def open(self, request: RunRequest) -> Session | None:
        """Return an open session for the run, or None when it is not to be recorded."""

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End the run."""


_factory: RunFactory | None = None
_factory_here: ContextVar[RunFactory | None] = ContextVar("agent_replay_run_factory", default=None)


def set_run_factory(factory: RunFactory | None) -> None:
    """Plug in who opens runs."""
    global _factory
    _factory = factory


def run_factory() -> RunFactory | None:
    """Return who opens runs here, or None when nothing is configured."""
    return _factory_here.get() or _factory


@contextmanager
def opening_runs(factory: RunFactory) -> Iterator[None]:
    """Let `factory` open the runs of the enclosed code, and of the tasks that it starts, instead."""
    token = _factory_here.set(factory)
    try:
        yield
    finally:
        _factory_here.reset(token)
