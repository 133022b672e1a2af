"""How a run is opened: `@replay.agent` asks here; capture or replay plugs in a factory.

With no factory (the package is imported but not configured) an agent runs unrecorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CaptureLevel, Payload


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is known of a run before it starts. `input` holds the typed arguments; `entry` is module:qualified.name."""

    agent: str
    entry: str = ""
    input: Payload | None = None
    thread_id: str = ""
    subject: str = ""
    capture: CaptureLevel | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


class RunFactory(Protocol):
    """Opens and closes runs. Must not raise into the host."""

    def open(self, request: RunRequest) -> Session | None:
        """Return an open session for the run, or None when it is not to be recorded."""

    def close(self, session: Session, *, output: Payload | None, error: BaseException | None) -> None:
        """End the run."""


_factory: RunFactory | None = None


def set_run_factory(factory: RunFactory | None) -> None:
    """Plug in who opens runs."""
    global _factory
    _factory = factory


def run_factory() -> RunFactory | None:
    """Return who opens runs, or None when nothing is configured."""
    return _factory
