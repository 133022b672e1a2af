"""Counting many answers beside the recorded ones."""

from __future__ import annotations

from otel_agent_replay.compare.actions import Action, ActionKind, Stop, ToolUse, no_answer
from otel_agent_replay.compare.screening import (
    RISKS,
    ScreenedStep,
    Screening,
    StepVerdict,
    distinct_actions,
)
from otel_agent_replay.model import SideEffect

EFFECTS = {"read": SideEffect.READ, "write": SideEffect.WRITE, "think": SideEffect.NONE}
ONE, TWO = b"1" * 16, b"2" * 16


def tools(*names, **more):
    return Action(ActionKind.TOOLS, tuple(ToolUse(name, {"id": 1}) for name in names), stop=Stop.END, **more)


def text(said, **more):
    return Action(ActionKind.TEXT, text=said, stop=Stop.END, **more)


def screened(*steps, lanes=("candidate",), **options):
    """The report over steps (run, step, recorded, asked by lane), and the disagreements."""
    screening = Screening(lanes, EFFECTS, **options)
    found = [screening.add(ScreenedStep(*step)) for step in steps]
    return screening.finish(), [one for one in found if one is not None]


def step(run, number, recorded, *asked, baseline=()):
    return run, number, recorded, {"candidate": asked, "baseline": baseline}


def test_nothing_is_claimed_beyond_a_runs_first_disagreement():
    """Steps after it are counted apart, agreeing or not; the next run is in sight again."""
    report, found = screened(
        step(ONE, 1, tools("read"), tools("read")),
        step(ONE, 2, tools("read"), tools("write")),
        step(ONE, 3, tools("read"), tools("read")),
        step(ONE, 4, tools("read"), text("no")),
        step(TWO, 1, tools("read"), tools("read")),
    )
    lane = report.lanes["candidate"]
    assert (lane.tally.steps, lane.tally.agree, lane.tally.differ) == (3, 2, 1)
    assert (lane.beyond.steps, lane.beyond.agree, lane.beyond.differ) == (2, 1, 1)
    assert (lane.runs, lane.runs_whole, lane.runs_differing) == (2, 1, 1)
    assert [(one.step, one.is_first) for one in found] == [(2, True), (4, False)]
    assert lane.matches.total() == 3


def test_what_is_at_stake_is_the_riskiest_tool_of_either_side():
    """A write that the candidate adds counts, and a tool that nobody knows is external."""
    report, found = screened(
        step(ONE, 1, tools("think"), tools("think", "write")),
        step(TWO, 1, text("hello"), tools("unheard_of")),
    )
    assert [one.judged.risk for one in found] == ["write", "external"]
    report, _ = screened(
        step(ONE, 1, tools("think", "read"), tools("think", "read")), step(ONE, 2, text("a"), text("a"))
    )
    assert set(report.lanes["candidate"].by_risk) == {"read", "no tool"}
    assert RISKS == ("external", "write", "read", "none", "no tool")


def test_a_step_agrees_when_more_than_half_of_its_answers_do():
    """Two of three agree: it agrees; one of two is not more than half; answers that are none do not count."""

    def verdict(*asked):
        return Screening(["candidate"], EFFECTS).judge(tools("read"), asked).verdict

    same, other, none = tools("read"), tools("write"), no_answer("HTTP 500")
    assert verdict(same, same, other) is StepVerdict.AGREES
    assert verdict(same, other) is StepVerdict.DIFFERS
    assert verdict(same, none, none) is StepVerdict.AGREES
    assert verdict(none) is StepVerdict.NO_ANSWER
    assert verdict() is StepVerdict.NO_ANSWER


def test_the_answer_that_is_given_most_often_stands_for_the_others():
    """Of several disagreeing answers the most frequent is shown."""
    asked = [tools("write"), text("no"), text("no"), tools("read")]
    judged = Screening(["candidate"], EFFECTS).judge(tools("read"), asked)
    assert judged.typical == text("no")
    assert (judged.answers, judged.agreeing) == (4, 1)


def test_other_words_are_counted_apart_and_can_be_made_a_disagreement():
    """Text for text agrees, with its likeness summed up; beyond a wanted likeness it differs."""
    pair = step(ONE, 1, text("Your order is on its way."), text("Your order was lost."))
    lenient, found = screened(pair)
    assert (lenient.lanes["candidate"].tally.other_words, found) == (1, [])
    assert 0 < lenient.lanes["candidate"].likeness < 1
    strict, found = screened(pair, text_likeness=0.95)
    assert strict.lanes["candidate"].tally.differ == 1
    assert len(found) == 1


def test_a_run_of_which_something_is_not_known_does_not_agree():
    """A step without an answer and one that could not be asked leave a run unknown, unless it disagrees anyway."""
    screening = Screening(["candidate"], EFFECTS)
    screening.add(ScreenedStep(*step(ONE, 1, tools("read"), no_answer("HTTP 500"))))
    screening.skip(TWO, "kept by digest only")
    screening.add(ScreenedStep(*step(TWO, 2, tools("read"), tools("read"))))
    report = screening.finish()
    lane = report.lanes["candidate"]
    assert (lane.runs, lane.runs_whole, lane.runs_differing) == (2, 0, 0)
    assert lane.tally.agreement == 1, "of what was answered"
    assert report.skipped == {"kept by digest only": 1}
    assert report.unanswered == {"HTTP 500": 1}


def test_what_the_baseline_does_otherwise_too_is_noise():
    """First disagreements at steps where the recorded model differs as well are counted, and each says so."""
    report, found = screened(
        step(ONE, 1, tools("read"), tools("write"), baseline=[tools("write")]),
        step(TWO, 1, tools("read"), tools("write"), baseline=[tools("read")]),
        lanes=("candidate", "baseline"),
    )
    assert report.noise == 1
    assert [one.noise for one in found] == [True, False]
    assert report.lanes["baseline"].runs_differing == 1


def test_reasons_of_missing_answers_are_bounded():
    """Providers put ids into their errors: only so many are told apart, and none is lost."""
    steps = [step(ONE, number, text("a"), no_answer(f"request {number} failed")) for number in range(200)]
    report, _ = screened(*steps)
    assert len(report.unanswered) <= 51
    assert report.unanswered.total() == 200


def test_measures_are_summed_over_answers_that_told_them():
    """Tokens, cost and latency of each lane; how many answers had a price is known."""
    priced = text("a", input_tokens=10, output_tokens=2, cost_usd=0.5, latency_ns=4)
    report, _ = screened(step(ONE, 1, text("a"), priced, text("a")))
    measured = report.lanes["candidate"].measured
    assert (measured.answers, measured.priced, measured.cost_usd) == (2, 1, 0.5)
    assert (measured.input_tokens, measured.output_tokens, measured.latency_ns) == (10, 2, 4)


def test_distinct_actions_are_counted_the_most_frequent_first():
    """Equal actions are one group, parallel calls in any order among them."""
    groups = distinct_actions(tools("read"), [text("a"), tools("read", "write"), tools("write", "read"), text("a  ")])
    assert [group.count for group in groups] == [2, 2]
    assert distinct_actions(tools("read"), []) == []
