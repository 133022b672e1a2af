"""How much a replay may use: CPU seconds, memory, open files; and how one sees that it wanted more.

The limits are the kernel's (`setrlimit`) and are set before the replaying program starts, by `bootstrap/limited.py`.
Each process of a replay has them for itself. Wall time is the launcher's to watch. Not on Windows.
"""

from __future__ import annotations

import errno
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otel_agent_replay import bootstrap
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.verdict import ReplayVerdict, VerdictStatus

_SCRIPT = Path(bootstrap.__file__).with_name("limited.py")
_NAMES = ("cpu", "memory", "files")
_SHELL_OFFSET = 128  # a shell reports a child's signal as its exit status, so much higher


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one replay; 0: none. `cpu` in seconds, `memory` in MiB of address space, `files` open at once."""

    cpu: int = 0
    memory: int = 0
    files: int = 0

    @classmethod
    def parse(cls, entries: Sequence[str]) -> Limits:
        """Return the limits of `cpu=60`, `memory=2048`, `files=256`. Raises ConfigurationError naming what is wrong."""
        values: dict[str, int] = {}
        for entry in entries:
            name, _, amount = entry.partition("=")
            if name not in _NAMES or not amount.isdecimal() or int(amount) == 0:
                raise ConfigurationError(
                    f"limit {entry!r} is not like cpu=SECONDS, memory=MIB or files=NUMBER, with a whole number above 0"
                )
            values[name] = int(amount)
        if values and sys.platform == "win32":
            raise ConfigurationError("--limit is not possible on Windows; --timeout is")
        return cls(**values)

    def entries(self) -> list[str]:
        """Return them in the form that `parse` takes."""
        return [f"{name}={getattr(self, name)}" for name in _NAMES if getattr(self, name)]

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that starts `argv` under these limits."""
        entries = self.entries()
        return [sys.executable, "-I", "-S", str(_SCRIPT), ",".join(entries), *argv] if entries else list(argv)

    def killed(self, status: int | None) -> str:
        """Return which limit ended a process with exit status `status` (negative: a signal), "" when none did."""
        if not self.cpu or status is None or sys.platform == "win32":
            return ""
        return f"killed: {self.told('cpu')}" if status in (-signal.SIGXCPU, _SHELL_OFFSET + signal.SIGXCPU) else ""

    def hit(self, error: BaseException | None) -> str:
        """Return which limit an error of the replaying code tells of, "" when none."""
        if self.memory and (isinstance(error, MemoryError) or "can't start new thread" in str(error)):
            return f"stopped: {self.told('memory')}"
        if self.files and isinstance(error, OSError) and error.errno == errno.EMFILE:
            return f"stopped: {self.told('files')}"
        return ""

    def told(self, name: str) -> str:
        """Return one limit in words."""
        return {
            "cpu": f"CPU limit of {self.cpu} s",
            "memory": f"memory limit of {self.memory} MiB",
            "files": f"limit of {self.files} open files",
        }[name]

    def standing(self) -> str:
        """Return all of them in words, "" when there is none."""
        return ", ".join(self.told(name) for name in _NAMES if getattr(self, name))


class LimitWatch:
    """Notes in the replaying process when an error tells of a limit; what the code catches itself is not seen."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.reached = ""

    def note(self, error: BaseException | None) -> None:
        """Look at an error that ended a run, a thread or the process, and at what caused it."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            self.reached = self.reached or self.limits.hit(error)
            error = error.__cause__ or error.__context__

    def install(self) -> None:
        """Look at what nobody catches, too."""
        if not self.limits.entries():
            return
        sys.excepthook = self._noting(sys.excepthook, lambda args: args[1])
        threading.excepthook = self._noting(threading.excepthook, lambda args: args[0].exc_value)

    def _noting(self, hook: Callable[..., Any], error_of: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
        def noting(*args: Any) -> Any:
            self.note(error_of(args))
            return hook(*args)

        return noting

    def told_in(self, verdict: ReplayVerdict) -> ReplayVerdict:
        """Return the verdict: nothing can be said of code that a limit stopped."""
        if not self.reached or verdict.status is VerdictStatus.SAME:
            return verdict
        return replace(verdict, status=VerdictStatus.CANNOT_JUDGE, reason=self.reached)
