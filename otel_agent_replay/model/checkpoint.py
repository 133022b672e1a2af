"""A recorded save-point, as the agent that is entered at it gets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.model.recorded import RecordedRun


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What an agent declared with `replay.checkpoint(name, state, ...)`, at step `step` of the recorded `run`.

    `state` is what was handed over, made anew from the recording: it may be changed.
    """

    name: str
    state: Any
    step: int
    run: RecordedRun = field(repr=False, compare=False)
