"""What came of a component run: whether the case holds, why not, and the whole event log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.model import Word
from otel_agent_replay.replay.component.invariants import Broken

SCHEMA, SCHEMA_VERSION = "agent-replay/component", 1
_EXIT_CODES = {"holds": 0, "broken": 1, "cannot_judge": 125}


class ComponentStatus(Word):
    """Whether a case holds."""

    HOLDS = "holds"
    BROKEN = "broken"
    CANNOT_JUDGE = "cannot_judge"  # it could not be run as it says


@dataclass(frozen=True, slots=True)
class ComponentResult:
    """One run of one case.

    `broken` are the rules that do not hold, `diff` the lines from the expected event log to `log`. `events` are the
    same events in full. `states` are those that the run went through; `elapsed_s` is how much virtual time passed.
    `notes` tell what is worth knowing and breaks nothing, `walls` what stood around the run.
    """

    case: str
    entry: str
    status: ComponentStatus
    reason: str = ""
    outcome: str = ""
    result: Any = None
    error: str = ""
    states: Sequence[str] = ()
    elapsed_s: float = 0.0
    broken: Sequence[Broken] = ()
    diff: Sequence[str] = ()
    log: Sequence[Mapping[str, Any]] = ()
    events: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    notes: Sequence[str] = ()
    walls: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """Whether everything that the case says is so."""
        return self.status is ComponentStatus.HOLDS

    @property
    def exit_code(self) -> int:
        """0 it holds, 1 it is broken, 125 it cannot be judged."""
        return _EXIT_CODES[self.status.value]

    def check(self) -> ComponentResult:
        """Return the result itself when the case holds. Raises AssertionError that says all that is broken."""
        if not self.holds:
            raise AssertionError("\n".join([f"case {self.case} is {self.status}", *self.told()]))
        return self

    def told(self) -> list[str]:
        """Return why the case does not hold, one line each."""
        lines = [self.reason] if self.reason else []
        lines += [f"{one.rule}{f' at event {one.event}' if one.event else ''}: {one.message}" for one in self.broken]
        return [*lines, *self.diff]

    def to_json(self) -> str:
        """Return the result as one JSON document."""
        document = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "holds": self.holds, **asdict(self)}
        document["status"] = self.status.value
        return json.dumps(document, indent=2)

    def write(self, path: Path) -> None:
        """Write it to a file, whole or not at all."""
        beside = path.with_suffix(".part")
        beside.write_text(self.to_json(), encoding="utf-8")
        beside.replace(path)

    @classmethod
    def read(cls, path: Path) -> ComponentResult:
        """Return what `write` wrote. Raises DamagedRecording."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            given = {item.name: document[item.name] for item in fields(cls)}
            given["status"] = ComponentStatus(given["status"])
            given["broken"] = tuple(Broken(**one) for one in given["broken"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedRecording(f"{path} is no result of a component run: {error}") from error
        return cls(**given)
