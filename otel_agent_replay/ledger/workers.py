"""Names of workers, and whether one of this machine is gone: then nobody needs to wait for its lease to run out."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path


def worker_name() -> str:
    """Return this process's name among all workers: machine, process id, and when the process started."""
    pid = os.getpid()
    return f"{_machine()}:{pid}:{_started(pid)}"


def is_gone(worker: str) -> bool:
    """Whether that worker ran on this machine and has ended. False where it cannot be told."""
    machine, _, process = worker.partition(":")
    pid, _, started = process.partition(":")
    if machine != _machine() or not pid.isdecimal() or not started:
        return False
    try:
        os.kill(int(pid), 0)  # /proc may hide the processes of other users
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _started(int(pid)) not in {started, ""}


def _machine() -> str:
    """Return the name of this host and of its numbering of processes: containers may share the one, not the other."""
    numbering = ""
    with suppress(OSError):
        numbering = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()}/{''.join(filter(str.isdecimal, numbering))}"


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" when there is no telling, "ended" for a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] == "Z" else fields[19]
