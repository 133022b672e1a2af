"""Whether a recording is proven to replay: several offline replays, none with the recording's luck.

Owns the verdicts and what leads to each. Pure: who starts a replay is handed in, what is stored is the caller's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from otel_agent_replay.model import LossReason, RecordedRun, Run, RunStatus, Word
from otel_agent_replay.replay.verdict import Departure, ReplayVerdict, VerdictStatus, losses_told

_DOUBTFUL = frozenset(LossReason) - {LossReason.REDACTED, LossReason.UNPARSABLE}
"""Losses after which something may be missing on the tape; redacted and unparsable bytes are there, and compared."""


_RACE = "which thread goes first decides, and that is not on the tape"


class Replayability(Word):
    """What the replays of one run came to."""

    PROVEN = "proven"  # the same in every replay
    RECORDED_SEED = "only with the recorded hash seed"  # the order of sets decides
    DEPARTS = "departs"
    CANNOT_JUDGE = "cannot judge"


@dataclass(frozen=True, slots=True)
class Chance:
    """What is left to chance in a replay: `hash_seed` is PYTHONHASHSEED ("": the recorded one).

    `shuffle` is the seed that disturbs its threads; 0: undisturbed.
    """

    hash_seed: str = ""
    shuffle: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One replay, and how it went."""

    chance: Chance
    verdict: ReplayVerdict


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict on a run with its reason in a sentence, the replays it rests on, and where it departs, if it does."""

    verdict: Replayability
    reason: str
    trials: tuple[Trial, ...] = ()
    departure: Departure | None = None

    @property
    def witness(self) -> str:
        """Hex id of a replay's own run, which says what code ran; "" when none was recorded."""
        return next((one.verdict.replay_run_id for one in self.trials if one.verdict.replay_run_id), "")


def chances(run: Run, times: int) -> Iterator[Chance]:
    """Yield `times` chances, each other than the recorded one and the same whenever this run is tried."""
    for number in range(times):
        digest = hashlib.sha256(run.run_id + number.to_bytes(4, "big")).digest()
        seed = int.from_bytes(digest[:4], "big") or 1
        if str(seed) == run.hash_seed:
            seed ^= 1 << 31
        yield Chance(str(seed), int.from_bytes(digest[4:8], "big") or 1)


def prove(recorded: RecordedRun, replay: Callable[[Chance], ReplayVerdict], *, times: int) -> Proof:
    """Replay `recorded` up to `times` times, each with another hash seed and other scheduling, and say what it shows.

    A recording of which something is missing is not replayed: neither outcome would prove anything. After a departure
    up to `times` + 1 more replays tell whether the hash seed alone decides: with the recorded one all must be the same,
    and with the one that departed, threads undisturbed, it must depart again.
    """
    doubt = doubt_of(recorded)
    if doubt:
        return Proof(Replayability.CANNOT_JUDGE, doubt)
    planned = list(chances(recorded.run, times))
    trials = _tried(planned, replay)
    verdict = trials[-1].verdict
    if verdict.status is VerdictStatus.CANNOT_JUDGE:
        return Proof(Replayability.CANNOT_JUDGE, _unjudged(trials[-1]), tuple(trials), verdict.departure)
    if verdict.status is VerdictStatus.SAME:
        return _same(trials)
    return _explained(recorded.run, trials, planned, replay)


def doubt_of(recorded: RecordedRun) -> str:
    """Return why replays of this recording could prove nothing, in a sentence; "" when they can."""
    if recorded.run.status is RunStatus.PENDING:
        return "the recording has no end: its process died"
    lost = [loss for loss in recorded.losses if loss.reason in _DOUBTFUL]
    if lost:
        return f"the recording has losses: {'; '.join(losses_told(lost[:3]))}"
    for node in recorded.nodes:
        if node.outcome is not None and not node.outcome.round_trips and node.step is not None:
            return f"the result of step {node.step} ({node.name}) could not be kept whole: a replay answers with less"
    # Entries with a dot are stated limits of every recording; a whole one is a hook that did not stand.
    gaps = [
        entry.what
        for entry in recorded.run.coverage.entries
        if entry.state != "captured" and "." not in entry.what and entry.what != "processes"
    ]
    return f"a gap in coverage: {', '.join(gaps)} was not captured" if gaps else ""


