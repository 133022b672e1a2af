"""A cohort's report: its cases, each opening its aligned difference in the same file."""

from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.support.cohort_reports import cohort, cohort_report
from tests.support.reports import HOSTILE, read_data


@pytest.fixture(scope="module")
def text():
    return cohort_report()


def test_a_case_opens_its_pair_and_comes_back(opened, text):
    """Enter on a case shows its aligned rows; Esc and the history lead back to the list."""
    report = opened(text)
    assert report.shown() == 6
    report.press("n")
    assert report.selected()[0] == "case 03"
    report.press("Enter")
    report.wait_hash("case=case 03")
    assert "tool look" in report.selected()
    assert not report.page.get_by_role("table", name="Metrics").is_visible()
    report.press("Escape")
    report.wait_no_hash("case=")
    assert report.shown() == 6
    report.page.go_back()
    report.page.wait_for_selector(".detail")
    assert report.errors == []


def test_a_link_leads_into_a_case(opened, text):
    """`case` and `at` name a step of a case."""
    report = opened(text, f"case={quote('case 03')}&at={quote('run:desk#0/tool:look#0')}")
    assert "tool look" in report.selected()
    assert "broken" in report.page.locator(".detail").inner_text()


def test_a_case_without_a_pair_is_said(opened, text):
    """A link to a case that has no pair here says so above the list."""
    report = opened(text, f"case={quote('case 01')}")
    assert "no pair of case" in report.page.get_by_role("alert").inner_text()
    assert report.shown() == 6


def test_cases_are_filtered(opened, text):
    """`q` keeps the cases that hold the words."""
    assert opened(text, "q=different").shown() == 2


def test_charts_have_a_table_each(opened, text):
    """Every chart is an image with a name, beside a table that says the same."""
    report = opened(text)
    report.page.get_by_text("Charts").click()
    assert report.page.locator("figure svg").count() == report.page.locator("figure table").count() > 1
    assert report.page.get_by_role("table", name="Tool paths").get_by_role("row").count() == 2


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 320)])
def test_axe_finds_nothing(opened, text, theme, width):
    """No rule of accessibility that a machine can check is broken, charts open, wide and narrow."""
    report = opened(text, f"theme={theme}")
    report.page.set_viewport_size({"width": width, "height": 720})
    report.page.get_by_text("Charts").click()
    found = Axe().run(report.page)
    assert found.violations_count == 0, found.generate_report()


def test_hostile_text_is_text(opened):
    """Markup in a case's key or a value is shown, never run, in the list and in the pair."""
    report = opened(cohort_report(HOSTILE))
    report.press("Home", "Enter")
    report.page.wait_for_selector(".detail")
    assert report.page.locator("img").count() == 0
    assert "owned" not in report.page.title()
    assert report.errors == []


def test_without_script_the_cases_are_a_table(launched, tmp_path, text):
    """Verdict, metrics and cases stand in the file itself."""
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    context = launched.new_context(java_script_enabled=False)
    page = context.new_page()
    try:
        page.goto(file.as_uri())
        assert cohort()[0]["sentence"] in page.locator("body").inner_text()
        assert page.get_by_role("table", name="All cases").get_by_role("row").count() == 7
        assert page.get_by_role("table", name="Metrics").count() == 1
    finally:
        context.close()


def test_pairs_that_do_not_fit_are_counted():
    """Below the size of all pairs some are left out, and the report says how many are there."""
    whole = cohort_report()
    small = cohort_report(limit=len(whole.encode()) - 600)
    assert len(read_data(small)["pairs"]) < len(read_data(whole)["pairs"]) == 2
    assert "of the 2 cases that differ open their aligned pair" in small
