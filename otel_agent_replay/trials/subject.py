"""What is tried: the recorded run of a case, or a good run beside it, on a copy of its lake.

Owns which runs of a case folder are tried, and how a folder that is no test is told.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from otel_agent_replay.casebook.folder import KeptRun, OpenCase, open_case
from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.gate import Case, CaseKind, InvariantResult
from otel_agent_replay.gate.soundness import folder_fault, record_fault
from otel_agent_replay.gate.verdict import CaseVerdict, Reason, Role
from otel_agent_replay.lake.catalog import Lake, StoredRun


@dataclass(frozen=True, slots=True)
class Subject:
    """One run to try. `work` is a folder of its own, `lake` the copy in it; `on_record` holds of the run as recorded.

    `recorded` is None for a case that has fixtures and no run.
    """

    case: Case
    role: Role
    work: Path
    recorded: StoredRun | None = None
    on_record: Sequence[InvariantResult] = ()

    @property
    def lake(self) -> Path:
        """The lake that it is tried in."""
        return self.work / "lake"

    @property
    def name(self) -> str:
        """What reports call it: the case, and of a guard its run."""
        guard = self.role is Role.GOOD and self.recorded is not None
        run = "" if not guard or self.recorded is None else f" (good run {self.recorded.run.run_id.hex()[:12]})"
        return self.case.name + run

    def row(self, reason: Reason, detail: str = "") -> CaseVerdict:
        """Return what came of it, without trials."""
        return CaseVerdict(
            self.name, self.case.folder, self.role, reason, detail, self.case.about, recorded=self.on_record
        )


def case_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the case folders among `paths` and below them, each once, in the order of the paths, then by name."""
    found: dict[Path, None] = {}
    for path in paths:
        whole = path.parent if path.name == CASE_FILE else path
        if (whole / CASE_FILE).is_file():
            found[whole] = None
        else:
            below = (one.parent for one in sorted(whole.rglob(CASE_FILE)) if not _hidden(one, whole))
            found.update(dict.fromkeys(below))
    return list(found)


def subjects_of(folder: Path, work: Path) -> Iterator[Subject | CaseVerdict]:
    """Yield what is to be tried of a case folder, or the one row that says why it is no test.

    `work` is a folder of this case's own; it is made.
    """
    try:
        opened = open_case(folder)
    except AgentReplayError as error:
        yield CaseVerdict(folder.resolve().name, folder, Role.BAD, Reason.WRONG, str(error))
        return
    except Exception as error:
        # Bytes that somebody changed can make the reading of a lake fail in any way: that is one case, not the gate.
        told = f"its recording cannot be read: {type(error).__name__}: {error}"
        yield CaseVerdict(folder.resolve().name, folder, Role.BAD, Reason.TAMPERED, told)
        return
    case = opened.case
    role = Role.CONTROL if case.kind is CaseKind.CONTROL else Role.BAD
    fault = folder_fault(
        opened.tampering, has_run=opened.kept is not None, has_fixtures=bool(case.content.get("fixtures"))
    )
    if fault is not None:
        yield Subject(case, role, work).row(*fault)
        return
    if opened.kept is None:
        work.mkdir(parents=True)
        yield Subject(case, role, work)
        return
    yield from _runs(opened, opened.kept, role, work)


def _runs(opened: OpenCase, kept: KeptRun, role: Role, work: Path) -> Iterator[Subject | CaseVerdict]:
    for number, (one, is_a) in enumerate([(kept, role), *((good, Role.GOOD) for good in opened.good)]):
        folder = work / str(number)
        results = one.check(opened.case)
        subject = Subject(opened.case, is_a, folder, one.recorded, results)
        fault = record_fault(is_a, results)
        if fault is not None:
            yield subject.row(*fault)
            continue
        shutil.copytree(one.lake, folder / "lake")
        yield subject if is_a is Role.GOOD else with_baseline(subject)


def with_baseline(subject: Subject) -> Subject:
    """Return the subject held against the later run that was accepted, where there is one."""
    run = str(subject.case.content.get("baseline", ""))
    return replace(subject, recorded=Lake(subject.lake).load(bytes.fromhex(run))) if run else subject


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)
