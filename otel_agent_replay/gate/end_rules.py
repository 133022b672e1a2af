"""Invariants over how a run ends and what it went through: outcome, states, citations, refusal, budget. Pure.

Each function returns the state and the evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from otel_agent_replay.casefile.transitions import Transitions
from otel_agent_replay.gate.facts import ASKS, MISSING, UNREAD, Made, RunFacts
from otel_agent_replay.gate.pattern import matches
from otel_agent_replay.gate.result import Evidence, State
from otel_agent_replay.gate.stated import Budget, Citation, Expected, Refusal

_Judged = tuple[State, Sequence[Evidence]]
_ERROR = "error"
_LONGEST = 300
_REFUSES = re.compile(
    r"\b(can(?:no|')t|cannot|can not|unable to|not able to|won't|will not|not allowed|not permitted|not authori[sz]ed|"
    r"declin\w+|refus\w+|denied)\b",
    re.IGNORECASE,
)


def outcome(wanted: Expected, facts: RunFacts) -> _Judged:
    """It ended that way."""
    if not facts.ended:
        return State.UNKNOWN, [Evidence("the recording has no end of the run")]
    status = facts.run.status.value
    if status == wanted.value:
        return State.HELD, []
    why = f" ({facts.error})" if facts.error else ""
    return State.BROKEN, [Evidence(f"the run ended {status}{why}", expected=wanted.value, actual=status)]


def error(wanted: Expected, facts: RunFacts) -> _Judged:
    """It ended in that class of error: Name or pkg.mod:Name."""
    if not facts.ended:
        return State.UNKNOWN, [Evidence("the recording has no end of the run")]
    short = facts.error.rpartition(":")[2].rpartition(".")[2]
    if wanted.value in (facts.error, short):
        return State.HELD, []
    return State.BROKEN, [
        Evidence("the run ended in another error", expected=wanted.value, actual=facts.error or "none")
    ]


def result(wanted: Expected, facts: RunFacts) -> _Judged:
    """Its result holds at least that."""
    if facts.output is UNREAD or not facts.ended:
        return State.UNKNOWN, [Evidence("the run's result was not kept, or it never ended")]
    if matches(facts.output, wanted.value):
        return State.HELD, []
    actual = None if facts.output is MISSING else facts.output
    return State.BROKEN, [Evidence("the result is another", expected=wanted.value, actual=actual)]


def final_state(wanted: Expected, facts: RunFacts) -> _Judged:
    """The last state is that one; or the last checkpoint's state holds at least that."""
    if not facts.checkpoints:
        return State.UNKNOWN, [Evidence("no checkpoint tells a state", expected=wanted.value)]
    if facts.hidden or not facts.ended:
        return State.UNKNOWN, [Evidence(f"later states may be missing: {facts.hidden or 'the run never ended'}")]
    last = facts.checkpoints[-1]
    named = isinstance(wanted.value, str)
    if last.arguments is UNREAD and (not named or wanted.transitions.state):
        return State.UNKNOWN, [Evidence.at(last, "the last checkpoint's state was not kept")]
    actual: Any = last.arguments
    if named:
        known = [state for _, state in _states(wanted.transitions, facts)]
        actual = known[-1] if known else MISSING
    if matches(actual, wanted.value):
        return State.HELD, [Evidence.at(last, f"the last checkpoint is {last.name}")]
    return State.BROKEN, [Evidence.at(last, "the last state is another", expected=wanted.value, actual=actual)]


def transitions(wanted: Transitions, facts: RunFacts) -> _Judged:
    """Every change of state is right, nothing follows a terminal state, and no effect a failed one."""
    if wanted.state and any(made.arguments is UNREAD for made in facts.checkpoints):
        return State.UNKNOWN, [Evidence("the state of a checkpoint was not kept")]
    broken = [*_wrong_changes(wanted, facts), *_after_the_end(wanted, facts)]
    if broken:
        return State.BROKEN, sorted(broken, key=lambda one: one.step or 0)
    if facts.hidden:
        return State.UNKNOWN, [Evidence(f"the recording lost calls: {facts.hidden}")]
    if not facts.checkpoints:
        return State.UNKNOWN, [Evidence("no checkpoint tells a state")]
    return State.HELD, []


