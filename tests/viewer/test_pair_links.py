"""What stands after # is the whole state, both ways."""

from urllib.parse import quote

import pytest

from otel_agent_replay.compare import compare
from otel_agent_replay.report.html import comparison_html
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.testing.builders import run
from tests.support.reports import pair_document, pair_html


@pytest.fixture(scope="module")
def text():
    return pair_html()


def test_at_names_a_row_by_path(opened, text):
    """A path alone finds its row, inside a folded stretch too."""
    report = opened(text, "at=" + quote("run:desk#0/tool:look#7"))
    assert report.selected()[3] == "tool look"


def test_at_names_a_row_by_span_id(opened, text):
    """The id of a span alone finds its row."""
    change = next(one for one in pair_document()["changes"] if one["kind"] == "added")
    report = opened(text, f"at=~{change['b']['span_id']}")
    assert "tool refund" in report.selected()


def test_a_place_that_is_not_there_is_said(opened, text):
    """A link of other runs opens the report and says that its step is not here."""
    report = opened(text, "at=" + quote("run:desk#0/tool:gone#0~0011223344556677"))
    assert "no step" in report.page.get_by_role("alert").inner_text()


def test_a_path_holds_in_another_recording(opened, text):
    """A link made in one report finds the same step in the report of runs that were recorded again."""
    report = opened(text).press("n")
    report.wait_hash("weigh")
    link = report.page.url.partition("#")[2]
    again = []
    for seed, result in ((11, 1), (12, 2)):
        again.append(run("desk", seed=seed).tool("search", {}, 1).tool("weigh", {"kg": 1}, result).build())
    other = opened(comparison_html(comparison_json(compare(*again))), link)
    assert "tool weigh" in other.selected()


def test_view(opened, text):
    """`view=unified` shows one column."""
    assert opened(text, "view=unified").page.locator("pre.unified").count() > 0


def test_show(opened, text):
    """`show=all` shows equal rows unfolded."""
    assert opened(text, "show=all").page.locator(".row.fold").count() == 0


def test_open(opened, text):
    """`open` unfolds the stretches that it names."""
    report = opened(text)
    folded = report.shown()
    report.page.locator(".row.fold").first.click()
    report.press("Enter")
    report.wait_hash("open=")
    unfolded = report.shown()
    assert folded < unfolded
    assert report.open(report.page.url.partition("#")[2]).shown() == unfolded


def test_closed(opened, text):
    """`closed=0` hides what the run holds."""
    assert opened(text, "closed=0&at=" + quote("run:desk#0")).rows() == 1


def test_q(opened, text):
    """`q` filters by a regular expression over kind and name; one that is none is taken as text."""
    assert opened(text, "q=" + quote("tool:(weigh|refund)")).rows() == 3
    assert opened(text, "q=" + quote("weigh(")).rows() == 0


@pytest.mark.parametrize(("field", "names"), [("mark=%2B", ["run desk", "tool refund"]), ("kind=model", None)])
def test_mark_and_kind(opened, text, field, names):
    """`mark` and `kind` show rows of that sort and what holds them."""
    found = opened(text, field).page.locator("[role=rowgroup] .name").all_inner_texts()
    assert found == names if names else found[1].startswith("model ")


def test_only(opened, text):
    """`only=unexplained` shows what does not follow from the departure."""
    found = opened(text, "only=unexplained").page.locator("[role=rowgroup] .name").all_inner_texts()
    assert "tool weigh" in found
    assert "tool search" not in found


def test_only_after_the_departure(opened, text):
    """`only=after` shows the differences from the departure on."""
    found = opened(text, "only=after").page.locator("[role=rowgroup] .name").all_inner_texts()
    assert "tool search" in found
    assert "tool look" not in found


def test_over(opened, text):
    """`over=` shows rows whose time differs by more milliseconds; what is no number is left out."""
    assert opened(text, "over=100000").shown() == 0
    assert opened(text, "over=x").shown() > 0


def test_side(opened, text):
    """`side=b` shows B's values alone."""
    assert opened(text, "side=b").page.locator(".fields .letter").all_inner_texts() == ["B"]


def test_order_words_and_part(opened, text):
    """`order`, `words` and `part` say which side stands first, what is marked, and which values are shown."""
    report = opened(text, "order=ba&words=line&part=answer")
    assert report.page.locator(".split .letter").all_inner_texts()[:2] == ["B", "A"]
    assert report.page.get_by_role("button", name="Lines").get_attribute("aria-pressed") == "true"
    assert report.page.locator(".fields > .answer").count() == 1


def test_marked(opened, text):
    """`marked=` marks rows."""
    assert opened(text, "marked=1&show=all").page.locator(".row .mark", has_text="●").count() == 1


def test_pair(opened, text):
    """`pair=A:B` says on either row what was paired by hand, and what compares it so."""
    report = opened(text, "pair=3:43")
    refund = next(one for one in pair_document()["changes"] if one["kind"] == "added")
    assert refund["b"]["step"] == 43
    report.open(f"pair=3:43&at=~{refund['b']['span_id']}")
    told = report.page.locator(".detail").inner_text()
    assert "Paired by hand: step 3 of A with step 43 of B." in told
    assert "--pair 3:43" in told


def test_keys(opened, text):
    """`keys=off` turns single keys off."""
    report = opened(text, "keys=off")
    before = report.selected()
    assert report.press("n").selected() == before


def test_what_is_unknown_is_left_out(opened, text):
    """A malformed link opens the report as if it said nothing."""
    report = opened(text, "view=sideways&open=x,y&colour=red&show=%")
    assert "tool search" in report.selected()
    assert report.errors == []


def test_back_and_forward(opened, text):
    """A jump is a step of the history, a row walked over is not."""
    report = opened(text).press("n")
    report.wait_hash("weigh")
    report.press("n")
    report.wait_hash("refund")
    report.page.go_back()
    report.wait_hash("weigh")
    report.page.wait_for_function("document.querySelector('[aria-selected=true]').textContent.includes('weigh')")
