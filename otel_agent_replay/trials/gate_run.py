"""A gate: every case tried, the free way first, and what it comes to.

Owns the order: all that is free is decided before anything is spent, so that the plan of what goes live is known, with
its price, while one can still say no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from otel_agent_replay.compare.judged import Meaning, judge_answers
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Means, Reason, Role, Standing, Trial, reason_of
from otel_agent_replay.model import cannot_run_again, is_imported
from otel_agent_replay.trials.budget import Budget
from otel_agent_replay.trials.component import component_trial
from otel_agent_replay.trials.exact import exact_trial
from otel_agent_replay.trials.forecast import Forecast, forecast
from otel_agent_replay.trials.live import live_trial
from otel_agent_replay.trials.options import Mode, TrialOptions
from otel_agent_replay.trials.recorded import RecordedRuns, recorded_trials
from otel_agent_replay.trials.rerun import rerun_trial
from otel_agent_replay.trials.started import loaded
from otel_agent_replay.trials.subject import Subject, case_folders, subjects_of

Told = Callable[[str], None]
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Pending:
    """A subject that only live trials decide: from step `at` on, each of them taking about `each`.

    `exact` is the replay that departed there; None in mode `rerun`, which begins at step 1.
    """

    subject: Subject
    at: int
    each: Forecast
    exact: Trial | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is decided already and what is not, in the order of the cases. Nothing was spent."""

    rows: Sequence[CaseVerdict | Pending]

    @property
    def pending(self) -> list[Pending]:
        """What only live trials decide."""
        return [one for one in self.rows if isinstance(one, Pending)]


def prepare(paths: Sequence[Path], options: TrialOptions, work: Path, *, told: Told = lambda _: None) -> Prepared:
    """Try all cases at and below `paths` as far as that is free; `told` hears a line for each, on this thread.

    `work` is a folder for the trials. Raises ConfigurationError where nobody says what to run.
    """
    folders = case_folders(paths)
    subjects = [
        (number, one) for number, folder in enumerate(folders, 1) for one in subjects_of(folder, work / f"{number:04d}")
    ]
    rows: list[CaseVerdict | Pending] = []
    made = _side_by_side(
        [
            partial(_prepared, one, options) if isinstance(one, Subject) else partial(_as_it_is, one)
            for _, one in subjects
        ],
        options.parallel,
    )
    for (number, _), row in zip(subjects, made, strict=True):
        rows.append(row)
        told(f"[{number}/{len(folders)}] {_said(row)}")
    return Prepared(rows)


def finish(prepared: Prepared, options: TrialOptions, *, told: Told = lambda _: None) -> GateVerdict:
    """Decide what is pending, live where that is allowed and within the budget; return the verdict."""
    budget = Budget(options.budget_usd, side_by_side=options.parallel)
    repeats = options.repeats if options.live else 0
    jobs = [
        partial(_live, pending, repeat, options, budget)
        for pending in prepared.pending
        for repeat in range(1, repeats + 1)
    ]
    made = _side_by_side(jobs, options.parallel)
    rows: list[CaseVerdict] = []
    for row in prepared.rows:
        if isinstance(row, CaseVerdict):
            rows.append(row)
            continue
        trials = [next(made) for _ in range(repeats)]
        rows.append(_row(row.subject, _told_once(trials), options) if options.live else _undecided(row, options))
        told(_said(rows[-1]))
    return GateVerdict(rows, options.min_pass)


def _side_by_side(jobs: Sequence[Callable[[], _Made]], parallel: int) -> Iterator[_Made]:
    """Yield what the jobs give, in their order; at most `parallel` run at a time. What one raises ends them all.

    Each of them waits for a process of its own, so threads are enough here.
    """
    if parallel == 1:
        yield from (job() for job in jobs)
        return
    with ThreadPoolExecutor(parallel, thread_name_prefix="gate") as pool:
        made = [pool.submit(job) for job in jobs]
        try:
            for one in made:
                yield one.result()
        finally:
            for one in made:
                one.cancel()


def _as_it_is(row: CaseVerdict) -> CaseVerdict:
    return row


