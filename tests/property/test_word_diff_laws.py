"""Laws of differences by words."""

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.report.word_diff import WORDS_ALIGNED, word_diff

WORDS = st.lists(st.sampled_from(["red", "blue", "car", ",", "\n", "7", "é"]), max_size=30).map(" ".join)
TEXTS = st.text(max_size=60) | WORDS


@given(TEXTS, TEXTS)
def test_the_parts_spell_both_texts(before, after):
    """Nothing is lost and nothing made up: without what came it is A, without what went it is B."""
    parts = word_diff(before, after).parts
    assert "".join(text for sign, text in parts if sign != "+") == before
    assert "".join(text for sign, text in parts if sign != "-") == after


@given(TEXTS)
def test_a_text_is_equal_to_itself(text):
    """Equal texts have at most one part, an equal one."""
    assert [sign for sign, _ in word_diff(text, text).parts] == (["="] if text else [])


def test_what_is_too_long_is_shown_whole_and_said():
    """Beyond the limit both texts are shown, less their common ends, and the difference is called incomplete."""
    before = "start " + " ".join(f"a{number}" for number in range(WORDS_ALIGNED + 1)) + " end"
    after = "start " + " ".join(f"b{number}" for number in range(WORDS_ALIGNED + 1)) + " end"
    diff = word_diff(before, after)
    assert not diff.complete
    assert [sign for sign, _ in diff.parts] == ["=", "-", "+", "="]


def test_a_word_between_two_changes_is_part_of_the_phrase():
    """Readers get phrases, not confetti."""
    assert [sign for sign, _ in word_diff("I want red and big cars now", "I want blue and old cars now").parts] == [
        *("=", "-", "+", "="),
    ]
