"""A request that differs says where its new words came from: an earlier answer, or outside of the recorded steps."""

from otel_agent_replay.compare import Cause, compare
from otel_agent_replay.testing.builders import run


def departed(asked_a, asked_b):
    """Two runs with an equal search; then a refund that is asked for otherwise."""

    def build(asked, seed):
        builder = run(seed=seed).tool("search", {"q": "orders"}, ["order alpha", "order bravo"])
        return builder.tool("refund", {"order": asked}, "ok").build()

    return compare(build(asked_a, 1), build(asked_b, 2)).departure


def test_new_words_of_an_earlier_answer_name_that_step():
    """The other order that is refunded stood in the search's answer, and the evidence says so."""
    found = departed("alpha", "bravo")
    assert found.cause is Cause.REQUEST
    assert any("'bravo'" in line and "step 1 · tool search" in line for line in found.evidence)


def test_new_words_of_no_answer_came_from_outside():
    """An order that no earlier answer names came from outside the recorded steps."""
    assert any("outside the recorded steps" in line for line in departed("alpha", "zulu").evidence)


def test_nothing_is_claimed_where_an_answer_was_not_kept():
    """Without the bytes of the earlier answer nobody can say that the words were not in it."""

    def build(asked, seed):
        builder = run(seed=seed).tool("search", {"q": "orders"}, ["order alpha"]).tool("refund", {"order": asked}, "ok")
        return builder.build(keep_payloads=False)

    found = compare(build("alpha", 1), build("zulu", 2)).departure
    assert not any("outside the recorded steps" in line for line in found.evidence)
