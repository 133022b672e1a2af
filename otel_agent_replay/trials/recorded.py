"""Runs that somebody recorded or imported already, held against a case: nothing is run.

Which runs stand for which case is told by their input: those that were called with what the case's run was called with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.compare import compare
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.gate import check
from otel_agent_replay.gate.decision import whole_run
from otel_agent_replay.gate.verdict import Means, Reason, Trial
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import RecordedRun, RunStatus
from otel_agent_replay.replay.cohort import runs_where
from otel_agent_replay.trials.subject import Subject


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """Runs of a lake by the digest (hex) of their input."""

    lake: Path
    by_input: Mapping[str, Sequence[bytes]]

    @classmethod
    def where(cls, lake: Path, condition: str) -> RecordedRuns:
        """Return the runs for which `condition` holds, SQL over the view `runs`.

        Raises ConfigurationError for SQL that is wrong, and where no run fits.
        """
        seal(lake)
        wanted = {one.run_id.hex() for one in runs_where(lake, condition)}
        if not wanted:
            raise ConfigurationError(f"--where {condition!r} fits no run of {lake}: there is nothing to judge")
        with connect(lake) as connection:
            rows = connection.execute("SELECT run_id, request_digest FROM spans WHERE root ORDER BY run_id").fetchall()
        by_input: dict[str, list[bytes]] = defaultdict(list)
        for run_id, digest in rows:
            if run_id in wanted and digest is not None:
                by_input[digest].append(bytes.fromhex(run_id))
        return cls(lake, by_input)

    def like(self, recorded: RecordedRun) -> list[StoredRun]:
        """Return the runs with the input of `recorded`, itself left out."""
        digest = _input_digest(recorded)
        found = self.by_input.get(digest, ()) if digest else ()
        return [Lake(self.lake).load(run_id) for run_id in found if run_id != recorded.run.run_id]


def recorded_trials(subject: Subject, runs: RecordedRuns) -> list[Trial]:
    """Return a trial for each run that stands for the case of a subject."""
    recorded = subject.recorded
    return [] if recorded is None else [_trial(subject, recorded, came, runs.lake) for came in runs.like(recorded)]


def _trial(subject: Subject, recorded: RecordedRun, came: StoredRun, lake: Path) -> Trial:
    results = check(subject.case, came, rows=rows_of(lake, came.run.run_id))
    reason, detail = whole_run(subject.case, recorded, came, results)
    if reason is Reason.HELD and came.run.status is RunStatus.PENDING:
        reason, detail = Reason.STOPPED, "its recording has no end"
    run = came.run.run_id.hex()
    return Trial(Means.RECORDED, reason, detail, results, run, lake, comparison=compare(recorded, came))


def _input_digest(recorded: RecordedRun) -> str:
    return "" if recorded.input is None else recorded.input.digest.hex()
