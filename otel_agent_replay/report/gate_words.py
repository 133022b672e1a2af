"""What is worth saying of one case of a gate, line by line: the same words on every page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from otel_agent_replay.gate import InvariantResult, State
from otel_agent_replay.gate.verdict import CaseVerdict, Means, Reason, Trial
from otel_agent_replay.report.safe_text import value_text

MOST_EVIDENCE = 3
_VALUE = 200

NEXT = {
    Reason.DEPARTED: "let it go on live: --candidate model=NEW or --live (`--plan` says first what that costs)",
    Reason.OVER_BUDGET: "raise --budget, or accept what was decided with --update and gate that offline",
    Reason.FLAKY: "raise --repeats until the interval tells",
    Reason.TAMPERED: "restore the folder, or say that it is meant: `agent-replay case seal`",
    Reason.INVARIANT_REMOVED: "restore it, or say that it is meant: `agent-replay case seal`",
    Reason.ACCEPTS_BAD: "`agent-replay case check` shows what a case notices, `case suggest` what it could",
    Reason.NO_INVARIANT: "state under `expect:` what must hold; `agent-replay case suggest` proposes it",
}
"""What to do about a reason."""


def row_sentence(row: CaseVerdict) -> str:
    """Return what came of a case: how it stands, why, and how that is known."""
    told = f"{row.standing}: {row.reason}"
    if row.detail:
        told += f" ({row.detail})"
    return told


def means_told(row: CaseVerdict) -> str:
    """Return how it was decided, in a few words; "" where nothing was run."""
    if not row.trials:
        return ""
    shown = row.trials[0]
    words = {
        Means.EXACT: "exact, offline",
        Means.LIVE: f"live from step {shown.step}",
        Means.RERUN: "run again from step 1",
        Means.COMPONENT: "on its fixtures",
        Means.RECORDED: "recorded before, nothing ran",
    }
    told = words.get(shown.means, str(shown.means))
    if len(row.trials) > 1:
        told += f", {len(row.trials)} times"
    return f"{told}, against the accepted run" if row.baseline else told


def case_lines(row: CaseVerdict) -> list[str]:
    """Return what changed for the invariants of a case, what breaks them, and what to do; [] where all is said."""
    lines = []
    if row.mended:
        lines.append(f"mended: {', '.join(row.mended)}")
    if row.newly_broken:
        lines.append(f"newly broken: {', '.join(row.newly_broken)}")
    if len(row.trials) > 1:
        lines.append(f"rate: {row.rate.told()}")
    shown = row.shown
    if shown is not None and row.reason is not Reason.HELD:
        lines += trial_lines(shown)
    lines += list(dict.fromkeys(trial.judged for trial in row.trials if trial.judged))
    if row.reason in NEXT:
        lines.append(f"next: {NEXT[row.reason]}")
    return lines


def trial_lines(trial: Trial) -> list[str]:
    """Return what a trial breaks, with the evidence, and where it departed."""
    lines = [line for one in trial.results if one.state is not State.HELD for line in invariant_lines(one)]
    if trial.step is not None:
        lines.append(f"departs from its recording at step {trial.step}")
    lines += [f"  {difference}" for difference in trial.told]
    if trial.comparison is not None:
        lines.append(trial.comparison.sentence)
    return lines


def invariant_lines(result: InvariantResult) -> Iterator[str]:
    """Yield an invariant that does not hold, why it is there, and what shows it."""
    why = f" ({result.invariant.why})" if result.invariant.why else ""
    yield f"{result.state}: {result.invariant.name}{why}"
    for one in result.evidence[:MOST_EVIDENCE]:
        where = f"step {one.step}: " if one.step is not None else ""
        values = [
            f"{name} {value_text(value, _VALUE)}"
            for name, value in (("expected", one.expected), ("came", one.actual))
            if value is not None
        ]
        yield f"  {where}{one.told}" + (f": {', '.join(values)}" if values else "")
    more = len(result.evidence) - MOST_EVIDENCE
    if more > 0:
        yield f"  and {more} more"
