"""Who may work on a lake as a whole: one at a time. Readers and sealers ask nobody."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from otel_agent_replay.errors import MaintenanceError

STAGING = "compaction"
"""Folder of a lake in which new files are made; no reader looks into it."""

_LOCK = ".maintenance.lock"
_TRY_AGAIN_S = 0.05


@contextmanager
def maintenance_lock(lake: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Keep every other compaction, retention, repair and upgrade out of a lake.

    Raises MaintenanceError when one is still at work after `wait_s` seconds.
    """
    try:
        descriptor = os.open(lake / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MaintenanceError(f"{lake} cannot be written ({error}): nothing was changed") from error
    try:
        deadline = time.monotonic() + wait_s
        while not try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise MaintenanceError(
                    f"another process compacts, completes, upgrades, repairs or deletes from {lake}: nothing was "
                    "changed; try again when it has ended"
                )
            time.sleep(_TRY_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone; False while another one has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
