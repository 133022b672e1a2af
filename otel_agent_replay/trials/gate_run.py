"""A gate: every case tried, the free way first, and what it comes to.

Owns the order: all that is free is decided before anything is spent, so that the plan of what goes live is known, with
its price, while one can still say no.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Means, Reason, Role, Trial, reason_of
from otel_agent_replay.trials.component import component_trial
from otel_agent_replay.trials.exact import exact_trial
from otel_agent_replay.trials.forecast import Forecast, forecast
from otel_agent_replay.trials.live import live_trial
from otel_agent_replay.trials.options import Mode, TrialOptions
from otel_agent_replay.trials.rerun import rerun_trial
from otel_agent_replay.trials.subject import Subject, case_folders, subjects_of

Told = Callable[[str], None]


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
    """Try all cases at and below `paths` as far as that is free; `told` hears a line for each.

    `work` is a folder for the trials. Raises ConfigurationError where nobody says what to run.
    """
    rows: list[CaseVerdict | Pending] = []
    folders = case_folders(paths)
    for number, folder in enumerate(folders, 1):
        for one in subjects_of(folder, work / f"{number:04d}"):
            row = one if isinstance(one, CaseVerdict) else _prepared(one, options)
            rows.append(row)
            told(f"[{number}/{len(folders)}] {_said(row)}")
    return Prepared(rows)


def finish(prepared: Prepared, options: TrialOptions, *, told: Told = lambda _: None) -> GateVerdict:
    """Decide what is pending, live where that is allowed and within the budget; return the verdict."""
    rows: list[CaseVerdict] = []
    spent = 0.0
    for row in prepared.rows:
        done = row if isinstance(row, CaseVerdict) else _decided(row, options, spent)
        spent += sum(trial.usd for trial in done.trials)
        rows.append(done)
        if isinstance(row, Pending):
            told(_said(done))
    return GateVerdict(rows, options.min_pass)


def _prepared(subject: Subject, options: TrialOptions) -> CaseVerdict | Pending:
    if options.mode is Mode.COMPONENT or (subject.recorded is None and options.mode is Mode.AUTO):
        return _row(subject, [component_trial(subject, options)], options)
    if subject.recorded is None:
        return subject.row(Reason.NO_RECORDING, f"mode {options.mode} needs a recorded run; there are only fixtures")
    if options.mode is Mode.RERUN:
        return Pending(subject, 1, forecast(subject.recorded, 1, options))
    exact = exact_trial(subject, options)
    departed = exact.reason is Reason.DEPARTED and exact.step is not None
    if options.mode is Mode.AUTO and departed and exact.step is not None:
        return Pending(subject, exact.step, forecast(subject.recorded, exact.step, options), exact)
    return _row(subject, [exact], options)


def _decided(pending: Pending, options: TrialOptions, spent: float) -> CaseVerdict:
    subject = pending.subject
    if not options.live:
        return _undecided(pending, options)
    trials: list[Trial] = []
    for repeat in range(1, options.repeats + 1):
        left = None if options.budget_usd is None else options.budget_usd - spent - sum(one.usd for one in trials)
        if left is not None and (pending.each.usd is None or pending.each.usd > left):
            trials.append(_over_budget(pending, left))
            break
        if options.mode is Mode.RERUN:
            trials.append(rerun_trial(subject, repeat, options, usd=left))
        else:
            trials.append(live_trial(subject, pending.at, repeat, options))
    return _row(subject, trials, options)


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
