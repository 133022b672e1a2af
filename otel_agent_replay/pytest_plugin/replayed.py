"""One case replayed for a test: what came, whether it may pass, and the failure text with the aligned diff.

Tests of several processes may replay the same case at once: trials happen on copies. Recording anew writes the case
and holds its lock meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otel_agent_replay.casebook.accepting import accept
from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Standing, Trial
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.replay.enclosed import environment_with
from otel_agent_replay.report.comparison_tree import comparison_lines
from otel_agent_replay.report.gate_words import case_lines, row_sentence
from otel_agent_replay.report.terminal import plain_text
from otel_agent_replay.trials.accepted import drift_of
from otel_agent_replay.trials.gate_run import finish, prepare
from otel_agent_replay.trials.options import TrialOptions


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """A case replayed with today's code. `verdict` is its own, `guards` those of the good runs beside it."""

    verdict: CaseVerdict
    guards: Sequence[CaseVerdict] = ()

    @property
    def trial(self) -> Trial | None:
        """The trial that tells most; None where the case is no test, so that nothing was run."""
        return self.verdict.shown

    @property
    def run(self) -> StoredRun:
        """The replayed run, with its steps. Raises AssertionError, with the reason, where there is none."""
        trial = self.trial
        if trial is None or trial.lake is None or not trial.run:
            raise AssertionError(self.told())
        return Lake(trial.lake).load(bytes.fromhex(trial.run))

    def check(self) -> ReplayedCase:
        """Return it when the case passes, with its guards. Raises AssertionError with reason, evidence and diff."""
        __tracebackhide__ = True
        if any(row.standing is not Standing.PASSED for row in (self.verdict, *self.guards)):
            raise AssertionError(self.told())
        return self

    def told(self) -> str:
        """Return all that is worth saying of it: each invariant that does not hold, and the aligned diff."""
        rows = [self.verdict, *(row for row in self.guards if row.standing is not Standing.PASSED)]
        return "\n".join(line for row in rows for line in _told(row))


def replayed(
    case: str, given: Mapping[str, Any], *, places: Sequence[Path], work: Path, record: bool = False
) -> ReplayedCase:
    """Replay the case in the folder `case`, looked for in each of `places`; `given` are fields of TrialOptions.

    With `record` it goes live where it departs, and a run that holds is kept as the one to replay from then on.
    Raises ConfigurationError for a case that is not there or options that cannot be.
    """
    folder = _folder(case, places)
    options = TrialOptions(environment=environment_with([one for one in sys.path if one]), **given)
    if record:
        options = replace(options, live=True)
    with _locked(folder) if record else nullcontext():
        verdict = finish(prepare([folder], options, work), options)
        if record:
            _keep(verdict)
    rows = list(verdict.cases)
    return ReplayedCase(rows[0], rows[1:])


def _keep(verdict: GateVerdict) -> None:
    for row in verdict.cases:
        for trial in drift_of(row):
            if trial.lake is not None:
                accept(row.folder, Lake(trial.lake).load(bytes.fromhex(trial.run)))


def _folder(case: str, places: Sequence[Path]) -> Path:
    for place in places:
        if (place / case / CASE_FILE).is_file():
            return place / case
    looked = ", ".join(str(place) for place in dict.fromkeys(places))
    raise ConfigurationError(f"there is no case {case!r} (a folder with {CASE_FILE}) in {looked}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a case folder; it lies outside, so that a case holds nothing but itself."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    with (Path(tempfile.gettempdir()) / f"agent-replay-case-{name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _told(row: CaseVerdict) -> Iterator[str]:
    yield f"case {row.name} {row_sentence(row)}"
    yield from (f"  {line}" for line in case_lines(row))
    shown = row.shown
    if shown is not None and shown.comparison is not None:
        yield ""
        yield plain_text(comparison_lines(shown.comparison))
