"""`python -m otel_agent_replay.replay.component.child PLAN`: one case behind the walls, its result in a file.

`launch` starts it and writes the plan. The walls stand before any code of the application runs; what that prints goes
to standard error, because standard output is the result's.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import CannotJudge, ConfigurationError, FenceViolation
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.result import ComponentResult, ComponentStatus
from otel_agent_replay.replay.component.running import run_case
from otel_agent_replay.replay.walls import Walls

RESULT_FILE, WRONG_FILE = "result.json", "wrong.txt"
"""What the child leaves in its folder: the result, or why the case cannot be run as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the child is to do; implements `replay.walls.WallSettings`. `folder` is its own."""

    folder: Path
    case: Path
    isolate: bool = False
    allow: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()

    @property
    def lake(self) -> Path:
        """A folder that is not there: nothing is recorded."""
        return self.folder / "lake"

    @property
    def report(self) -> Path:
        """Where the result goes."""
        return self.folder / RESULT_FILE

    def write(self) -> Path:
        """Write the plan into its folder, and return where."""
        path = self.folder / "plan.json"
        path.write_text(json.dumps({"case": str(self.case), "isolate": self.isolate}), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Return what `write` wrote."""
        given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(path.parent, Path(given["case"]), given["isolate"])


class _Relay:
    """Stands for the walls' fence: tells the run that is on what was refused."""

    def __init__(self) -> None:
        self.refused: Callable[[FenceViolation], None] | None = None

    def told(self, violation: FenceViolation) -> None:
        if self.refused is not None:
            self.refused(violation)


def main(arguments: list[str]) -> int:
    """Run the plan; returns 0 when there is a result or a reason in its folder."""
    if len(arguments) != 1:
        sys.stderr.write("agent-replay: this module is started by `agent-replay component CASE`\n")
        return 125
    plan = Plan.read(Path(arguments[0]))
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        _run(plan).write(plan.report)
    except ConfigurationError as error:
        (plan.folder / WRONG_FILE).write_text(str(error), encoding="utf-8")
    return 0


def _run(plan: Plan) -> ComponentResult:
    case = Case.load(plan.case)
    walls, relay = Walls(plan), _Relay()
    try:
        walls.put_up_first()
        walls.put_up(relay.told)
        walls.forbid_exec()
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        result = run_case(case, fence=relay)
    except ConfigurationError:
        raise
    except CannotJudge as error:
        result = _unknown(case, str(error))
    except Exception as error:  # the application could not be imported, or failed before it was a run
        traceback.print_exc()
        result = _unknown(case, f"{case.entry} could not be run: {type(error).__name__}: {error}")
    notes = [*result.notes, *(f"refused outside a run: {one.what} at {one.location}" for one in walls.attempts)]
    return replace(result, walls=walls.standing(), notes=notes)


def _unknown(case: Case, reason: str) -> ComponentResult:
    return ComponentResult(str(case.folder), case.entry, ComponentStatus.CANNOT_JUDGE, reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
