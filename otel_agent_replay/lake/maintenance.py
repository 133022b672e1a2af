"""Who may work on a lake as a whole: one at a time. Readers and sealers ask nobody."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from otel_agent_replay.errors import MaintenanceError

STAGING = "compaction"
"""Folder of a lake in which new files are made; no reader looks into it."""

_LOCK = ".maintenance.lock"


@contextmanager
def maintenance_lock(lake: Path) -> Iterator[None]:
    """Keep every other compaction, retention, repair and upgrade out of a lake. Raises MaintenanceError at once."""
    try:
        descriptor = os.open(lake / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MaintenanceError(f"{lake} cannot be written ({error}): nothing was changed") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MaintenanceError(
                f"another process compacts, upgrades, repairs or deletes from {lake}: nothing was changed; try again "
                "when it has ended"
            ) from error
        yield
    finally:
        os.close(descriptor)
