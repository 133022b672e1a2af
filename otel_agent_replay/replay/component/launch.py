"""Starting a case in a child process: without credentials, behind walls, within limits; and reading its result."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.child import RESULT_FILE, WRONG_FILE, Plan
from otel_agent_replay.replay.component.result import ComponentResult, ComponentStatus
from otel_agent_replay.replay.enclosed import wait_for
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.scrub import scrubbed

CHILD_MODULE = "otel_agent_replay.replay.component.child"
DEFAULT_TIMEOUT_S = 60.0
_OURS = "AGENT_REPLAY_"


def run_in_child(
    case: Case, *, isolate: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S, limits: Limits | None = None
) -> ComponentResult:
    """Run the case in a child process and return its result.

    `isolate` puts the kernel's walls around it too; after `timeout_s` real seconds, or beyond `limits`, it is killed.
    Raises ConfigurationError for a case that cannot be run as it is.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plan = Plan(folder, case.folder.resolve(), isolate)
        argv = limits.command([sys.executable, "-m", CHILD_MODULE, str(plan.write())])
        status = wait_for(argv, _environment(folder), None, timeout_s)
        if (folder / WRONG_FILE).exists():
            raise ConfigurationError((folder / WRONG_FILE).read_text(encoding="utf-8"))
        if (folder / RESULT_FILE).exists():
            return replace(ComponentResult.read(folder / RESULT_FILE), case=str(case.folder))
    if status is None:
        reason = f"it did not end within {timeout_s:g} s: it waits for something that no fixture gives"
    else:
        reason = limits.killed(status) or f"its process ended with status {status} and no result"
    return ComponentResult(str(case.folder), case.entry, ComponentStatus.CANNOT_JUDGE, reason)


def _environment(folder: Path) -> dict[str, str]:
    """Return the child's environment: no credentials, no setting of ours, sets in the same order every time."""
    kept = {name: value for name, value in scrubbed(os.environ).items() if not name.startswith(_OURS)}
    scratch = folder / "scratch"
    scratch.mkdir()
    kept.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)))
    kept["PYTHONHASHSEED"] = "0"
    kept.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    return kept
