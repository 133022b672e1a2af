"""Opening a lake for reading: what is closed is sealed first, so that one reads what one has just written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.cli.output import FOUND, remark
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.export.sealer import SealReport
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.lake.passed_over import PassedOver


def open_lake(lake: Path, *, verbose: bool = False, passed_over: PassedOver | None = None) -> Lake:
    """Seal what is closed and return the lake. What could not be sealed is said on standard error, never hidden.

    With `passed_over` lists leave out what cannot be read; the command says so (`tell_passed_over`).
    """
    from otel_agent_replay.export.segment_file import has_journal
    from otel_agent_replay.lake.catalog import Lake

    tell_absent(lake)
    try:
        if verbose or has_journal(lake):
            from otel_agent_replay.export.sealer import seal  # and with it all that reads journals: 30 ms

            tell_sealing(seal(lake), verbose=verbose)
    except OSError as error:
        remark(f"note: the journal of {lake} could not be sealed ({error}); runs that lie there are not shown")
    return Lake(lake, passed_over)


def tell_passed_over(files: Mapping[Path, str]) -> int:
    """Name on standard error the files that were passed over; return the exit code that says whether there were any."""
    for why in files.values():
        remark(f"left out: {why}")
    return FOUND if files else 0


def passed_over_facts(files: Mapping[Path, str]) -> list[dict[str, str]]:
    """Return the files that were passed over as they stand in a JSON document."""
    return [{"file": str(path), "why": why.partition("\n")[0]} for path, why in files.items()]


def tell_absent(lake: Path) -> None:
    """Say on standard error where there is no lake: it reads like one that holds nothing, and may be a slip."""
    if not lake.is_dir():
        remark(f"no lake at {lake}: record a run with `agent-replay record -- COMMAND`, or name another with --lake")


def tell_sealing(report: SealReport, *, verbose: bool) -> None:
    """Say on standard error what a sealing could not do, and, when asked, what it did."""
    if report.busy:
        remark("note: another process seals this lake; runs that it has not published yet are not shown")
    for run_id, why in report.failed:
        remark(f"note: run {run_id} could not be sealed and stays in the journal: {why}")
    for segment in report.unreadable:
        remark(f"note: segment {segment} was written by a newer version and stays in the journal")
    if verbose:
        remark(
            f"sealed {counted(report.runs, 'run')}, {counted(report.spans, 'span')}, {counted(report.losses, 'loss')}; "
            f"{counted(report.segments_removed, 'segment')} removed, {report.open_segments} still written"
        )
        for torn in report.torn:
            remark(f"torn: {torn}")
