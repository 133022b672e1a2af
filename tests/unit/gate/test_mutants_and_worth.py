"""Mutants of a run, what kills them, and what a case is worth."""

from __future__ import annotations

from dataclasses import replace

import yaml

from otel_agent_replay.gate import CaseKind, check
from otel_agent_replay.gate.manifest import Tampered, Tampering
from otel_agent_replay.gate.mutants import Mutation, mutants_of
from otel_agent_replay.gate.skeleton import skeleton
from otel_agent_replay.gate.suggesting import merged, suggest
from otel_agent_replay.gate.worth import Held, Worth, try_mutants, worth_of
from otel_agent_replay.model import RunStatus
from tests.support.case_runs import WRITE, Desk, bad_run, case_of, good_run

CATCHES = {
    Mutation.DROPPED: {"must_call": ["check_policy"]},
    Mutation.ARGUMENT: {"must_call": [{"tool": "refund", "arguments": {"cents": 4900}}]},
    Mutation.REPEATED: {"effects": {"at_most_once": True}},
    Mutation.SWAPPED: {"order": ["check_policy", "refund"]},
    Mutation.ANSWER: {"must_cite": ["policy-7"]},
}


def tried(stated):
    case = case_of(**stated)
    run = good_run()
    return try_mutants(run, check(case, run), lambda mutant: check(case, mutant))


def test_each_kind_of_mutant_is_made_and_can_be_killed():
    """Of every mutation there is one, and an invariant made for it kills it while others survive."""
    found = mutants_of(good_run())
    assert {one.mutation for one in found} == set(Mutation)
    for mutation, stated in CATCHES.items():
        killed = {one.mutant.mutation for one in tried(stated) if one.killed_by}
        assert mutation in killed, mutation
        assert any(not one.killed_by for one in tried(stated)), mutation


def test_what_was_broken_already_kills_nothing():
    """A mutant is killed by an invariant that its original kept, not by one that is always broken."""
    assert not any(one.killed_by for one in tried({"must_call": ["nobody"]}))


def test_a_repeated_write_has_no_key_and_a_swap_wants_two_names():
    """Reads are not repeated; two calls of one tool are not swapped."""
    run = Desk().call("look", {"n": 1}).call("look", {"n": 2}).says("ok")
    kinds = {one.mutation for one in mutants_of(run)}
    assert Mutation.REPEATED not in kinds
    assert Mutation.SWAPPED not in kinds


def test_many_mutants_are_drawn_evenly_from_every_kind():
    """With a bound, each kind keeps some."""
    desk = Desk()
    for number in range(60):
        desk.call(f"tool_{number}", {"n": number}, effect=good_run().spans[6].node.side_effect)
    found = mutants_of(desk.says("ok"), most=40)
    assert 20 <= len(found) <= 45
    assert {one.mutation for one in found} == set(Mutation)


def held(bad, **stated):
    run = bad_run() if bad else good_run()
    return Held("", bad, check(case_of(**stated), run))


def test_a_case_is_sound_when_it_tells_its_runs_apart():
    """It rejects the bad run and accepts the good one; else it says which it does not."""
    policy = {"must_call": ["check_policy"]}
    assert worth_of([held(True, **policy), held(False, **policy)], ()) is Worth.SOUND
    assert worth_of([held(True, must_call=["lookup"])], ()) is Worth.ACCEPTS_BAD
    nobody = {"must_call": ["nobody"]}
    assert worth_of([held(True, **nobody), held(False, **nobody)], ()) is Worth.REJECTS_GOOD
    assert worth_of([held(True, **policy)], [Tampering(Tampered.FILE_ALTERED, "x")]) is Worth.TAMPERED


def test_unknown_is_neither_rejected_nor_accepted():
    """A run of which nothing is known for sure leaves the case undecided."""
    run = Desk().says("", status=RunStatus.PENDING)
    results = check(case_of(must_call=["check_policy"]), run)
    assert worth_of([Held("", True, results)], ()) is Worth.UNKNOWN
    assert worth_of([Held("", False, results)], ()) is Worth.UNKNOWN
    assert worth_of([], ()) is Worth.UNKNOWN


def test_suggestions_hold_of_the_good_and_are_broken_by_the_bad():
    """Each suggestion, and all of them merged, tells the runs apart, and what was wrong is among them."""
    good = [good_run(), good_run(5)]
    found = suggest(bad_run(), good)
    whole = merged(found)
    case = case_of(effects=whole["effects"], transitions=whole["transitions"], **whole["expect"])
    for run in good:
        assert {one.state.value for one in check(case, run)} == {"held"}
    assert {one.state.value for one in check(case, bad_run())} == {"broken"}
    assert {one.invariant.rule.value for one in check(case, bad_run())} >= {
        "transitions", "must_call", "must_not_call", "order", "only", "object_id", "at_most_once", "must_cite",
        "final_state",
    }  # fmt: skip


def raced_run(number: int):
    """Two look-ups of one turn, each in a thread of its own, one over before the other by luck; then the refund."""
    desk = Desk(number)
    desk.asks(("lookup", {"order_id": "17"}), ("parcel", {"order_id": "17"}))
    strands = {"lookup": "1", "parcel": "2", "refund": "3"}
    desk.call("lookup", {"order_id": "17"}, {"id": "17"})
    desk.call("parcel", {"order_id": "17"}, "lost")
    desk.asks(("refund", {"cents": 4900}))
    desk.call("refund", {"cents": 4900}, {"state": "done"}, WRITE)
    desk.members = [
        one if one.node is None else replace(one, node=replace(one.node, strand=strands.get(one.node.name, "")))
        for one in desk.members
    ]
    return desk.says("Done.")


def test_no_order_is_mined_from_a_race():
    """Of calls that threads made side by side none is stated to come first, what is waited for is stated."""
    stated = yaml.safe_load(skeleton(raced_run(1), CaseKind.CONTROL, name="raced"))["expect"]["order"]
    assert stated == [{"tool": "lookup"}, {"tool": "refund"}]
    hasty = Desk(3).call("parcel", {"order_id": "17"}).call("refund", {"cents": 4900}, effect=WRITE)
    hasty.call("lookup", {"order_id": "17"})
    expected = [one.content.get("expect", {}) for one in suggest(hasty.says("Done."), [raced_run(1), raced_run(2)])]
    assert [one["order"] for one in expected if "order" in one] == [[{"tool": "lookup"}, {"tool": "refund"}]]


def test_nothing_is_suggested_where_nothing_differs():
    """Of a run and itself nothing is told, nor without any good run."""
    assert suggest(good_run(), [good_run()]) == []
    assert suggest(bad_run(), []) == []
