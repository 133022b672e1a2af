"""Every shortcut of a pair's report."""

import pytest

from tests.support.reports import pair_html, way_html


@pytest.fixture(scope="module")
def text():
    return pair_html()


@pytest.fixture
def report(opened, text):
    return opened(text)


def test_it_opens_at_the_departure(report):
    """The departure is selected, marked, and says rule, strength and where its answers came from."""
    assert report.selected() == ["★~", "1", "1", "tool search", "result", "live", "0.9 same call, in order"]
    assert report.errors == []


def test_n_and_p_go_to_the_differences(report):
    """`n` goes to the next difference and speaks its number and name, `p` back."""
    report.press("n")
    assert report.selected()[3] == "tool weigh"
    assert report.status() == "difference 2 of 3, result, tool weigh, step 22"
    report.press("n")
    assert "tool refund" in report.selected()
    report.press("p", "p")
    assert "tool search" in report.selected()


def test_capital_n_and_p_go_to_the_unexplained_ones(report):
    """`N` skips what follows from the departure."""
    report.press("Home", "N")
    assert "tool weigh" in report.selected()
    assert report.status().startswith("unexplained difference 1 of")
    report.press("End", "P")
    assert report.status().startswith("unexplained difference")


def test_d_goes_back_to_the_departure(report):
    """`d` selects the departure from anywhere."""
    report.press("End", "d")
    assert "tool search" in report.selected()
    assert report.status() == "departure: tool search"


def test_c_shows_the_cause_with_its_evidence(report):
    """`c` moves the focus to the cause."""
    report.press("End", "c")
    assert report.page.evaluate("document.activeElement.className") == "cause"
    assert "tool result differed for equal arguments" in report.page.locator(".cause").inner_text()


@pytest.mark.parametrize(("down", "up"), [("j", "k"), ("ArrowDown", "ArrowUp")])
def test_rows_are_walked(report, down, up):
    """`j` and arrow down go one row on, `k` and arrow up one back."""
    report.press("Home", down)
    assert "tool search" in report.selected()
    report.press(up)
    assert "run desk" in report.selected()


def test_home_and_end(report):
    """`Home` is the run itself, `End` the last row."""
    report.press("End")
    last = report.selected()
    report.press("ArrowDown")
    assert report.selected() == last
    report.press("Home")
    assert "run desk" in report.selected()


def test_arrows_open_and_close(report):
    """Left closes a row that holds others, then goes outside; right opens it, then goes inside."""
    report.press("Home", "ArrowLeft")
    assert report.rows() == 1
    assert report.page.locator("[aria-selected=true]").get_attribute("aria-expanded") == "false"
    report.press("ArrowRight")
    assert report.rows() > 3
    report.press("ArrowRight")
    assert "tool search" in report.selected()
    report.press("ArrowLeft")
    assert "run desk" in report.selected()


def test_brackets_fold_and_unfold(report):
    """`]` shows the equal rows, `[` folds them to a row with their number."""
    folds = report.page.locator(".row.fold")
    assert folds.first.inner_text().strip().startswith("… ")
    report.press("]")
    assert folds.count() == 0
    report.press("[")
    assert folds.count() > 0


def test_enter_unfolds_one_stretch(report):
    """A folded stretch opens alone."""
    before = report.shown()
    report.page.locator(".row.fold").first.click()
    report.press("Enter")
    assert before < report.shown() < report.press("]").shown()
    assert report.selected()[0] == "="


def test_u_lays_the_values_side_by_side_or_in_one_column(report):
    """`u` switches between both sides and one column with what went and came."""
    assert report.page.locator(".split").count() > 0
    report.press("u")
    assert report.page.locator(".split").count() == 0
    assert report.page.locator("pre.unified del").first.inner_text().strip() == "lost at sea"
    assert report.page.locator("pre.unified ins").first.inner_text().strip() == "shipped on Monday"


@pytest.mark.parametrize("key", ["f", "/"])
def test_f_filters_and_escape_leaves(report, key):
    """`f` or `/` goes to the filter; typing filters and keeps what holds a row; Esc leaves the field, then all."""
    report.press(key)
    report.page.keyboard.type("tool:weigh")
    assert report.page.locator("[role=rowgroup] .name").all_inner_texts() == ["run desk", "tool weigh"]
    report.press("Escape", "Escape")
    assert report.page.get_by_role("searchbox").input_value() == ""
    assert report.rows() > 3


