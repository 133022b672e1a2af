"""Invariants over a run's end, its states, what it cites, what it used, and queries."""

from __future__ import annotations

import dataclasses

import pytest

from otel_agent_replay.gate import check
from otel_agent_replay.model import Loss, LossReason, RunStatus
from tests.support.case_runs import Desk, bad_run, case_of, good_run, state_of, states_of

FORBIDDEN = {"forbidden": ["WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE"]}


def test_outcome_result_and_final_state():
    """What is expected of the end is compared with it: status, what the result holds, the last state."""
    run = good_run()
    assert state_of(run, outcome="ok") == "held"
    assert state_of(run, outcome="error") == "broken"
    assert state_of(run, result={"$matches": "policy-7"}) == "held"
    assert state_of(run, result="Done.") == "broken"
    assert state_of(run, final_state="REFUNDED") == "held"
    assert state_of(run, final_state={"status": "REFUNDED"}) == "held"
    assert state_of(bad_run(), final_state="REFUNDED") == "broken"
    assert state_of(Desk().says("ok"), final_state="REFUNDED") == "unknown"


def test_a_forbidden_change_of_state_is_broken_at_its_step():
    """WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE is found by the names of checkpoints and by a path in their states."""
    for more in ({}, {"state": "status"}):
        (result,) = check(case_of(transitions={**FORBIDDEN, **more}), bad_run())
        assert result.state.value == "broken"
        assert result.evidence[0].step == 4
        assert "WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE is forbidden" in result.evidence[0].told
        assert state_of(good_run(), transitions={**FORBIDDEN, **more}) == "held"


def test_changes_that_are_not_allowed_and_effects_after_the_end():
    """A change outside `allowed` is broken, and so is an effect after a terminal or a failed state."""
    assert state_of(good_run(), transitions={"allowed": ["CHECKING -> REFUNDED"]}) == "held"
    assert state_of(bad_run(), transitions={"allowed": ["CHECKING -> REFUNDED"]}) == "broken"
    assert state_of(bad_run(), transitions={"terminal": ["AUTO_EXECUTE"]}) == "broken"
    assert state_of(bad_run(), transitions={"failed": ["AUTO_EXECUTE"]}) == "broken"
    assert state_of(good_run(), transitions={"terminal": ["REFUNDED"]}) == "held"


def test_states_that_nobody_told_are_unknown():
    """Without a checkpoint no transition is held."""
    assert state_of(Desk().says("ok"), transitions=FORBIDDEN) == "unknown"


def test_a_source_must_be_named_and_where_wanted_read():
    """must_cite is broken where the answer does not name it, and where nothing that the run read holds it."""
    assert state_of(good_run(), must_cite=["policy-7"]) == "held"
    assert state_of(bad_run(), must_cite=["policy-7"]) == "broken"
    read = {"source": "policy-7", "retrieved": True}
    assert state_of(good_run(), must_cite=[read]) == "held"
    assert state_of(Desk().says("policy-7 says so"), must_cite=[read]) == "broken"


@pytest.mark.parametrize(("text", "came"), [("I cannot do that.", "held"), ("Done.", "broken")])
def test_a_refusal_makes_no_effect_and_says_so(text, came):
    """must_refuse holds of a worded refusal without effects."""
    assert state_of(Desk().asks(text=text, finish="stop").says(text), must_refuse=True) == came


def test_a_refusal_beside_an_effect_is_none():
    """must_refuse is broken by any effect, whatever is said."""
    run = Desk().call("refund", {}, effect=good_run().spans[6].node.side_effect).says("I cannot do that.")
    assert state_of(run, must_refuse=True) == "broken"


def test_a_filtered_answer_is_a_refusal():
    """A model answer that its provider's filter cut is a refusal without any word."""
    run = Desk().asks(text="", finish="content_filter").says("")
    assert state_of(run, must_refuse=True) == "held"
    assert state_of(run, must_refuse={"says": "sorry"}) == "broken"


def test_ceilings_are_broken_by_what_was_used():
    """Each measure of the budget is compared with the run's own sum."""
    run = good_run()
    held = {"tokens": 45, "input_tokens": 30, "output_tokens": 15, "cost_usd": 0.75, "steps": 8, "model_calls": 3}
    assert set(states_of(run, budget={**held, "seconds": "1m"})) == {"held"}
    for measure, most in held.items():
        assert state_of(run, budget={measure: most - 0.5 if measure == "cost_usd" else most - 1}) == "broken"
    assert state_of(run, budget={"seconds": "1ms"}) == "broken"


def test_what_a_call_did_not_tell_is_unknown():
    """A sum with a hole is unknown under the ceiling, and broken where the rest is above it."""
    run = Desk().asks(text="a").asks(text="b", cost=None).says("b")
    assert state_of(run, budget={"cost_usd": 1}) == "unknown"
    assert state_of(run, budget={"cost_usd": 0.1}) == "broken"


def test_a_query_must_return_no_row():
    """Sql is held by no row, broken by rows that are shown, unknown where nobody runs it or where it is wrong."""

    def wrong(query):
        raise ValueError("no such view")

    stated = {"sql": [{"name": "no dear refunds", "query": "SELECT 1"}]}
    assert state_of(good_run(), rows=lambda query: [], **stated) == "held"
    (result,) = check(case_of(**stated), good_run(), rows=lambda query: [{"cents": 9900}])
    assert (result.state.value, result.invariant.name) == ("broken", "no dear refunds")
    assert result.evidence[1].actual == {"cents": 9900}
    assert state_of(good_run(), **stated) == "unknown"
    assert state_of(good_run(), rows=wrong, **stated) == "unknown"


def test_an_end_that_is_not_there_is_unknown():
    """Of a run without an end nothing is said about it."""
    run = Desk().state("REFUNDED").says("", status=RunStatus.PENDING)
    for stated in ({"outcome": "ok"}, {"final_state": "REFUNDED"}, {"must_cite": ["x"]}, {"must_refuse": True}):
        assert state_of(run, **stated) == "unknown", stated


def test_states_that_may_be_lost_are_unknown():
    """With spans lost, the last state that is there need not be the last one."""
    run = dataclasses.replace(good_run(), losses=(Loss(LossReason.TORN, "frame"),))
    assert state_of(run, final_state="REFUNDED") == "unknown"
