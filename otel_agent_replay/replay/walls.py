"""The walls around a replaying process: which are put up, in which order, and what they refused.

In process stands the fence; with `isolate` the kernel's walls stand around it. Owns the order: what restricts one
thread only (files, by Landlock) comes before anything has started a thread, the rest once the tape is loaded.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from otel_agent_replay.errors import CannotJudge, ConfigurationError, FenceViolation
from otel_agent_replay.replay import fence as in_process
from otel_agent_replay.replay import isolation, landlock
from otel_agent_replay.replay.endpoints import TABLE_NAME, Endpoints
from otel_agent_replay.replay.fence import Fence
from otel_agent_replay.replay.file_fence import FileFence
from otel_agent_replay.replay.open_sockets import shut_open_sockets
from otel_agent_replay.replay.verdict import RefusedAttempt, ReplayVerdict


class WallSettings(Protocol):
    """The options that say how high the walls are; `settings.Settings` has them."""

    @property
    def lake(self) -> Path:
        """The folder of the lake."""

    @property
    def report(self) -> Path | None:
        """Where the verdict goes. Its folder holds the scratch folder too."""

    @property
    def isolate(self) -> bool:
        """Whether the kernel's walls are wanted."""

    @property
    def allow(self) -> tuple[str, ...]:
        """Endpoints that may be reached."""

    @property
    def allow_write(self) -> tuple[str, ...]:
        """Folders or files that may be written."""


class Walls:
    """The walls of this process. Made before anything else of a replay is, and put up as the last of it.

    `licensed`, if given, says of the code that runs now whether it may reach what was declared (see `fence`).
    """

    def __init__(self, settings: WallSettings, *, licensed: Callable[[], bool] | None = None) -> None:
        self._settings = settings
        if settings.lake.is_dir():  # the replay's own record goes there, and walls stand around folders that exist
            (settings.lake / "journal").mkdir(mode=0o700, exist_ok=True)
        self._folders = writable(settings)
        self._fence = Fence(allow=self._endpoints(), files=FileFence(self._folders), licensed=licensed)
        self._sealed = False  # whether the kernel's fence stands
        self._kernel: list[str] = []  # the walls of the kernel that stand
        self._missing: list[str] = []  # those that do not, and why
        self._closed_sockets: tuple[str, ...] = ()

    def put_up_first(self) -> None:
        """Put up the wall around files: it holds for this thread and those it starts, so for all when it is alone."""
        if not self._settings.isolate:
            return
        reason = landlock.why_not()
        if reason:
            self._missing.append(f"no {landlock.NAME}: {reason}")
            return
        unheld = landlock.apply(self._folders)
        self._kernel.append(landlock.NAME if not unheld else f"{landlock.NAME}, not for {unheld} threads of before")

    def put_up(self, refused: Callable[[FenceViolation], None]) -> None:
        """Put the rest of them up; `refused` is told what the code of a run was refused in process."""
        # Clients ask for the processor's name, which starts `uname` the first time: let it be known before the walls.
        platform.processor()
        if self._settings.isolate:
            reason = isolation.why_not()
            if reason:
                self._missing.append(f"no {isolation.NAME}: {reason}")
            else:
                self._apply_kernel_fence()
                self._sealed = True
                self._kernel.insert(0, isolation.NAME + (", declared endpoints only" if self._supervised else ""))
        self._closed_sockets = shut_open_sockets()
        self._fence.refused = refused
        self._fence.install()

    def _endpoints(self) -> Endpoints:
        """Return what may be reached, as the process that connects for this one looked it up, if there is one."""
        table = None if self._settings.report is None else self._settings.report.parent / TABLE_NAME
        if table is not None and self._supervised and table.exists():
            return Endpoints.from_json(table.read_text(encoding="utf-8"))
        return Endpoints.resolve(self._settings.allow)

    def _apply_kernel_fence(self) -> None:
        if not self._supervised:
            isolation.apply_kernel_fence()
        elif self._settings.report is not None:
            from otel_agent_replay.replay import supervisor  # Linux only

            supervisor.apply_supervised_fence(self._settings.report.parent)
        else:
            raise CannotJudge("--isolate with --allow needs a parent that connects: start it by `agent-replay replay`")

    @property
    def _supervised(self) -> bool:
        return self._settings.isolate and bool(self._settings.allow)

    def forbid_exec(self) -> None:
        """A run begins: from now on the process may not become another program."""
        self._fence.forbid_exec()
        if self._sealed:
            isolation.forbid_exec()

    def standing(self) -> tuple[str, ...]:
        """Return the walls that stand, and those that were wanted and do not."""
        first = in_process.NAME if self._kernel else f"{in_process.NAME} only"
        return (first, *self._kernel, *self._missing)

    def refusals(self) -> tuple[str, ...]:
        """Return what the fence refused, one text each with file and line."""
        return tuple(f"{one.what} at {one.location}" for one in self._fence.attempts)

    def told_in(self, verdict: ReplayVerdict) -> ReplayVerdict:
        """Return the verdict with the walls that stood and what they refused."""
        fences = self.standing()
        return replace(verdict, fences=fences, attempts=self.attempts, closed_sockets=self._closed_sockets)

    @property
    def attempts(self) -> tuple[RefusedAttempt, ...]:
        """What was refused in process so far."""
        return tuple(RefusedAttempt(one.what, one.location, one.in_run) for one in self._fence.attempts)


def walls_expected(isolate: bool) -> tuple[str, ...]:
    """Return the walls that will stand around a replay on this machine, by name."""
    if not isolate:
        return (in_process.NAME,)
    kernel = ((isolation.NAME, isolation.why_not()), (landlock.NAME, landlock.why_not()))
    return (in_process.NAME, *(name for name, reason in kernel if not reason))


def writable(settings: WallSettings) -> tuple[Path, ...]:
    """Return the folders that this process may write in: our journal, the report's, and what was declared.

    What is recorded already is not among them. Raises ConfigurationError for a declared folder that is not there.
    """
    folders = [settings.lake / "journal"]
    if settings.report is not None:
        folders.append(settings.report.parent)
    for declared in settings.allow_write:
        if not os.path.lexists(declared):
            raise ConfigurationError(f"--allow-write {declared}: there is no such folder; make it first")
        folders.append(Path(declared))
    return tuple(folder.resolve() for folder in folders)