def _prepared(subject: Subject, options: TrialOptions) -> CaseVerdict | Pending:
    if options.mode is Mode.COMPONENT or (subject.recorded is None and options.mode is Mode.AUTO):
        return _row(subject, [component_trial(subject, options)], options)
    if subject.recorded is None:
        return subject.row(Reason.NO_RECORDING, f"mode {options.mode} needs a recorded run; there are only fixtures")
    if options.runs is not None:
        return _of_recorded(subject, options.runs, options)
    if is_imported(subject.recorded.run):
        held = "runs of new versions can be imported too, and held against it: --mode recorded --where SQL"
        return subject.row(Reason.NOT_REPLAYED, f"{cannot_run_again(subject.recorded.run)}; {held}")
    if options.mode is Mode.RERUN:
        return Pending(subject, 1, forecast(subject.recorded, 1, options))
    exact = _judged(subject, exact_trial(subject, options), options)
    departed = exact.reason is Reason.DEPARTED and exact.step is not None
    if options.mode is Mode.AUTO and departed and exact.step is not None:
        return Pending(subject, exact.step, forecast(subject.recorded, exact.step, options), exact)
    return _row(subject, [exact], options)


def _of_recorded(subject: Subject, runs: RecordedRuns, options: TrialOptions) -> CaseVerdict:
    trials = [_judged(subject, one, options) for one in recorded_trials(subject, runs)]
    if not trials:
        return subject.row(Reason.NO_RUN, "none of the runs that --where names was called with what this one was")
    return _row(subject, trials, options)


def _live(pending: Pending, repeat: int, options: TrialOptions, budget: Budget) -> Trial:
    with budget.trial(pending.each.usd) as grant:
        if not grant.fits:
            return _over_budget(pending, grant.left)
        if options.mode is Mode.RERUN:
            trial = rerun_trial(pending.subject, repeat, options, usd=grant.usd)
        else:
            trial = live_trial(pending.subject, pending.at, repeat, options, usd=grant.usd)
        grant.used = trial.usd
    return _judged(pending.subject, trial, options)


def _judged(subject: Subject, trial: Trial, options: TrialOptions) -> Trial:
    """Return a trial with a judge's word on its final answer, where one is asked for and the run came to its end."""
    ended = trial.comparison is not None and trial.standing is not Standing.UNKNOWN
    if options.judge is None or subject.recorded is None or trial.lake is None or not ended:
        return trial
    came = loaded(trial.lake, trial.run)
    if came is None:
        return trial
    judged = judge_answers(subject.recorded, came, options.judge)
    return trial if judged.meaning is Meaning.SAME_TEXT else replace(trial, judged=str(judged))


def _told_once(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials with the first alone of those that never began for want of money."""
    never = [one for one in trials if one.reason is Reason.OVER_BUDGET and (one.means is Means.EXACT or not one.run)]
    begun = [one for one in trials if one not in never]
    return [*begun, *never[:1]]


def _undecided(pending: Pending, options: TrialOptions) -> CaseVerdict:
    """Return the row of a subject that may not go live: not decided, whatever the replay showed on its way."""
    if pending.exact is not None:
        return _row(pending.subject, [pending.exact], options)
    return pending.subject.row(Reason.DEPARTED, "a re-run asks models live: say so with --live or --candidate")


def _over_budget(pending: Pending, left: float) -> Trial:
    about = "at a price that nobody knows" if pending.each.usd is None else f"for about ${pending.each.usd:.4f}"
    detail = f"{pending.each.calls} model calls from step {pending.at}, {about}; ${left:.4f} of the budget are left"
    if pending.exact is not None:
        return replace(pending.exact, reason=Reason.OVER_BUDGET, detail=detail)
    return Trial(Means.RERUN, Reason.OVER_BUDGET, detail, step=pending.at)


def _row(subject: Subject, trials: Sequence[Trial], options: TrialOptions) -> CaseVerdict:
    reason, detail = reason_of(trials, options.min_pass)
    accepted = bool(subject.case.content.get("baseline")) and subject.role is not Role.GOOD
    return replace(subject.row(reason, detail), trials=trials, baseline=accepted)


def _said(row: CaseVerdict | Pending) -> str:
    if isinstance(row, Pending):
        return f"{row.subject.name}: departs at step {row.at}" if row.exact else f"{row.subject.name}: to be run again"
    return f"{row.name}: {row.standing}, {row.reason}" + (f" ({row.detail})" if row.detail else "")
