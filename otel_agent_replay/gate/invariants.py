"""Whether the invariants of a case hold of a recorded run. Pure: a case and a run in, one result an invariant out.

Owns which module judges which form. An invariant that the recording cannot decide is unknown, which is no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_agent_replay.gate import call_rules, end_rules
from otel_agent_replay.gate.case import Case
from otel_agent_replay.gate.facts import RunFacts
from otel_agent_replay.gate.result import Evidence, InvariantResult, State
from otel_agent_replay.gate.stated import Invariant, Query, Rule
from otel_agent_replay.model import RecordedRun

Rows = Callable[[str], Sequence[Mapping[str, Any]]]
"""Runs SQL over the views of one run and returns the rows; raises ValueError for SQL that is wrong."""

_Judged = tuple[State, Sequence[Evidence]]
_MOST_ROWS = 5


def check(case: Case, recorded: RecordedRun, *, rows: Rows | None = None) -> list[InvariantResult]:
    """Return what came of each invariant of the case, in its order.

    `rows` answers `sql` invariants; without it they are unknown.
    """
    facts = RunFacts.of(recorded)
    return [InvariantResult(one, *_judged(one, facts, rows)) for one in case.invariants]


def _judged(invariant: Invariant, facts: RunFacts, rows: Rows | None) -> _Judged:
    spec: Any = invariant.spec
    if invariant.rule is Rule.SQL:
        return _query(spec, rows)
    return _JUDGES[invariant.rule](spec, facts)


def _query(query: Query, rows: Rows | None) -> _Judged:
    if rows is None:
        return State.UNKNOWN, [Evidence("nobody was there to run the query")]
    try:
        found = rows(query.sql)
    except ValueError as error:
        return State.UNKNOWN, [Evidence(f"the query is wrong: {error}")]
    if not found:
        return State.HELD, []
    shown = [Evidence(f"row {number}", actual=dict(row)) for number, row in enumerate(found[:_MOST_ROWS], 1)]
    return State.BROKEN, [Evidence(f"the query returns {len(found)} rows, none may come"), *shown]


_JUDGES: Mapping[Rule, Callable[[Any, RunFacts], _Judged]] = {
    Rule.OUTCOME: end_rules.outcome,
    Rule.ERROR: end_rules.error,
    Rule.RESULT: end_rules.result,
    Rule.FINAL_STATE: end_rules.final_state,
    Rule.TRANSITIONS: end_rules.transitions,
    Rule.MUST_CITE: end_rules.must_cite,
    Rule.MUST_REFUSE: end_rules.must_refuse,
    Rule.BUDGET: end_rules.budget,
    Rule.MUST_CALL: call_rules.must_call,
    Rule.MUST_NOT_CALL: call_rules.must_not_call,
    Rule.ORDER: call_rules.order,
    Rule.AT_MOST_ONCE: call_rules.at_most_once,
    Rule.ONLY: call_rules.only,
    Rule.OBJECT_ID: call_rules.object_id,
}
