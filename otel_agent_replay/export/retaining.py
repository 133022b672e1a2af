"""Retention in a lake that is in use: what waits is sealed, sealers are kept out, what somebody goes on with stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from otel_agent_replay.errors import CannotJudge, MaintenanceError
from otel_agent_replay.export.sealer import seal, seal_lock
from otel_agent_replay.export.segment_file import journal_folder
from otel_agent_replay.export.unsealed import unsealed_runs
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.retention import RetentionReport, retain


def retain_lake(
    lake: Path,
    since_ns: int,
    *,
    dry_run: bool = False,
    needed: Callable[[], Mapping[bytes, str]] = dict,
    wait_s: float = 30.0,
) -> RetentionReport:
    """Delete the hours of a lake that were over before `since_ns` (Unix nanoseconds); `lake.retention` says which.

    `needed` is asked at the last moment for runs that must stay and what for, beside those that the journal goes on
    with. Raises CannotJudge when another sealer is at work for longer than `wait_s` seconds, MaintenanceError when the
    lake is compacted now or cannot be written, and as `retention.retain`.
    """
    lake = Path(lake)
    if dry_run or not lake.is_dir():
        return retain(lake, since_ns, dry_run=dry_run, needed={**_unsealed(lake), **needed()})
    with maintenance_lock(lake, wait_s):
        try:
            if not journal_folder(lake).is_dir():
                return retain(lake, since_ns, needed=needed())
            seal(lake, wait_s=wait_s)
            with seal_lock(lake, wait_s) as held:
                if not held:
                    raise CannotJudge(f"another process seals {lake}: nothing was deleted; try again when it has ended")
                return retain(lake, since_ns, needed={**_unsealed(lake), **needed()})
        except OSError as error:
            raise MaintenanceError(
                f"{lake} cannot be written ({error}): hours that were deleted before are gone, all others are whole"
            ) from error


def _unsealed(lake: Path) -> dict[bytes, str]:
    return dict.fromkeys(unsealed_runs(lake), "the journal")
