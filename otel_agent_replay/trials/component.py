"""A case tried by its component run: the orchestrator on prepared answers, in virtual time."""

from __future__ import annotations

from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.gate import Evidence, Invariant, InvariantResult, Rule, State
from otel_agent_replay.gate.verdict import Means, Reason, Trial
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.launch import DEFAULT_TIMEOUT_S, run_in_child
from otel_agent_replay.replay.component.result import ComponentStatus
from otel_agent_replay.trials.options import TrialOptions
from otel_agent_replay.trials.subject import Subject

_CHECKED = frozenset({Rule.OUTCOME, Rule.ERROR, Rule.RESULT, Rule.FINAL_STATE, Rule.TRANSITIONS, Rule.AT_MOST_ONCE})
"""Rules that a component run checks by itself; what else a case states stays unknown there, which is no pass."""

_REASONS = {
    ComponentStatus.HOLDS: Reason.HELD,
    ComponentStatus.BROKEN: Reason.COMPONENT,
    ComponentStatus.CANNOT_JUDGE: Reason.NOT_REPLAYED,
}


def component_trial(subject: Subject, options: TrialOptions) -> Trial:
    """Run the component of a case and hold what came against it."""
    if not subject.case.content.get("fixtures"):
        return Trial(Means.COMPONENT, Reason.NOT_REPLAYED, "case.yaml has no fixtures: nothing answers")
    try:
        result = run_in_child(
            Case.load(subject.case.folder),
            isolate=options.isolate,
            timeout_s=options.timeout_s or DEFAULT_TIMEOUT_S,
            limits=options.limits,
        )
    except AgentReplayError as error:
        return Trial(Means.COMPONENT, Reason.NOT_REPLAYED, str(error))
    reason, told = _REASONS[result.status], result.told()
    detail = told[0] if told else ""
    results = []
    if reason is Reason.HELD:
        results = [_of(one) for one in subject.case.invariants]
        unknown = [one.invariant.name for one in results if one.state is State.UNKNOWN]
        if unknown:
            reason, detail = Reason.UNDECIDED, f"a component run does not check {', '.join(unknown)}"
    return Trial(Means.COMPONENT, reason, detail, results, told=told)


def _of(invariant: Invariant) -> InvariantResult:
    if invariant.rule in _CHECKED:
        return InvariantResult(invariant, State.HELD)
    return InvariantResult(invariant, State.UNKNOWN, [Evidence("a component run does not check it")])
