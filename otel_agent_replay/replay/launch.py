"""Starting a replay in a child process and reading its verdict.

The child's interpreter is made a replay by our `sitecustomize` shim before any of its own code runs. Its
output passes through. Whatever ends without a verdict cannot be judged.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay import bootstrap
from otel_agent_replay.errors import ConfigurationError, RecordingError
from otel_agent_replay.model import Run
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.audit import enter
from otel_agent_replay.replay.child import ENTRY_MODULE
from otel_agent_replay.replay.endpoints import Endpoints
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.scrub import scrubbed
from otel_agent_replay.replay.verdict import RefusedAttempt, ReplayVerdict, VerdictStatus
from otel_agent_replay.replay.walls import walls_expected

if TYPE_CHECKING:
    from otel_agent_replay.replay.supervisor import Supervisor

_DECLARED = re.compile(r"[\w.]+:[\w.<>]+\Z")
_DEAF = re.compile(r"-[A-Za-z]*[IES][A-Za-z]*\Z")  # Python options that leave our start-up shim out
_WITH_VALUE = ("-c", "-m", "-W", "-X")
_OF_PARENT = frozenset(
    f"AGENT_REPLAY_{option}"
    for option in (
        "MODE",
        "RUN",
        "REPORT",
        "ISOLATE",
        "ALLOW",
        "ALLOW_WRITE",
        "LIMITS",
        "IDENTITY",
        "VOLATILE",
        "PROCESS_RUN",
        "SEAL",
        "ENABLED",
        "LAKE",
    )
)


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
) -> ReplayVerdict:
    """Replay `run` by starting the command that was recorded; return the verdict.

    `lake` holds the run, sealed. `process_run` tells that the whole process was recorded as one run (None: seen
    from the run's entry). `allow` are endpoints that the child may reach, `allow_write` folders (or files) that it may
    write in. `environment` and `directory` are the child's (default: ours). The environment is scrubbed of credentials
    by `redaction` (default: the built-in rules); `identity` are variables that the replay gets instead, which are
    never stored. After `timeout_s`, or beyond `limits`, the child is killed. Raises ConfigurationError for a command
    that cannot become a replay, CannotJudge where the walls that were asked for cannot stand.
    """
    limits = limits or Limits()
    redaction = redaction or Redaction.default()
    for value in (identity or {}).values():
        redaction.learn(value)
    if not argv:
        raise ConfigurationError("no command to replay with: give the one that was recorded, after `--`")
    _refuse_deaf(argv)
    with tempfile.TemporaryDirectory(prefix="agent-replay-", ignore_cleanup_errors=True) as folder:
        report = Path(folder) / "verdict.json"
        child = _environment(run, scrubbed(os.environ if environment is None else environment, redaction))
        child.update(_scratch(Path(folder)))
        child.update(identity or {})
        child.update(
            AGENT_REPLAY_MODE="exact",
            AGENT_REPLAY_RUN=run.run_id.hex(),
            AGENT_REPLAY_LAKE=str(Path(lake).resolve()),
            AGENT_REPLAY_REPORT=str(report),
            AGENT_REPLAY_ISOLATE="true" if isolate else "false",
            AGENT_REPLAY_SEAL="off",
            AGENT_REPLAY_PROCESS_RUN=str(is_process_run(run) if process_run is None else process_run).lower(),
        )
        if allow:
            child["AGENT_REPLAY_ALLOW"] = ",".join(allow)
        if allow_write:
            child["AGENT_REPLAY_ALLOW_WRITE"] = ",".join(_existing(allow_write))
        if limits.entries():
            child["AGENT_REPLAY_LIMITS"] = ",".join(limits.entries())
        if identity:
            child["AGENT_REPLAY_IDENTITY"] = ",".join(identity)
        if volatile:
            child["AGENT_REPLAY_VOLATILE"] = ",".join(volatile)
        expected = walls_expected(isolate)
        with _connecting(Path(folder), isolate, allow) as supervisor:
            enter(
                lake,
                "replay",
                run_id=run.run_id,
                mode="exact",
                command=argv,
                allowed={
                    "endpoints": allow,
                    "folders": list(map(str, allow_write)),
                    "limits": limits.entries(),
                    "identity": list(identity or ()),
                },
                walls=expected,
                redaction=redaction,
            )
            status = _wait(_limited(argv, limits, child), child, directory, timeout_s)
        verdict = _verdict(run, report, status, timeout_s, limits)
        if verdict.fences and not all(any(one.startswith(name) for one in verdict.fences) for name in expected):
            enter(lake, "walls", run_id=run.run_id, mode="exact", walls=verdict.fences)
        return verdict if supervisor is None else _with_refused(verdict, supervisor.refused)


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
    )


def is_process_run(run: Run) -> bool:
    """Return whether the run is a whole process's (`agent-replay record`), not a declared agent's."""
    return bool(run.entry) and _DECLARED.match(run.entry) is None


def _environment(run: Run, base: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: no option of a replay around us, our shim first on the path, the hash seed."""
    child = {name: value for name, value in base.items() if name not in _OF_PARENT}
    shim = str(Path(bootstrap.__file__).parent)
    rest = [entry for entry in child.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != shim]
    child["PYTHONPATH"] = os.pathsep.join([shim, *rest])
    # Bytecode is told from newer source by size and second: with checkouts in between (`git bisect run`), what one
    # replay wrote would be run by the next.
    child.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    if run.hash_seed.isdecimal():
        child["PYTHONHASHSEED"] = run.hash_seed
    return child


def _limited(argv: Sequence[str], limits: Limits, environment: Mapping[str, str]) -> list[str]:
    """Return the command under its limits. Raises ConfigurationError for one that cannot be found."""
    if limits.entries() and shutil.which(argv[0], path=environment.get("PATH")) is None:
        raise ConfigurationError(f"the command {argv[0]!r} cannot be started: there is no such program")
    return limits.command(argv)


def _connecting(folder: Path, isolate: bool, allow: Sequence[str]) -> AbstractContextManager[Supervisor | None]:
    """Return who connects for an isolated replay; nobody is needed where it reaches nothing."""
    if not isolate or not allow:
        return nullcontext()
    # The kernel's parts are loaded only where they are asked for: this module is imported on every system.
    from otel_agent_replay.replay.supervisor import Supervisor

    return Supervisor(folder, Endpoints.resolve(allow))


def _with_refused(verdict: ReplayVerdict, refused: Sequence[str]) -> ReplayVerdict:
    """Add what was refused outside the process: a way out that its own fence did not see."""
    seen = tuple(RefusedAttempt(f"connect to {address}", "code that Python does not see", False) for address in refused)
    return replace(verdict, attempts=verdict.attempts + seen)


def _existing(folders: Sequence[str | Path]) -> list[str]:
    for folder in folders:
        if not Path(folder).exists():
            raise ConfigurationError(f"--allow-write {folder}: there is no such folder; make it first")
    return [str(Path(folder).resolve()) for folder in folders]


def _scratch(folder: Path) -> dict[str, str]:
    """Make the folder for temporary files that a replay may write; it goes when the replay has ended."""
    scratch = folder / "scratch"
    scratch.mkdir()
    return dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))


def _refuse_deaf(argv: Sequence[str]) -> None:
    """Refuse a Python that would ignore the shim: it would run the agent live."""
    if not Path(argv[0]).name.lower().startswith("python"):
        return
    for argument in argv[1:]:
        if not argument.startswith("-") or argument in _WITH_VALUE:
            return
        if _DEAF.match(argument):
            raise ConfigurationError(
                f"`{argv[0]} {argument}` ignores PYTHONPATH or sitecustomize: the replay could not be set up, and the "
                "agent would run live; leave the option out"
            )


def _wait(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path | None, timeout_s: float | None
) -> int | None:
    """Return the child's exit status (negative: a signal), or None when it had to be killed."""
    try:
        process = subprocess.Popen(list(argv), env=dict(environment), cwd=directory)
    except OSError as error:
        raise ConfigurationError(f"the command {argv[0]!r} cannot be started: {error}") from error
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        return process.wait()


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
