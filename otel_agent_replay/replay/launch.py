"""Starting a replay in a child process and reading its verdict.

The child's interpreter is made a replay by our `sitecustomize` shim before any of its own code runs. Its
output passes through. Whatever ends without a verdict cannot be judged.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_agent_replay.errors import RecordingError
from otel_agent_replay.model import Run, why_not_again
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.audit import enter
from otel_agent_replay.replay.child import ENTRY_MODULE
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.proving import Chance
from otel_agent_replay.replay.verdict import RefusedAttempt, ReplayVerdict, VerdictStatus

_DECLARED = re.compile(r"[\w.]+:[\w.<>]+\Z")


def replay_command(
    run: Run,
    argv: Sequence[str],
    *,
    lake: Path,
    isolate: bool = False,
    allow: Sequence[str] = (),
    allow_write: Sequence[str | Path] = (),
    volatile: Sequence[str] = (),
    process_run: bool | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout_s: float | None = None,
    limits: Limits | None = None,
    identity: Mapping[str, str] | None = None,
    redaction: Redaction | None = None,
    output: Path | None = None,
    chance: Chance | None = None,
) -> ReplayVerdict:
    """Replay `run` by starting the command that was recorded; return the verdict.

    `lake` holds the run, sealed. `process_run` tells that the whole process was recorded as one run (None: seen
    from the run's entry). `allow` are endpoints that the child may reach, `allow_write` folders (or files) that it may
    write in. `environment` and `directory` are the child's (default: ours). The environment is scrubbed of credentials
    by `redaction` (default: the built-in rules); `identity` are variables that the replay gets instead, which are
    never stored. What the child prints goes to the file `output` (default: where ours goes). After `timeout_s`, or
    beyond `limits`, the child is killed. Raises ConfigurationError for a command
    that cannot become a replay, CannotJudge where the walls that were asked for cannot stand. `chance` is another
    hash seed and other scheduling than the recorded ones.
    """
    if why := why_not_again(run):
        return _unknown(run, why, None)
    chance = chance or Chance()
    enclosure = Enclosure(
        lake=lake,
        isolate=isolate,
        allow=allow,
        allow_write=allow_write,
        environment=environment,
        directory=directory,
        timeout_s=timeout_s,
        limits=limits or Limits(),
        identity=identity or {},
        redaction=redaction or Redaction.default(),
        output=output,
        hash_seed=chance.hash_seed,
    )
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as folder:
        report = Path(folder) / "verdict.json"
        options = {
            "REPORT": str(report),
            "PROCESS_RUN": str(is_process_run(run) if process_run is None else process_run).lower(),
            "VOLATILE": ",".join(volatile),
            "SHUFFLE": str(chance.shuffle or ""),
        }
        ended = enclosure.run(run, argv, Path(folder), action="replay", mode="exact", options=options)
        verdict = _verdict(run, report, ended.status, timeout_s, enclosure.limits)
        if verdict.fences and not all(any(one.startswith(name) for one in verdict.fences) for name in ended.walls):
            enter(lake, "walls", run_id=run.run_id, mode="exact", walls=verdict.fences)
        return _with_refused(verdict, ended.refused) if ended.refused else verdict


def replay_entry(
    run: Run,
    entry: str,
    *,
    lake: Path,
    isolate: bool = False,
    allow: Sequence[str] = (),
    allow_write: Sequence[str | Path] = (),
    volatile: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout_s: float | None = None,
    limits: Limits | None = None,
    identity: Mapping[str, str] | None = None,
    redaction: Redaction | None = None,
    output: Path | None = None,
    chance: Chance | None = None,
) -> ReplayVerdict:
    """Replay `run` alone by calling `pkg.mod:func` with the recorded input; return the verdict."""
    return replay_command(
        run,
        [sys.executable, "-m", ENTRY_MODULE, entry],
        lake=lake,
        isolate=isolate,
        allow=allow,
        allow_write=allow_write,
        volatile=volatile,
        process_run=False,
        environment=environment,
        directory=directory,
        timeout_s=timeout_s,
        limits=limits,
        identity=identity,
        redaction=redaction,
        output=output,
        chance=chance,
    )


def is_process_run(run: Run) -> bool:
    """Return whether the run is a whole process's (`agent-replay record`), not a declared agent's."""
    return bool(run.entry) and _DECLARED.match(run.entry) is None


def _with_refused(verdict: ReplayVerdict, refused: Sequence[str]) -> ReplayVerdict:
    """Add what was refused outside the process: a way out that its own fence did not see."""
    seen = tuple(RefusedAttempt(f"connect to {address}", "code that Python does not see", False) for address in refused)
    return replace(verdict, attempts=verdict.attempts + seen)


def _verdict(run: Run, report: Path, status: int | None, timeout_s: float | None, limits: Limits) -> ReplayVerdict:
    killed = limits.killed(status)
    if report.exists():
        try:
            found = ReplayVerdict.read(report)
        except (OSError, RecordingError) as error:
            return _unknown(run, f"the replay's report cannot be read: {error}", status)
        if killed and found.status is VerdictStatus.CANNOT_JUDGE:
            found = replace(found, reason=killed)
        return replace(found, child_exit=status)
    if killed:
        return _unknown(run, killed, status)
    if status is None:
        return _unknown(run, f"the replay did not end within {timeout_s} s and was killed", status)
    standing = limits.standing()
    beside = f" (under a {standing})" if standing else ""
    if status < 0:
        reason = f"the replaying process was killed by signal {-status} before it could report{beside}"
        return _unknown(run, reason, status)
    reason = f"the replaying process ended with status {status} and no report{beside}"
    return _unknown(run, f"{reason}: was it a Python that could be set up?", status)


def _unknown(run: Run, reason: str, status: int | None) -> ReplayVerdict:
    return ReplayVerdict(VerdictStatus.CANNOT_JUDGE, run.run_id.hex(), run.agent, reason=reason, child_exit=status)
