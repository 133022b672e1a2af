"""Final texts are compared by their facts: numbers, dates, ids, sources and denials, never by their characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.compare import Asked, compare
from otel_agent_replay.compare.text_facts import FactKind, compare_texts
from otel_agent_replay.testing.builders import run


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Your refund of $1,200.50 is on its way.", "We sent back 1200.50 USD."),
        ("It ships on 30 November 2026.", "The parcel leaves on 2026-11-30!"),
        ("It ships on Nov 30, 2026.", "On November 30th, 2026 it ships."),
        ("Growth was 12 percent.", "It grew by 12%."),
        ("Order AB-1234 is done.", "Done: AB-1234."),
        ("See https://example.com/a.", "As https://example.com/a says."),
        ("The order was shipped. It cost 5 EUR.", "It cost 5 EUR.  The order was shipped."),
    ],
)
def test_other_words_with_the_same_facts_are_the_same(before, after):
    """Paraphrases, other spellings of a number or date, and another order of sentences differ in no fact."""
    assert compare_texts(before, after).differences == []


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("You get 40 USD back.", "You get 42 USD back.", FactKind.NUMBER),
        ("You get 40 USD back.", "You get 40 EUR back.", FactKind.NUMBER),
        ("It ships on 30 November 2026.", "It ships on 1 December 2026.", FactKind.DATE),
        ("Order AB-1234 is done.", "Order AB-1243 is done.", FactKind.ID),
        ("See https://example.com/a.", "See https://example.com/b.", FactKind.SOURCE),
        ("The claim holds [1].", "The claim holds.", FactKind.SOURCE),
        ("The refund was approved.", "The refund was not approved.", FactKind.NEGATION),
        ("You can cancel the order.", "You can't cancel the order.", FactKind.NEGATION),
    ],
)
def test_a_fact_that_differs_is_named_with_its_kind(before, after, kind):
    """One changed fact in nearly equal letters is one difference of its kind, and mirrored the other way round."""
    forth, back = compare_texts(before, after).differences, compare_texts(after, before).differences
    assert [one.kind for one in forth] == [one.kind for one in back] == [kind]
    assert (forth[0].before, forth[0].after) == (back[0].after, back[0].before)


def test_the_final_answer_says_which_facts_differ():
    """A comparison's question after the final answer names the facts, or that only words differ."""

    def detail(one, other):
        answers = compare(run(seed=1).build(output=one), run(seed=2).build(output=other)).questions
        return next(item.detail for item in answers if item.asked is Asked.FINAL_ANSWER)

    assert "number 40 usd -> 42 usd" in detail("You get 40 USD.", "You get 42 USD.")
    assert "the same facts" in detail("You get 40 USD.", "40 USD come back to you.")


@given(st.text(max_size=300))
def test_a_text_differs_in_nothing_from_itself(text):
    """Whatever is written, the same text states the same facts."""
    assert compare_texts(text, text).differences == []
