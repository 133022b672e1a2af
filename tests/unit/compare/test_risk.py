"""Changes are ranked by what their steps are: dropped checks and new writes first, one read fewer last."""

import pytest

from otel_agent_replay.compare import compare, expected_change, rank_changes, risk_rules
from otel_agent_replay.compare.questions import Reply
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import AnswerSource, SideEffect
from otel_agent_replay.testing.builders import run


def ranked(build_a, build_b, rules=()):
    a, b = build_a(run("desk", seed=1)).build(output="done"), build_b(run("desk", seed=2)).build(output="done")
    comparison = compare(a, b)
    return comparison, rank_changes(comparison, a, b, rules)


def desk(builder, *, searches=2, check=True, refunds=1, amount=10):
    for number in range(searches):
        builder.retrieval("orders", {"q": number}, [number])
    if check:
        builder.tool("check_permission", {"who": "me"}, True, side_effect=SideEffect.NONE)
    for _ in range(refunds):
        builder.tool("refund", {"amount": amount}, "ok", side_effect=SideEffect.WRITE)
    return builder


def test_a_dropped_check_ranks_before_a_new_write_and_a_search_fewer_is_better():
    """Of a dropped check, a second write and a missing search, they rank in this order, each with its reason."""
    _, ranks = ranked(desk, lambda b: desk(b, searches=1, check=False, refunds=2))
    assert [item.risk for item in ranks] == sorted((item.risk for item in ranks), reverse=True)
    assert "a check is gone: check_permission" in ranks[0].reasons[0]
    assert "refund is new, which is a write" in ranks[1].reasons[0]
    assert ranks[-1].is_improvement
    assert "one call of orders fewer" in ranks[-1].reasons[0]


def test_the_rank_does_not_follow_the_order_of_time():
    """A harmless change at the beginning ranks after a write with other arguments at the end."""
    comparison, ranks = ranked(desk, lambda b: desk(b, searches=1, amount=99))
    assert comparison.changes[0] is ranks[-1].change
    assert ranks[0].risk > 80
    assert "request of a write differs" in ranks[0].reasons


def test_a_write_that_no_longer_happens_ranks_between_a_new_one_and_an_altered_one():
    """A refund that is gone is a task not done: less than one too many, more than one with another amount."""
    worst = [
        ranked(desk, lambda b, more=more: desk(b, **more))[1][0]
        for more in ({"refunds": 2}, {"refunds": 0}, {"amount": 99})
    ]
    assert [item.risk for item in worst] == sorted({item.risk for item in worst}, reverse=True)
    assert "refund no longer happens, which is a write" in worst[1].reasons[0]


def test_a_refused_write_that_is_gone_is_no_lost_write():
    """What nobody did in the first run is not missed in the second."""
    refused = {"side_effect": SideEffect.WRITE, "source": AnswerSource.REFUSED}
    _, ranks = ranked(lambda b: b.tool("refund", {"amount": 1}, "no", **refused), lambda b: b)
    assert ranks[0].risk < 50


@pytest.mark.parametrize(
    ("said", "said_now", "reason"),
    [
        ("You get $40 back.", "We refund you $40.", "other words, and the same facts"),
        ("You get $40 back.", "We refund you $50.", "differs in facts (number)"),
        ("You can have a refund.", "You cannot have a refund.", "differs in facts (negation)"),
        ({"cents": 40}, {"cents": 50}, "the final answer differs"),
    ],
)
def test_a_final_answer_ranks_by_its_facts(said, said_now, reason):
    """Other words with the same facts rank below every other answer; values that are no text are just different."""
    a, b = run("desk", seed=1).build(output=said), run("desk", seed=2).build(output=said_now)
    comparison = compare(a, b)
    (rank,) = rank_changes(comparison, a, b)
    assert reason in rank.reasons[0]
    assert (rank.risk < 50) == ("same facts" in reason)


def test_a_check_inside_a_dropped_step_is_seen():
    """A scope that is gone ranks as what was in it."""
    _, ranks = ranked(lambda b: b.step("prepare", desk), lambda b: b)
    assert ranks[0].risk == 100
    assert "check_permission" in ranks[0].reasons[0]


def test_a_rule_of_the_user_counts_more_than_a_name():
    """A rule labels a step as a check, and gives another a least rank with its own words."""
    rules = risk_rules(
        {"rules": [{"name": "ord*", "label": "policy"}, {"name": "refund", "risk": 97, "why": "money"}]}, "risk.yaml"
    )
    _, ranks = ranked(desk, lambda b: desk(b, searches=1, amount=99), rules)
    assert [item.risk for item in ranks] == [100, 97]
    assert "by a rule" in ranks[0].reasons[0]
    assert ranks[1].reasons[0] == "money"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "one key `rules`"),
        ({"rules": [{"nam": "x", "risk": 1}]}, "unknown key 'nam'"),
        ({"rules": [{"name": "x"}]}, "says nothing"),
        ({"rules": [{"name": "x", "risk": 101}]}, "101"),
    ],
)
def test_a_rule_that_is_not_one_is_told(document, said):
    """Rules with unknown keys, no content or an impossible rank are refused with the place."""
    with pytest.raises(ConfigurationError, match="risk.yaml") as refused:
        risk_rules(document, "risk.yaml")
    assert said in str(refused.value)


def test_the_expected_change_is_judged():
    """It is told whether the named step changed, and whether the runs part there or before it."""
    comparison, _ = ranked(desk, lambda b: desk(b, amount=99))
    hit = expected_change(comparison, "tool:refund")
    assert hit.reply is Reply.YES
    assert "part there" in hit.detail
    assert expected_change(comparison, "orders").reply is Reply.NO
    assert expected_change(comparison, "nothing_like_it").reply is Reply.NOTHING
    late, _ = ranked(desk, lambda b: desk(b, searches=1, amount=99))
    assert "before it" in expected_change(late, "refund").detail