def _tried(planned: list[Chance], replay: Callable[[Chance], ReplayVerdict]) -> list[Trial]:
    """Make the replays, up to the first that is not the same."""
    trials = []
    for chance in planned:
        trials.append(Trial(chance, replay(chance)))
        if trials[-1].verdict.status is not VerdictStatus.SAME:
            break
    return trials


def _same(trials: list[Trial]) -> Proof:
    verdicts = [trial.verdict for trial in trials]
    if any(verdict.tape_ended for verdict in verdicts):
        return Proof(Replayability.CANNOT_JUDGE, "the recording ends before the run did", tuple(trials))
    if any(verdict.output_same is None for verdict in verdicts):
        reason = "every step was the same, but the outcome could not be compared: it was not kept whole"
        return Proof(Replayability.CANNOT_JUDGE, reason, tuple(trials))
    first = verdicts[0]
    reason = (
        f"{_times(len(trials))}, each with another hash seed and other scheduling: "
        f"the same {first.steps_recorded} steps, the same outcome"
    )
    notes = []
    if first.volatile:
        notes.append(f"not compared: {', '.join(first.volatile)}")
    if any(verdict.order_not_imposed for verdict in verdicts):
        notes.append("the recorded order of concurrent steps was not imposed everywhere")
    return Proof(Replayability.PROVEN, "; ".join([reason, *notes]), tuple(trials))


def _explained(
    run: Run, trials: list[Trial], planned: list[Chance], replay: Callable[[Chance], ReplayVerdict]
) -> Proof:
    """Find out whether the hash seed, the scheduling or neither makes a replay depart."""
    departure = trials[-1].verdict.departure
    place = _place(departure)
    if not run.hash_seed.isdecimal():
        reason = f"{place}; its hash seed was not recorded (PYTHONHASHSEED was not set), so it cannot be had again"
        return Proof(Replayability.DEPARTS, reason, tuple(trials), departure)
    pinned = _tried([Chance(run.hash_seed, chance.shuffle) for chance in planned], replay)
    trials = [*trials, *pinned]
    verdict = pinned[-1].verdict
    if verdict.status is VerdictStatus.SAME:
        return _seed_or_race(trials, departure, replay)
    if verdict.status is VerdictStatus.CANNOT_JUDGE:
        return Proof(Replayability.CANNOT_JUDGE, _unjudged(pinned[-1]), tuple(trials), departure)
    undisturbed = Trial(Chance(run.hash_seed), replay(Chance(run.hash_seed)))
    if undisturbed.verdict.status is VerdictStatus.SAME:
        why = f"undisturbed it is the same: {_RACE}"
    elif any(trial.verdict.status is VerdictStatus.SAME for trial in trials):
        why = f"other replays of the same code are the same: {_RACE}"
    else:
        why = "it does so undisturbed too: the code, or something that is not on the tape, is not as it was"
    return Proof(
        Replayability.DEPARTS,
        f"{_place(verdict.departure)}; {why}",
        (*trials, undisturbed),
        verdict.departure,
    )


def _seed_or_race(trials: list[Trial], departure: Departure | None, replay: Callable[[Chance], ReplayVerdict]) -> Proof:
    """Tell the hash seed from a race that the recorded seed met with luck: the seed alone must bring it out again."""
    seed = next(trial.chance.hash_seed for trial in trials if trial.verdict.status is not VerdictStatus.SAME)
    alone = Trial(Chance(seed), replay(Chance(seed)))
    tried = (*trials, alone)
    if alone.verdict.status is VerdictStatus.SAME:
        reason = f"{_place(departure)}, but with the same hash seed and undisturbed threads it is the same: {_RACE}"
        return Proof(Replayability.DEPARTS, reason, tried, departure)
    reason = (
        f"with another hash seed {_place(departure)}; with the recorded one it is the same: the order of a set decides"
    )
    return Proof(Replayability.RECORDED_SEED, reason, tried, departure)


def _unjudged(trial: Trial) -> str:
    return trial.verdict.reason or "a replay gave no verdict"


def _place(departure: Departure | None) -> str:
    if departure is None:
        return "it departs"
    where = "at a call that is not on the tape" if departure.step is None else f"at step {departure.step}"
    return f"it departs {where}" + (f" ({departure.message})" if departure.message else "")


def _times(count: int) -> str:
    return "1 offline replay" if count == 1 else f"{count} offline replays"