def must_cite(wanted: Citation, facts: RunFacts) -> _Judged:
    """The final answer names the source, and where wanted the run had read it."""
    if facts.output is UNREAD or not facts.ended:
        return State.UNKNOWN, [Evidence("the final answer was not kept, or the run never ended")]
    said = text_of(facts.output)
    if wanted.source not in said:
        return State.BROKEN, [
            Evidence("the final answer does not name it", expected=wanted.source, actual=said[:_LONGEST])
        ]
    if not wanted.retrieved:
        return State.HELD, []
    read = [made for made in facts.calls if made.kind not in ("model", "checkpoint", ASKS)]
    found = next((made for made in read if made.result is not UNREAD and wanted.source in text_of(made.result)), None)
    if found is not None:
        return State.HELD, [Evidence.at(found, f"{found.label} brought it")]
    if facts.hidden or any(made.result is UNREAD for made in read):
        return State.UNKNOWN, [Evidence("answers that may have brought it were not kept")]
    return State.BROKEN, [Evidence("it is named, but nothing that the run read holds it", expected=wanted.source)]


def must_refuse(wanted: Refusal, facts: RunFacts) -> _Judged:
    """It made no effect and ended in a refusal."""
    if facts.effects:
        made = facts.effects[0]
        return State.BROKEN, [Evidence.at(made, f"{made.label} was made instead of a refusal", actual=made.arguments)]
    if facts.hidden or not facts.ended or facts.output is UNREAD:
        return State.UNKNOWN, [Evidence("the run's end, or some of its calls, are not in the recording")]
    said = text_of(facts.output)
    if wanted.says:
        fits = re.search(wanted.says, said) is not None
        told = (
            [] if fits else [Evidence("the final answer does not say so", expected=wanted.says, actual=said[:_LONGEST])]
        )
        return (State.HELD if fits else State.BROKEN), told
    if facts.refused_by_model:
        return State.HELD, [Evidence("the model's last answer is a refusal")]
    if _REFUSES.search(said):
        return State.HELD, [Evidence("the final answer is worded as a refusal", actual=said[:_LONGEST])]
    return State.BROKEN, [Evidence("nothing in the final answer refuses", actual=said[:_LONGEST])]


def budget(wanted: Budget, facts: RunFacts) -> _Judged:
    """No more was used."""
    spent = facts.spent[wanted.measure]
    if spent.known > wanted.most:
        told = f"{wanted.measure}: {spent.known:g} used, {wanted.most:g} allowed"
        return State.BROKEN, [Evidence(told, expected=wanted.most, actual=spent.known)]
    if spent.total is None:
        return State.UNKNOWN, [Evidence(f"not every call told its {wanted.measure}; {spent.known:g} are known")]
    return State.HELD, [Evidence(f"{wanted.measure}: {spent.total:g} used, {wanted.most:g} allowed")]


def text_of(value: Any) -> str:
    """Return a value as text to search in: a text as it is, anything else as JSON."""
    if value is MISSING or value is UNREAD or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _states(wanted: Transitions, facts: RunFacts) -> list[tuple[Made | None, str]]:
    found: list[tuple[Made | None, str]] = [(None, wanted.start)] if wanted.start else []
    for made in facts.checkpoints:
        name = wanted.state_of(made.name, made.arguments)
        if name is not None:
            found.append((made, name))
    return found


def _wrong_changes(wanted: Transitions, facts: RunFacts) -> Iterator[Evidence]:
    before = ""
    for made, state in _states(wanted, facts):
        wrong = wanted.wrong_change(before, state)
        if wrong and made is not None:
            yield Evidence.at(made, f"{before} -> {state} is {wrong}", actual=f"{before} -> {state}")
        before = state


def _after_the_end(wanted: Transitions, facts: RunFacts) -> Iterator[Evidence]:
    states = {id(made): state for made, state in _states(wanted, facts) if made is not None}
    effects = {id(made) for made in facts.effects if made.outcome == "ok"}
    ended = failed = ""
    for made in facts.calls:
        state = states.get(id(made), "")
        if ended and state and state != ended:
            yield Evidence.at(made, f"the state changes to {state} after {ended}")
        if id(made) in effects and (ended or failed):
            yield Evidence.at(made, f"{made.label} happens after {ended or failed}", actual=made.arguments)
        ended = state if state in wanted.terminal else ended
        failed = state if state in wanted.failed else failed
