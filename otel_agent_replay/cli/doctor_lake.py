"""The part of `agent-replay doctor` that looks at every file of a lake, and repairs what can be repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.cli.counting import Counting
from otel_agent_replay.cli.doctor_check import Check
from otel_agent_replay.errors import DamagedRecording, MaintenanceError
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.checkup import Checkup, Finding

_ADVICE = {
    "damaged": "restore it from a copy; the other files are not touched by it",
    "missing": "restore the file it was in; without it those runs replay up to there only",
    "misplaced": "restore its name and folder: date and hour are those in the run's id",
    "twice": "agent-replay compact",
    "foreign": "move it out of the lake",
}


def checks_of_files(lake: Path, *, repair: bool) -> Iterator[Check]:
    """Yield what was looked at, what was repaired and what is wrong. Raises MaintenanceError."""
    from otel_agent_replay.lake.checkup import check_lake, repair_lake

    with Counting("hours looked at") as progress:
        found = check_lake(lake, progress=progress)
    sealer = list(_sealer(lake, repair=repair))
    if repair and any(one.repair for one in found.findings):
        try:
            found = repair_lake(lake, found)
        except OSError as error:
            raise MaintenanceError(f"{lake} cannot be repaired: {error}; nothing that was recorded is gone") from error
    yield from (*_told(found), *sealer)


def _told(found: Checkup) -> Iterator[Check]:
    held = f"{counted(found.attempts, 'attempt')} at runs, {counted(found.spans, 'span')}"
    looked_at = f"{counted(found.files, 'file')}: {held}, {counted(found.payloads, 'payload')}"
    yield Check(
        "looked at", looked_at, found.is_sound, "" if found.is_sound else "see below; nothing else is concerned"
    )
    for one in found.repaired:
        yield Check("repaired", f"{one.path}: {one.what}")
    for one in found.findings:
        yield Check(str(one.trouble), f"{one.path}: {one.what}", _verdict(one), _advice(one))


def _verdict(finding: Finding) -> bool | None:
    return None if str(finding.trouble) in {"left over", "foreign"} else False


def _advice(finding: Finding) -> str:
    if finding.repair:
        return f"--repair: {finding.repair}"
    return _ADVICE.get(str(finding.trouble), "")


def _sealer(lake: Path, *, repair: bool) -> Iterator[Check]:
    """Look at the sealer's memory: where it cannot be read, nothing more is sealed."""
    from otel_agent_replay.export.seal_state import SealState

    try:
        step = SealState.load(lake).step
    except DamagedRecording as error:
        if not repair:
            yield Check("damaged", str(error), False, "--repair: put it aside; runs in the lake are found there")
            return
        path = lake / "journal" / "sealer.json"
        path.rename(path.with_suffix(".damaged"))
        yield Check("repaired", f"{path} was put aside as {path.with_suffix('.damaged').name}: {error}")
        return
    if step is not None:
        yield Check("left over", f"a sealer that died while it was at `{step.what}`", None, "agent-replay seal")