def test_x_puts_the_other_side_first(report):
    """`x` shows B's values and steps before A's, and back; the letters stay with their sides."""
    sides = lambda: report.page.locator(".split .letter").all_inner_texts()[:2]
    heads = lambda: report.page.locator("[role=columnheader]").all_inner_texts()[1:3]
    assert (sides(), heads()) == (["A", "B"], ["A", "B"])
    report.press("x")
    assert (sides(), heads()) == (["B", "A"], ["B", "A"])
    report.wait_hash("order=ba")
    report.press("x")
    assert sides() == ["A", "B"]


def test_w_marks_lines_instead_of_words(report):
    """`w` marks the whole line that holds a changed word."""
    words = report.page.locator("ins").first.inner_text()
    report.press("w")
    report.wait_hash("words=line")
    line = report.page.locator("ins").first.inner_text()
    assert words in line and len(line) > len(words)


def test_i_and_a_show_input_or_answer_alone(report):
    """`i` and `a` show one part of a step and go there; once more shows both; a part that does not differ is said."""
    report.press("a")
    assert report.page.evaluate("document.activeElement.className") == "answer"
    assert report.page.locator(".fields > .input").count() == 0
    report.press("i")
    assert report.status() == "the input does not differ here"
    report.press("i")
    assert report.page.locator(".fields > .answer").count() == 1


def test_1_and_2_show_one_side_alone(report):
    """`1` shows A's value only, `2` B's; the same key again shows both."""
    letters = lambda: report.page.locator(".fields .letter").all_inner_texts()
    report.press("2")
    assert (letters(), report.status()) == (["B"], "side B alone")
    report.press("1")
    assert letters() == ["A"]
    report.press("1")
    assert letters() == ["A", "B"]


def test_m_marks_a_row_and_the_filter_shows_marked_ones(report):
    """`m` marks the row, in the link too; the filter by place lists marked rows; `m` again takes the mark away."""
    report.press("m")
    assert report.selected()[0] == "●★~"
    report.wait_hash("marked=")
    report.page.get_by_label("Filter by place").select_option("marked")
    assert report.shown() == 2  # the row, and the run that holds it
    report.page.get_by_role("treegrid").focus()
    report.press("m")
    assert report.status() == "mark taken away"


def test_the_summary_is_copied_as_markdown(report):
    """The button copies verdict, cause and differences for a comment."""
    report.page.get_by_role("button", name="Copy summary").click()
    report.page.wait_for_function("document.querySelector('[role=status]').textContent === 'summary copied'")
    told = report.page.evaluate("navigator.clipboard.readText()")
    assert told.startswith("**B departs from A")
    assert "Cause: tool result differed for equal arguments" in told
    assert "- + tool refund: only in B" in told


def test_the_strip_leads_to_a_row(report):
    """A press on the strip beside the rows goes to the row at that height."""
    report.press("]")
    box = report.page.locator("canvas.strip").bounding_box()
    report.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 1)
    assert "model chat gpt-4o-mini" in report.selected()
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(one => one)"
    assert report.page.locator("canvas.strip").evaluate(drawn)


def test_y_copies_a_link(report):
    """`y` copies the address of this place, or shows it where there is no clipboard."""
    report.press("n", "y")
    report.page.wait_for_function("document.querySelector('[role=status]').textContent === 'link copied'")
    copied = report.page.evaluate("navigator.clipboard.readText()")
    assert copied == report.page.url
    assert "weigh" in copied


def test_question_mark_lists_the_keys(report):
    """`?` opens the list, Esc closes it."""
    report.press("?")
    assert "next or previous difference" in report.page.get_by_role("dialog").inner_text()
    report.press("Escape")
    assert report.page.get_by_role("dialog").count() == 0


def test_keys_do_nothing_while_typing(report):
    """A letter in the filter is a letter."""
    report.press("f", "d", "n")
    assert report.page.get_by_role("searchbox").input_value() == "dn"


def test_single_keys_can_be_turned_off(report):
    """Without single-key shortcuts letters do nothing, named keys still work."""
    report.page.get_by_label("single-key shortcuts").uncheck()
    report.page.locator("[role=treegrid]").focus()
    before = report.selected()
    report.press("n")
    assert report.selected() == before
    report.press("Home")
    assert "run desk" in report.selected()


def test_the_way_back_leads_to_its_source(opened):
    """A difference tells where it comes from, step by step, and its buttons go there."""
    report = opened(way_html(), "at=run:desk%230")
    way = report.page.locator(".way")
    assert "came with the answer of step 22 · tool refund" in way.inner_text()
    assert way.locator("li").count() == 3
    way.get_by_role("button", name="Go to tool search").last.click()
    assert "tool search" in report.selected()
