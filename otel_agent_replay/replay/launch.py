"""Starting a replay in a child process and reading its verdict.

The child's interpreter is made a replay by our `sitecustomize` shim before any of its own code runs. Its
output passes through. Whatever ends without a verdict cannot be judged.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.errors import RecordingError
from otel_agent_replay.model import Run, why_not_again
from otel_agent_replay.replay.audit import enter
from otel_agent_replay.replay.child import ENTRY_MODULE
from otel_agent_replay.replay.enclosed import Enclosure, why_no_report
from otel_agent_replay.replay.proving import Chance
from otel_agent_replay.replay.verdict import RefusedAttempt, ReplayVerdict, VerdictStatus

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake

_DECLARED = re.compile(r"[\w.]+:[\w.<>]+\Z")


def entry_command(entry: str) -> list[str]:
    """Return the command that calls the agent `pkg.mod:func` with the recorded input."""
    return [sys.executable, "-m", ENTRY_MODULE, entry]


def replay_command(
    run: Run,
    argv: Sequence[str],
    *,
    enclosure: Enclosure,
    volatile: Sequence[str] = (),
    process_run: bool | None = None,
    chance: Chance | None = None,
) -> ReplayVerdict:
    """Replay `run` by starting the command that was recorded behind the walls of `enclosure`; return the verdict.

    `process_run` tells that the whole process was recorded as one run (None: seen from the run's entry and the
    command). `volatile` are JSON paths of requests that are not compared, `chance` is another hash seed and other
    scheduling than the recorded ones. Raises ConfigurationError for a command that cannot become a replay, CannotJudge
    where the walls that were asked for cannot stand.
    """
    if why := why_not_again(run):
        return _unknown(run, why, None)
    chance = chance or Chance()
    enclosure = replace(enclosure, hash_seed=chance.hash_seed)
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as folder:
        report = Path(folder) / "verdict.json"
        options = {
            "REPORT": str(report),
            "PROCESS_RUN": str(starts_process_run(run, argv) if process_run is None else process_run).lower(),
            "VOLATILE": ",".join(volatile),
            "SHUFFLE": str(chance.shuffle or ""),
        }
        ended = enclosure.run(run, argv, Path(folder), action="replay", mode="exact", options=options)
        verdict = _verdict(run, report, ended.status, enclosure)
        if verdict.fences and not all(any(one.startswith(name) for one in verdict.fences) for name in ended.walls):
            enter(enclosure.lake, "walls", run_id=run.run_id, mode="exact", walls=verdict.fences)
        return _with_refused(verdict, ended.refused) if ended.refused else verdict


def in_process_run(stored: Lake, run: Run) -> bool:
    """Return whether the process of a run was recorded as a run of its own; `stored` is the lake that holds them."""
    return any(is_process_run(stored.load(one).run) for one in stored.siblings(run.run_id))


def starts_process_run(run: Run, argv: Sequence[str]) -> bool:
    """Return whether a command brings back the run of a whole process, and does not call an agent alone."""
    return ENTRY_MODULE not in argv and is_process_run(run)


def is_process_run(run: Run) -> bool:
    """Return whether the run is a whole process's (`agent-replay record`), not a declared agent's."""
    return bool(run.entry) and _DECLARED.match(run.entry) is None


def _with_refused(verdict: ReplayVerdict, refused: Sequence[str]) -> ReplayVerdict:
    """Add what was refused outside the process: a way out that its own fence did not see."""
    seen = tuple(RefusedAttempt(f"connect to {address}", "code that Python does not see", False) for address in refused)
    return replace(verdict, attempts=verdict.attempts + seen)


def _verdict(run: Run, report: Path, status: int | None, enclosure: Enclosure) -> ReplayVerdict:
    if not report.exists():
        return _unknown(run, why_no_report(status, enclosure.timeout_s, enclosure.limits), status)
    try:
        found = ReplayVerdict.read(report)
    except (OSError, RecordingError) as error:
        return _unknown(run, f"the replay's report cannot be read: {error}", status)
    killed = enclosure.limits.killed(status)
    if killed and found.status is VerdictStatus.CANNOT_JUDGE:
        found = replace(found, reason=killed)
    return replace(found, child_exit=status)


def _unknown(run: Run, reason: str, status: int | None) -> ReplayVerdict:
    return ReplayVerdict(VerdictStatus.CANNOT_JUDGE, run.run_id.hex(), run.agent, reason=reason, child_exit=status)
