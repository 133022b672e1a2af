"""Names of workers, and whether one of this machine is gone: then nobody needs to wait for its lease to run out."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def worker_name() -> str:
    """Return this process's name among all workers: host, process id, and when the process started."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def is_gone(worker: str) -> bool:
    """Whether that worker ran on this machine and has ended. False where it cannot be told."""
    host, _, rest = worker.rpartition(":")[0].rpartition(":")
    started = worker.rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdecimal() or not started:
        return False
    return _started(int(rest)) != started


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" when there is none or it cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
