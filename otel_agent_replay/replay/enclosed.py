"""A child process that may not leave: its environment, its walls, its limits, and what the audit log says of it.

Owns how any command is started as a replay, a fork or a resumption: our shim first on its path, no option of another
replay around it. It does not know what the child reports.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_agent_replay import bootstrap
from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.model import Run, why_not_again
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.audit import enter
from otel_agent_replay.replay.endpoints import Endpoints
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.scrub import scrubbed
from otel_agent_replay.replay.walls import walls_expected

if TYPE_CHECKING:
    from otel_agent_replay.replay.supervisor import Supervisor

_DEAF = re.compile(r"-[A-Za-z]*[IES][A-Za-z]*\Z")  # Python options that leave our start-up shim out
_WITH_VALUE = ("-c", "-m", "-W", "-X")
_OF_PARENT = frozenset(
    f"AGENT_REPLAY_{option}"
    for option in (
        "MODE",
        "RUN",
        "ORIGIN",
        "REPORT",
        "ISOLATE",
        "ALLOW",
        "ALLOW_WRITE",
        "LIMITS",
        "IDENTITY",
        "VOLATILE",
        "PROCESS_RUN",
        "SEAL",
        "SHUFFLE",
        "ENABLED",
        "LAKE",
    )
)


class Ended(NamedTuple):
    """How a child ended: its exit status (None: killed in time), the walls it was given, what those refused."""

    status: int | None
    walls: tuple[str, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Enclosure:
    """What a child may do. `allow` are endpoints that it may reach, `allow_write` folders (or files) it may write in.

    `environment` and `directory` are the child's (default: ours). The environment is scrubbed of credentials by
    `redaction`; `identity` are variables that it gets instead, which are never stored. After `timeout_s`, or beyond
    `limits`, it is killed. `into` is the lake that it records to where that is not `lake`; `output` the file that what
    it prints goes to (default: where ours goes). `hash_seed` is another PYTHONHASHSEED than the recorded one.
    """

    lake: Path
    isolate: bool = False
    allow: Sequence[str] = ()
    allow_write: Sequence[str | Path] = ()
    environment: Mapping[str, str] | None = None
    directory: Path | None = None
    timeout_s: float | None = None
    limits: Limits = field(default_factory=Limits)
    identity: Mapping[str, str] = field(default_factory=dict)
    redaction: Redaction = field(default_factory=Redaction.default)
    into: Path | None = None
    output: Path | None = None
    hash_seed: str = ""

    def run(
        self, run: Run, argv: Sequence[str], folder: Path, *, action: str, mode: str, options: Mapping[str, str]
    ) -> Ended:
        """Run a command behind the walls, with `options` (AGENT_REPLAY_*, empty ones left out); `folder` is its own.

        `action` is what the audit log calls it. Raises ConfigurationError for a command that cannot be set up,
        CannotJudge where the walls that were asked for cannot stand, and for a run that is not to be run again.
        """
        if why := why_not_again(run):
            raise CannotJudge(why)
        for value in self.identity.values():
            self.redaction.learn(value)
        if not argv:
            raise ConfigurationError("no command to start: give the one that was recorded, after `--`")
        refuse_deaf(argv)
        environment = os.environ if self.environment is None else self.environment
        child = child_environment(run, scrubbed(environment, self.redaction))
        if self.hash_seed:
            child["PYTHONHASHSEED"] = self.hash_seed
        child.update(_scratch(folder))
        child.update(self.identity)
        given = {
            **options,
            "MODE": mode,
            "RUN": run.run_id.hex(),
            "LAKE": str(Path(self.into or self.lake).resolve()),
            "ORIGIN": str(Path(self.lake).resolve()) if self.into else "",
            "SEAL": "off",
            "ISOLATE": "true" if self.isolate else "false",
            "ALLOW": ",".join(self.allow),
            "ALLOW_WRITE": ",".join(_existing(self.allow_write)),
            "LIMITS": ",".join(self.limits.entries()),
            "IDENTITY": ",".join(self.identity),
        }
        child.update({f"AGENT_REPLAY_{name}": value for name, value in given.items() if value})
        walls = walls_expected(self.isolate)
        with _connecting(folder, self.isolate, self.allow) as supervisor:
            enter(
                self.lake,
                action,
                run_id=run.run_id,
                mode=mode,
                command=argv,
                allowed={
                    "endpoints": self.allow,
                    "folders": list(map(str, self.allow_write)),
                    "limits": self.limits.entries(),
                    "identity": list(self.identity),
                },
                walls=walls,
                redaction=self.redaction,
            )
            limited = _limited(argv, self.limits, child)
            status = wait_for(limited, child, self.directory, self.timeout_s, output=self.output)
        return Ended(status, walls, () if supervisor is None else tuple(supervisor.refused))


def child_environment(run: Run, base: Mapping[str, str]) -> dict[str, str]:
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


def environment_with(paths: Sequence[str]) -> dict[str, str]:
    """Return our environment for a child that imports from the folders `paths` too, before those of PYTHONPATH."""
    rest = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*paths, *rest]))}


def variables_of(names: Sequence[str], identity: Mapping[str, str]) -> list[str]:
    """Return the values of the variables that a child will have: from its own identity, else from our environment."""
    return [{**os.environ, **identity}.get(name, "") for name in names]


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


def refuse_deaf(argv: Sequence[str]) -> None:
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


def wait_for(
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: Path | None,
    timeout_s: float | None,
    *,
    output: Path | None = None,
) -> int | None:
    """Return the child's exit status (negative: a signal), or None when it had to be killed.

    What it prints goes to the file `output` (default: where ours goes).
    """
    try:
        with nullcontext() if output is None else output.open("ab") as file:
            process = subprocess.Popen(list(argv), env=dict(environment), cwd=directory, stdout=file, stderr=file)
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


def why_no_report(status: int | None, timeout_s: float | None, limits: Limits | None = None) -> str:
    """Return in words why a child that ended with `status` (as `wait_for` gives it) may have left no report."""
    if status is None:
        return f"its process did not end within {timeout_s} s and was killed"
    limits = limits or Limits()
    if killed := limits.killed(status):
        return killed
    standing = limits.standing()
    beside = f" (under a {standing})" if standing else ""
    if status < 0:
        return f"its process was killed by signal {-status} before it could report{beside}"
    return f"its process ended with status {status} and no report{beside}: was it a Python that could be set up?"
