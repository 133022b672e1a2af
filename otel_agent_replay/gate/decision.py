"""From what a trial did to its reason. Pure: the case, the run as recorded, and the run that came."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay.gate.case import Case
from otel_agent_replay.gate.result import InvariantResult, State
from otel_agent_replay.gate.stated import Rule
from otel_agent_replay.gate.verdict import Reason
from otel_agent_replay.model import RecordedRun, RunStatus

_NEVER_AGAIN = frozenset({Rule.MUST_NOT_CALL, Rule.AT_MOST_ONCE, Rule.ONLY, Rule.BUDGET})
"""Rules that stay broken however a run goes on."""


def whole_run(
    case: Case, recorded: RecordedRun, came: RecordedRun, results: Sequence[InvariantResult]
) -> tuple[Reason, str]:
    """Return the reason and detail of a trial that came to its end.

    A run that raises where the recorded one did not has failed, unless the case says how it must end.
    """
    broken = [one for one in results if one.state is State.BROKEN]
    if broken:
        return Reason.BROKEN, _names(broken)
    states_end = any(one.rule in (Rule.OUTCOME, Rule.ERROR) for one in case.invariants)
    if came.run.status is RunStatus.ERROR and recorded.run.status is not RunStatus.ERROR and not states_end:
        return Reason.FAILED, _failure(came)
    unknown = [one for one in results if one.state is State.UNKNOWN]
    return (Reason.UNDECIDED, _names(unknown)) if unknown else (Reason.HELD, "")


def part_of_run(results: Sequence[InvariantResult], otherwise: Reason, why: str) -> tuple[Reason, str]:
    """Return the reason and detail of a trial that stopped on its way: broken where nothing later could mend it."""
    broken = [one for one in results if one.state is State.BROKEN and one.invariant.rule in _NEVER_AGAIN]
    return (Reason.BROKEN, _names(broken)) if broken else (otherwise, why)


def _names(results: Sequence[InvariantResult]) -> str:
    return ", ".join(one.invariant.name for one in results)


def _failure(came: RecordedRun) -> str:
    for node in came.nodes:
        failure = None if node.outcome is None or len(node.path) > 1 else node.outcome.failure
        if failure is not None:
            return f"{failure.type}: {failure.message}"
    return "it raised where the recorded run did not"
