"""Invariants over calls: held, broken or unknown, with the step that shows it."""

from __future__ import annotations

import dataclasses

import pytest

from otel_agent_replay.gate import Case, check
from otel_agent_replay.model import Loss, LossReason, RunStatus
from tests.support.case_runs import EXTERNAL, WRITE, Desk, bad_run, case_of, good_run, state_of

REFUND = {"tool": "refund", "arguments": {"order.id": "17"}}


def broken(run, **stated):
    (result,) = check(case_of(**stated), run)
    assert result.state.value == "broken", result
    return result.evidence


def test_a_call_that_was_made_satisfies_must_call():
    """must_call holds of a call by name, by pattern, by a path into its arguments and by its result."""
    run = good_run()
    for wanted in (
        "refund",
        "re*d",
        REFUND,
        {"tool": "refund", "arguments": {"order": {"id": "17"}}},
        {"tool": "refund", "arguments": {"cents": {"$above": 4000, "$below": 5000}}},
        {"tool": "lookup", "result": {"cents": 4900}},
        {"checkpoint": "REFUNDED"},
        {"asks": "refund", "arguments": {"order.id": {"$in": ["16", "17"]}}},
        {"model": "gpt-4o", "times": {"at_least": 3}},
    ):
        assert state_of(run, must_call=[wanted]) == "held", wanted


def test_a_call_with_other_arguments_is_shown_as_the_near_one():
    """must_call is broken by a call with other arguments, and its evidence has that call with both values."""
    first, near = broken(bad_run(), must_call=[REFUND])[:2]
    assert "called 0 times" in first.told
    assert (near.step, near.expected, near.actual) == (5, {"order.id": "17"}, {"order": {"id": "71"}, "cents": 9900})


def test_a_number_and_a_text_are_two_values():
    """An id given as a number is not the id given as a text, and 1 is not true."""
    run = Desk().call("refund", {"order_id": 17, "now": 1}).says("ok")
    assert state_of(run, must_call=[{"tool": "refund", "arguments": {"order_id": "17"}}]) == "broken"
    assert state_of(run, must_call=[{"tool": "refund", "arguments": {"now": True}}]) == "broken"


def test_times_bounds_how_often():
    """must_call with times is broken by one call more or fewer."""
    assert state_of(bad_run(), must_call=[{"tool": "refund", "times": 2}]) == "held"
    assert state_of(bad_run(), must_call=[{"tool": "refund", "times": 1}]) == "broken"
    assert state_of(bad_run(), must_call=[{"tool": "refund", "times": {"at_least": 3}}]) == "broken"
    assert state_of(bad_run(), must_call=[{"tool": "refund", "times": {"at_most": 1}}]) == "broken"


def test_must_not_call_is_broken_where_it_was_called():
    """must_not_call names the step of the forbidden call."""
    assert state_of(good_run(), must_not_call=["send_*"]) == "held"
    assert broken(bad_run(), must_not_call=["send_*"])[0].step == 7
    over = {"tool": "refund", "arguments": {"cents": {"$above": 5000}}}
    assert state_of(good_run(), must_not_call=[over]) == "held"
    assert state_of(bad_run(), must_not_call=[over]) == "broken"


def test_order_wants_the_first_to_have_ended():
    """Order holds when the first ended before the second began, and is broken by a swap, an overlap or its absence."""
    assert state_of(good_run(), order=["check_policy", "refund"]) == "held"
    assert state_of(good_run(), order=["refund", "check_policy"]) == "broken"
    assert state_of(bad_run(), order=["check_policy", "refund"]) == "broken"
    run = good_run()
    spans = [
        dataclasses.replace(item, node=dataclasses.replace(item.node, end_sequence=99))
        if item.node.name == "check_policy"
        else item
        for item in run.spans
    ]
    assert state_of(dataclasses.replace(run, spans=spans), order=["check_policy", "refund"]) == "broken"


def test_order_says_nothing_of_calls_that_are_not_made():
    """A second that never comes breaks no order: must_call is there for that."""
    assert state_of(good_run(), order=["check_policy", "send_mail"]) == "held"


def test_an_effect_may_not_happen_twice():
    """Two equal refunds without a key break the case, without any word in it; one key for both does not."""
    default = Case.of({"expect": {"must_call": ["lookup"]}}, case_of().folder)
    found = {result.invariant.name: result for result in check(default, bad_run())}
    assert found["no effect twice"].state.value == "broken"
    assert [one.step for one in found["no effect twice"].evidence] == [6, 5]
    twice = Desk().call("refund", {"id": 1}, effect=WRITE, key="k").call("refund", {"id": 1}, effect=WRITE, key="k")
    assert state_of(twice.says("ok"), effects={"at_most_once": True}) == "held"


