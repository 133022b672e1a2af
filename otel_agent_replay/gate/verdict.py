"""May this version ship? Trials of cases in, the gate's verdict out. Pure.

A trial is one run of one case with the code under test. Unknown is not a pass, and a rate is not luck: a case passes
when the share of its trials that passed reaches the asked one, and the interval of that share is always told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_agent_replay.compare import Comparison
from otel_agent_replay.gate.rates import Rate
from otel_agent_replay.gate.result import InvariantResult, State
from otel_agent_replay.model import Word

EXIT_MAY_SHIP, EXIT_MAY_NOT, EXIT_CANNOT_JUDGE = 0, 1, 125


class Standing(Word):
    """How a trial, a case or a whole gate stands."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it could not be decided, which is not a pass


class Means(Word):
    """How a trial was made."""

    EXACT = "exact"  # every answer from the recording: free, offline
    LIVE = "live"  # exact up to its departure, live from there
    RERUN = "rerun"  # live from its first step, reads from the recording
    COMPONENT = "component"  # on the case's fixtures
    RECORDED = "recorded"  # a run that was recorded or imported before: nothing ran


class Role(Word):
    """What the run of a row is to its case."""

    BAD = "bad"  # it went wrong: today's code must do better
    CONTROL = "control"  # a neighbour that was good, and must stay so
    GOOD = "good"  # a run that a bad case accepts: its guard


class Reason(Word):
    """Why a trial or a case stands as it does."""

    HELD = "every invariant holds"
    BROKEN = "an invariant is broken"
    UNDECIDED = "an invariant cannot be decided"
    FAILED = "the agent failed"
    COMPONENT = "the component run is broken"
    DEPARTED = "departed: not decided"
    OVER_BUDGET = "departed: the budget does not reach"
    STOPPED = "the live run did not end"
    NOT_REPLAYED = "it could not be run"
    NO_RUN = "no recorded run has its input"
    TOO_RARELY = "it passes too rarely"
    FLAKY = "flaky: too few repeats to tell"
    WRONG = "the case cannot be read"
    NO_RECORDING = "its recording is missing"
    NO_INVARIANT = "it states no invariant"
    INVARIANT_REMOVED = "an invariant was removed or changed"
    TAMPERED = "tampered"
    ACCEPTS_BAD = "its recorded run breaks no invariant"
    REJECTS_GOOD = "its recorded run is good and breaks an invariant"
    EMPTY = "there is no case"


