"""The report of `agent-replay steps`: reads a results file, prints, and writes the cohort that disagrees."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark

if TYPE_CHECKING:
    from otel_agent_replay.compare.screening import Disagreement, ScreeningReport
    from otel_agent_replay.replay.ask.candidate import Candidate
    from otel_agent_replay.replay.ask.results import Results
    from otel_agent_replay.replay.cohort import CohortWriter

_MOST_IN_JSON = 10_000


@dataclass(frozen=True, slots=True)
class Shown:
    """How it is shown: `count` disagreements, as JSON or not, and the file for the runs that disagree."""

    count: int
    as_json: bool
    text_likeness: float
    disagreeing: Path | None


def report_on(results: Results, lanes: Mapping[str, Candidate], shown: Shown, stopped: str) -> int:
    """Print the report and return the exit code. Memory does not grow with the cohort."""
    from otel_agent_replay.replay.cohort import CohortWriter
    from otel_agent_replay.report.screened import screening_of

    with ExitStack() as stack:
        file = None if shown.disagreeing is None else stack.enter_context(CohortWriter(shown.disagreeing))
        found = _Found(shown, file)
        report = screening_of(results, list(lanes), text_likeness=shown.text_likeness, found=found.take)
    names = {lane: candidate.name for lane, candidate in lanes.items()}
    in_doubt = results.in_doubt()
    missing = results.missing()
    if shown.as_json:
        from otel_agent_replay.report.screening_json import screening_document

        emit_json(
            screening_document(
                report, names, disagreements=found.facts, cut=found.count > len(found.facts), in_doubt=in_doubt,
                missing=[run_id.hex() for run_id, _ in missing], stopped=stopped,
            )
        )  # fmt: skip
    else:
        from otel_agent_replay.report.screening_lines import screening_lines
        from otel_agent_replay.report.terminal import print_lines

        firsts = found.riskiest()
        print_lines(
            screening_lines(
                report, names, firsts=firsts, more_firsts=found.firsts - len(firsts), in_doubt=in_doubt,
                missing=len(missing), stopped=stopped,
            )
        )  # fmt: skip
    if shown.disagreeing is not None:
        remark(f"{found.firsts} runs that disagree are named in {shown.disagreeing}")
    return _exit_code(report, whole=not (stopped or in_doubt or missing))


class _Found:
    """Takes in disagreements one by one; keeps as many as are shown."""

    def __init__(self, shown: Shown, file: CohortWriter | None) -> None:
        self.facts: list[dict[str, Any]] = []
        self.count = self.firsts = 0
        self._shown = shown
        self._file = file
        self._heap: list[tuple[int, int, Disagreement]] = []  # the worst last out: risk and order, negated

    def take(self, found: Disagreement) -> None:
        """Take one in."""
        from otel_agent_replay.compare.screening import RISKS
        from otel_agent_replay.replay.cohort import CohortRun
        from otel_agent_replay.report.asked import disagreement_facts

        self.count += 1
        if self._shown.as_json and len(self.facts) < _MOST_IN_JSON:
            self.facts.append(disagreement_facts(found, self._shown.text_likeness))
        if not found.is_first:
            return
        self.firsts += 1
        heapq.heappush(self._heap, (-RISKS.index(found.judged.risk), -self.firsts, found))
        if len(self._heap) > self._shown.count:
            heapq.heappop(self._heap)
        if self._file is not None:
            match = None if found.judged.comparison is None else str(found.judged.comparison.match)
            notes = {"step": found.step, "risk": found.judged.risk, "match": match}
            self._file.add(CohortRun(found.run_id, notes))

    def riskiest(self) -> list[Disagreement]:
        """Return the first disagreements that are shown, the riskiest first."""
        return [found for _, _, found in sorted(self._heap, reverse=True)]


def _exit_code(report: ScreeningReport, *, whole: bool) -> int:
    judged = next(iter(report.lanes.values()))
    if judged.runs_differing:
        return 1
    return 0 if whole and not report.skipped and not judged.tally.no_answer and report.steps else CANNOT_JUDGE