def test_a_retry_after_a_timeout_leaves_the_effect_in_doubt():
    """An effect that failed on the way and was made again is unknown; one that never reached anybody is no effect."""
    args = {"id": 1}
    timed_out = Desk().fails("refund", args).call("refund", args, effect=WRITE)
    assert state_of(timed_out.says("ok"), effects={"at_most_once": True}) == "unknown"
    refused = Desk().fails("refund", args, "builtins:ConnectionRefusedError").call("refund", args, effect=WRITE)
    assert state_of(refused.says("ok"), effects={"at_most_once": True}) == "held"


def test_at_most_once_goes_by_the_arguments_that_count():
    """Two calls with equal `by` arguments are the same call, whatever else differs."""
    run = Desk().call("hold", {"seat": "1A", "at": 1}).call("hold", {"seat": "1A", "at": 2}).says("ok")
    assert state_of(run, at_most_once=["hold"]) == "held"
    assert state_of(run, at_most_once=[{"tool": "hold", "by": ["seat"]}]) == "broken"


def test_only_lists_all_effects_that_may_happen():
    """An effect that is not listed breaks `only`; reads do not."""
    assert state_of(good_run(), only=[REFUND]) == "held"
    assert state_of(good_run(), only=[]) == "broken"
    assert broken(bad_run(), only=["refund"])[0].step == 7


def test_an_object_is_named_by_every_call():
    """object_id is broken by a call on another object, given as a value or as what the run's input has."""
    by_value = {"call": "refund", "path": "order.id", "equals": "17"}
    by_input = {"call": "refund", "path": "order.id", "same_as": "order_id"}
    for wanted in (by_value, by_input):
        assert state_of(good_run(), object_id=[wanted]) == "held"
        (evidence,) = broken(bad_run(), object_id=[wanted])
        assert (evidence.expected, evidence.actual) == ("17", "71")


LOST = (Loss(LossReason.DROPPED, "span", 2),)


@pytest.mark.parametrize(
    "stated",
    [
        {"must_call": ["nobody"]},
        {"must_not_call": ["nobody"]},
        {"order": ["nobody", "lookup"]},
        {"only": ["refund"]},
        {"at_most_once": ["lookup"]},
    ],
)
def test_what_may_have_been_lost_is_unknown(stated):
    """Where the recording lost spans, nothing is said to be absent."""
    assert state_of(dataclasses.replace(good_run(), losses=LOST), **stated) == "unknown"


def test_arguments_that_were_not_kept_are_unknown():
    """A call whose arguments are a digest only may be the one that is meant: neither held nor broken."""
    desk = Desk().call("refund", {"order": {"id": "17"}}, effect=WRITE)
    run = desk.without(desk.members[-1].node.call.request).says("ok")
    assert state_of(run, must_call=["refund"]) == "held"
    assert state_of(run, must_call=[REFUND]) == "unknown"
    assert state_of(run, must_not_call=[REFUND]) == "unknown"
    assert state_of(run, only=[REFUND]) == "unknown"
    assert state_of(run, object_id=[{"call": "refund", "path": "order.id", "equals": "17"}]) == "unknown"


def test_a_run_that_never_ended_may_still_call():
    """must_call of a run whose recording has no end is unknown where the call is not there, held where it is."""
    run = Desk().call("lookup", {}).says("", status=RunStatus.PENDING)
    assert state_of(run, must_call=["lookup"]) == "held"
    assert state_of(run, must_call=["refund"]) == "unknown"


def test_what_a_tool_does_below_itself_is_part_of_it():
    """The HTTP exchange of a tool is no effect of its own beside the tool's."""
    desk = Desk().call("refund", {"id": 1}, effect=WRITE).call("POST pay.test/refunds", {"id": 1}, effect=EXTERNAL)
    run = desk.says("ok")
    tool, inner = run.spans[1].node, run.spans[2].node
    inner = dataclasses.replace(inner, path=(*tool.path, inner.path[-1]))
    spans = [*run.spans[:2], dataclasses.replace(run.spans[2], node=inner)]
    assert state_of(run, only=["refund"]) == "broken"
    assert state_of(dataclasses.replace(run, spans=spans), only=["refund"]) == "held"
