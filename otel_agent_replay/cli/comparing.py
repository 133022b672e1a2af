"""Comparing planned cases: two processes, a chunk of cases at a time, only summaries kept.

Owns how the work is spread. Cases are taken in the order in which A's runs lie in the lake, so that the row groups of
a chunk are read once; a chunk's rows are gone before the next is read.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.cli.case_pairs import PlannedCase
from otel_agent_replay.cli.judge_option import load_judge
from otel_agent_replay.compare.case_summary import InvariantCheck, lane_run, pair_summary
from otel_agent_replay.compare.cohort import CaseRow, LaneRun, PairSummary
from otel_agent_replay.compare.judged import Meaning, judge_answers
from otel_agent_replay.lake.many_runs import ManyRuns
from otel_agent_replay.model import RecordedRun, RunId

if TYPE_CHECKING:
    from otel_agent_replay.gate.case import Case

_CHUNK_RUNS = 384
_ALONE = 400  # cases: below, starting processes takes longer than the work
_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the runs lie: A's lake, B's (and the baseline lane's), and case folders whose invariants are held.

    `judge` (pkg.mod:func, "": none) says whether final answers mean the same.
    """

    a: Path
    b: Path
    cases: tuple[Path, ...] = ()
    judge: str = ""


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """A case that was compared, or, with `row` None, one whose runs are not all there."""

    planned: PlannedCase
    row: CaseRow | None


def compare_planned(
    planned: Sequence[PlannedCase],
    sources: Sources,
    *,
    told: Callable[[int], None],
    processes: int | None = None,
) -> list[ComparedCase]:
    """Compare every case; `told` hears how many more are done. Raises what reading a lake raises."""
    ordered = sorted(planned, key=lambda case: min(case.a))
    chunks = list(_chunks(ordered))
    count = min(_PROCESSES, os.cpu_count() or 1) if processes is None else processes
    if len(ordered) < _ALONE or count < 2:
        worker = _Worker(sources)
        return [one for chunk in chunks for one in _counted(worker.compare(chunk), told)]
    found: list[ComparedCase] = []
    context = get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=(sources,)) as pool:
        waiting = iter(chunks)
        running: set[Future[list[ComparedCase]]] = set()
        try:
            while True:
                while len(running) < 2 * count and (chunk := next(waiting, None)) is not None:
                    running.add(pool.submit(_compare, chunk))
                if not running:
                    return found
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    found += _counted(future.result(), told)
        finally:
            pool.shutdown(cancel_futures=True)


def _counted(cases: list[ComparedCase], told: Callable[[int], None]) -> list[ComparedCase]:
    told(len(cases))
    return cases


def _chunks(planned: Sequence[PlannedCase]) -> Iterator[list[PlannedCase]]:
    chunk: list[PlannedCase] = []
    runs = 0
    for case in planned:
        size = len(case.a) + len(case.b) + len(case.baseline)
        if chunk and runs + size > _CHUNK_RUNS:
            yield chunk
            chunk, runs = [], 0
        chunk.append(case)
        runs += size
    if chunk:
        yield chunk


class _Worker:
    """Compares chunks of cases in one process."""

    def __init__(self, sources: Sources) -> None:
        self._a = ManyRuns(sources.a)
        self._b = self._a if sources.b == sources.a else ManyRuns(sources.b)
        self._checks = invariant_checks(sources.cases)
        self._judge = load_judge(sources.judge) if sources.judge else None

    def compare(self, chunk: Sequence[PlannedCase]) -> list[ComparedCase]:
        """Return the cases compared; their runs are loaded together and let go together."""
        runs_a = self._a.load(run for case in chunk for run in case.a)
        runs_b = self._b.load(run for case in chunk for run in (*case.b, *case.baseline))
        return [ComparedCase(case, self._row(case, runs_a, runs_b)) for case in chunk]

    def _row(
        self, case: PlannedCase, runs_a: dict[bytes, RecordedRun], runs_b: dict[bytes, RecordedRun]
    ) -> CaseRow | None:
        side_a = [runs_a[run] for run in case.a if run in runs_a]
        side_b = [runs_b[run] for run in case.b if run in runs_b]
        baseline = [runs_b[run] for run in case.baseline if run in runs_b]
        if not side_a or not side_b:
            return None
        first = side_a[0]
        reference = lane_run(first, self._checks)
        lanes = [self._beside(first, reference, members) for members in (side_a[1:], side_b, baseline)]
        (more_a, pairs_a), (in_b, pairs_b), (in_baseline, pairs_baseline) = lanes
        return CaseRow(
            key=case.key,
            a=(reference, *more_a),
            b=in_b,
            pairs=pairs_b,
            baseline=in_baseline,
            baseline_pairs=pairs_baseline,
            a_pairs=pairs_a,
            weight=case.weight,
        )

    def _beside(
        self, first: RecordedRun, reference: LaneRun, members: Sequence[RecordedRun]
    ) -> tuple[tuple[LaneRun, ...], tuple[PairSummary, ...]]:
        found = [settled(reference, lane_run(one, self._checks), self._pair(first, one)) for one in members]
        return tuple(run for run, _ in found), tuple(pair for _, pair in found)

    def _pair(self, first: RecordedRun, other: RecordedRun) -> PairSummary:
        pair = pair_summary(first, other)
        if self._judge is None:
            return pair
        judged = judge_answers(first, other, self._judge)
        said = "" if judged.meaning is Meaning.SAME_TEXT else str(judged)
        return replace(pair, judged=judged.is_same, judge_said=said)


def settled(reference: LaneRun, run: LaneRun, pair: PairSummary) -> tuple[LaneRun, PairSummary]:
    """Give a run that did the same the same tool path: steps that ran side by side have no order of their own."""
    if pair.is_same:
        return replace(run, tool_path=reference.tool_path), pair
    return run, replace(pair, tool_path_changed=run.tool_path != reference.tool_path)


def titles_of(lake: Path, run: bytes) -> dict[int, str]:
    """Return what each step of a run is, by its number."""
    recorded = ManyRuns(lake).load([run])[RunId(run)]
    return {node.step: f"{node.kind} {node.name}" for node in recorded.nodes if node.step is not None}


def invariant_checks(folders: Sequence[Path]) -> dict[str, InvariantCheck]:
    """Return the invariants of case folders as checks by name. Raises ConfigurationError for a case that is wrong."""
    checks: dict[str, InvariantCheck] = {}
    for folder in folders:
        from otel_agent_replay.gate.case import Case

        case = Case.load(folder)
        for invariant in case.invariants:
            checks[f"{case.name}: {invariant.name}"] = _check_of(replace(case, invariants=(invariant,)))
    return checks


def _check_of(case: Case) -> InvariantCheck:
    """Return the only invariant of a case as a check."""
    from otel_agent_replay.gate.invariants import check
    from otel_agent_replay.gate.result import State

    holds = {State.HELD: True, State.BROKEN: False, State.UNKNOWN: None}
    return lambda recorded: holds[check(case, recorded)[0].state]


_worker: _Worker | None = None


def _start(sources: Sources) -> None:
    """Make a process ready. Nothing it makes points in circles, so that collecting would only cost."""
    global _worker
    gc.disable()
    _worker = _Worker(sources)


def _compare(chunk: list[PlannedCase]) -> list[ComparedCase]:
    if _worker is None:
        raise AssertionError("the process was not made ready")
    found = _worker.compare(chunk)
    gc.collect()
    return found
