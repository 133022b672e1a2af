"""Lanes in numbers, and the exit code of a re-run: pure sums over results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.model import AnswerSource
from otel_agent_replay.replay.rerun.outcome import RerunResult
from otel_agent_replay.replay.rerun.plan import BASELINE, CANDIDATE, OBSERVED
from otel_agent_replay.replay.rerun.report import RerunStatus


@dataclass(frozen=True, slots=True)
class LaneTotals:
    """A lane in numbers: its re-runs, how they ended, who answered, what they used.

    `off_tape` is the share (0 to 1) of what is asked of recordings that the runs' own did not answer, None for nothing
    asked. Money in US dollars; sums are over what is known, None where nothing is.
    """

    lane: str
    runs: int
    alike: int
    statuses: tuple[tuple[str, int], ...]
    answers: tuple[tuple[str, int], ...]
    off_tape: float | None
    drifted_reads: int
    refused: int
    tokens: int | None
    cost_usd: float | None


def totals_of(results: Sequence[RerunResult]) -> list[LaneTotals]:
    """Return the lanes that have results, in their order."""
    lanes = [(lane, [one for one in results if one.lane == lane]) for lane in (OBSERVED, BASELINE, CANDIDATE)]
    return [_totals(lane, members) for lane, members in lanes if members]


def _totals(lane: str, members: Sequence[RerunResult]) -> LaneTotals:
    answers: Counter[str] = Counter()
    for one in members:
        answers.update(dict(one.answers))
    asked = sum(answers.values())
    tokens = [
        number for one in members for number in (one.use.input_tokens, one.use.output_tokens) if number is not None
    ]
    costs = [one.use.cost_usd for one in members if one.use.cost_usd is not None]
    return LaneTotals(
        lane,
        len(members),
        sum(one.alike for one in members),
        tuple(sorted(Counter(one.report.status.value for one in members).items())),
        tuple(sorted(answers.items())),
        1 - answers[AnswerSource.TAPE.value] / asked if asked else None,
        sum(len(one.report.drifted) for one in members),
        sum(len(one.report.refused) for one in members),
        sum(tokens) if tokens else None,
        sum(costs) if costs else None,
    )


def exit_code(results: Sequence[RerunResult]) -> int:
    """0 all finished alike; 1 some departed, failed, were refused or stopped; 125 none could be judged.

    The candidate's re-runs count; where there are none, the baseline's.
    """
    judged = [one for one in results if one.lane == CANDIDATE] or [one for one in results if one.lane == BASELINE]
    if all(one.report.status is RerunStatus.NOT_BEGUN for one in judged):
        return 125
    return 0 if all(one.alike for one in judged) else 1
