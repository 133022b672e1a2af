"""Pruning a lake that is in use: what waits is sealed, sealers are kept out, what somebody goes on with stays."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.export.sealer import seal, seal_lock
from otel_agent_replay.export.segments import journal_folder
from otel_agent_replay.export.unsealed import unsealed_runs
from otel_agent_replay.lake.retention import PruneReport, prune


def prune_lake(
    lake: Path,
    older_than_ns: int,
    *,
    dry_run: bool = False,
    in_use: Callable[[], Collection[bytes]] = frozenset,
    wait_s: float = 30.0,
) -> PruneReport:
    """Delete the hours of a lake that were over before `older_than_ns` (Unix nanoseconds); `lake.retention` says which.

    `in_use` is asked at the last moment for runs that must stay, beside those that the journal goes on with. Raises
    CannotJudge when another sealer is at work for longer than `wait_s` seconds, and as `retention.prune`.
    """
    lake = Path(lake)
    if not journal_folder(lake).is_dir():
        return prune(lake, older_than_ns, dry_run=dry_run, needed=in_use())
    if not dry_run:
        seal(lake, wait_s=wait_s)
    with seal_lock(lake, wait_s) as held:
        if not held:
            raise CannotJudge(f"another process seals {lake}: nothing was pruned; try again when it has ended")
        return prune(lake, older_than_ns, dry_run=dry_run, needed=unsealed_runs(lake).union(in_use()))