_STANDINGS = {
    Reason.HELD: Standing.PASSED,
    Reason.UNDECIDED: Standing.UNKNOWN,
    Reason.DEPARTED: Standing.UNKNOWN,
    Reason.OVER_BUDGET: Standing.UNKNOWN,
    Reason.STOPPED: Standing.UNKNOWN,
    Reason.NOT_REPLAYED: Standing.UNKNOWN,
    Reason.NO_RUN: Standing.UNKNOWN,
    Reason.FLAKY: Standing.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a case with the code under test.

    `detail` says more of the reason. `results` are the case's invariants held against the run `run` (hex, "": there is
    none) of the lake `lake`; `step` is where it departed from its recording, `comparison` what changed against that.
    `told` are further lines worth reading (a component run's). `usd` is what its model calls cost. `judged` is what a
    judge says of the final answer, which decides nothing.
    """

    means: Means
    reason: Reason
    detail: str = ""
    results: Sequence[InvariantResult] = ()
    run: str = ""
    lake: Path | None = None
    step: int | None = None
    comparison: Comparison | None = None
    told: Sequence[str] = ()
    usd: float = 0.0
    judged: str = ""

    @property
    def standing(self) -> Standing:
        """How it stands."""
        return _STANDINGS.get(self.reason, Standing.FAILED)

    @property
    def broken(self) -> list[InvariantResult]:
        """The invariants that it breaks."""
        return [one for one in self.results if one.state is State.BROKEN]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What came of one run of a case: `name` is the case's, `recorded` what holds of the run as it was recorded.

    `baseline` tells that the trials were held against an accepted later run in the place of the recorded one.
    """

    name: str
    folder: Path
    role: Role
    reason: Reason
    detail: str = ""
    about: str = ""
    trials: Sequence[Trial] = ()
    recorded: Sequence[InvariantResult] = ()
    baseline: bool = False

    @property
    def standing(self) -> Standing:
        """How it stands."""
        return _STANDINGS.get(self.reason, Standing.FAILED)

    @property
    def rate(self) -> Rate:
        """How many of its trials passed."""
        return Rate(sum(1 for one in self.trials if one.standing is Standing.PASSED), len(self.trials))

    @property
    def shown(self) -> Trial | None:
        """The trial that tells most: the first that failed, else the first undecided, else the first."""
        order = {Standing.FAILED: 0, Standing.UNKNOWN: 1, Standing.PASSED: 2}
        return min(self.trials, key=lambda one: order[one.standing], default=None)

    @property
    def mended(self) -> list[str]:
        """The invariants that the recorded run breaks and every trial keeps."""
        was = {one.invariant.name for one in self.recorded if one.state is State.BROKEN}
        return [name for name in self._kept() if name in was]

    @property
    def newly_broken(self) -> list[str]:
        """The invariants that the recorded run keeps and some trial breaks."""
        held = {one.invariant.name for one in self.recorded if one.holds}
        return list(
            dict.fromkeys(
                one.invariant.name for trial in self.trials for one in trial.broken if one.invariant.name in held
            )
        )

    def _kept(self) -> list[str]:
        names = [one.invariant.name for one in self.trials[0].results] if self.trials else []
        holding = [{one.invariant.name for one in trial.results if one.holds} for trial in self.trials]
        return [name for name in names if all(name in one for one in holding)]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """May it ship? Yes only when every case passes and there is one."""

    cases: Sequence[CaseVerdict]
    min_pass: float = 0.95

    @property
    def standing(self) -> Standing:
        """How the gate stands; an empty one fails."""
        standings = {one.standing for one in self.cases}
        if Standing.FAILED in standings or not standings:
            return Standing.FAILED
        return Standing.UNKNOWN if Standing.UNKNOWN in standings else Standing.PASSED

    @property
    def exit_code(self) -> int:
        """0 it may ship, 1 it may not, 125 it cannot be judged."""
        codes = {Standing.PASSED: EXIT_MAY_SHIP, Standing.FAILED: EXIT_MAY_NOT, Standing.UNKNOWN: EXIT_CANNOT_JUDGE}
        return codes[self.standing]

    @property
    def usd(self) -> float:
        """What all of it cost, US dollars."""
        return sum(trial.usd for one in self.cases for trial in one.trials)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.cases:
            return f"May not ship: {Reason.EMPTY}."
        count = {standing: sum(1 for one in self.cases if one.standing is standing) for standing in Standing}
        total = f"{len(self.cases)} case{'s' if len(self.cases) != 1 else ''}"
        if self.standing is Standing.PASSED:
            return f"May ship: {'the' if len(self.cases) == 1 else 'all'} {total} passed."
        parts = [f"{count[one]} {one}" for one in (Standing.FAILED, Standing.UNKNOWN, Standing.PASSED) if count[one]]
        may = "May not ship" if self.standing is Standing.FAILED else "Cannot judge"
        return f"{may}: of {total} {', '.join(parts)}."


def reason_of(trials: Sequence[Trial], min_pass: float) -> tuple[Reason, str]:
    """Return why a case with these trials stands as it does, and the detail.

    One trial speaks for itself. Of several the rate decides: at or above `min_pass` (0 to 1) it passes; below, it
    fails, unless the interval still reaches `min_pass`: then more repeats must tell.
    """
    if len(trials) == 1:
        return trials[0].reason, trials[0].detail
    passed = sum(1 for one in trials if one.standing is Standing.PASSED)
    rate = Rate(passed, len(trials))
    if trials and rate.value >= min_pass:
        return Reason.HELD, rate.told()
    reasons = list(dict.fromkeys(one.reason for one in trials if one.standing is not Standing.PASSED))
    if len(reasons) == 1 and passed == 0:
        return reasons[0], _detail(trials)
    why = "; ".join([rate.told(), *(f"{count} times {one}" for one, count in _counted(trials))])
    if all(_STANDINGS.get(one) is Standing.UNKNOWN for one in reasons):
        return reasons[0], why
    return (Reason.FLAKY if rate.interval[1] >= min_pass else Reason.TOO_RARELY), why


def _detail(trials: Iterable[Trial]) -> str:
    return next((one.detail for one in trials if one.detail), "")


def _counted(trials: Sequence[Trial]) -> list[tuple[Reason, int]]:
    reasons = [one.reason for one in trials if one.standing is not Standing.PASSED]
    return [(one, reasons.count(one)) for one in dict.fromkeys(reasons)]
