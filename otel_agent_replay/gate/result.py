"""What came of one invariant: held, broken or unknown, with the steps and values that show it. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.gate.facts import Absent, Made
from otel_agent_replay.gate.stated import Invariant
from otel_agent_replay.model import Word


class State(Word):
    """Whether an invariant holds of a run. Unknown is not a pass."""

    HELD = "held"
    BROKEN = "broken"
    UNKNOWN = "unknown"  # the recording does not say


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows it: a sentence, and where it is one call, its step and path. `expected` and `actual` are JSON."""

    told: str
    step: int | None = None
    path: str = ""
    expected: Any = None
    actual: Any = None

    @classmethod
    def at(cls, made: Made, told: str, *, expected: Any = None, actual: Any = None) -> Evidence:
        """Return evidence that lies in one call."""
        shown = None if isinstance(actual, Absent) else actual
        return cls(told, made.step, made.path, expected, shown)


@dataclass(frozen=True, slots=True)
class InvariantResult:
    """One invariant held against one run."""

    invariant: Invariant
    state: State
    evidence: Sequence[Evidence] = ()

    @property
    def holds(self) -> bool:
        """Whether it holds; unknown does not."""
        return self.state is State.HELD
