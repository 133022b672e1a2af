"""The HTML report of a gate in a browser: its cases, what is broken, each case's aligned diff."""

import pytest

from tests.support.gate_reports import gate_report
from tests.support.reports import HOSTILE


@pytest.fixture(scope="module")
def text():
    return gate_report()


def test_a_case_opens_its_diff_and_comes_back(opened, text):
    """Enter opens the aligned diff of a case, Esc leads back to all cases."""
    report = opened(text)
    assert report.rows() == 3
    report.page.get_by_role("treegrid").focus()
    report.press("j", "Enter")
    report.wait_hash("case=broken")
    assert report.page.get_by_role("treegrid", name="Both runs, step by step").is_visible()
    report.press("Escape")
    report.wait_no_hash("case=")
    assert report.page.get_by_role("treegrid", name="Cases").is_visible()


def test_what_is_broken_and_what_was_mended_stand_above(opened, text):
    """Each invariant that changed or does not hold is a row with what shows it."""
    table = opened(text).page.get_by_role("region", name="Invariants").inner_text()
    assert "must_call check_policy" in table
    assert "broken, and was not before" in table
    assert "mended" in table


def test_without_script_the_cases_are_a_table(launched, tmp_path, text):
    """The verdict and all cases are read without any script."""
    file = tmp_path / "gate.html"
    file.write_text(text, encoding="utf-8")
    context = launched.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "May not ship" in page.locator("header").inner_text()
    assert "its recording is missing" in page.locator("#plain").inner_text()
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_axe_finds_nothing(opened, text, theme, width):
    """No accessibility fault, in both themes, wide and narrow."""
    from axe_playwright_python.sync_playwright import Axe

    report = opened(text, f"theme={theme}")
    report.page.set_viewport_size({"width": width, "height": 720})
    found = Axe().run(report.page)
    assert found.violations_count == 0, found.generate_report()


def test_hostile_text_is_text(opened):
    """What cases bring is shown, never run."""
    report = opened(gate_report(HOSTILE))
    assert report.page.title() != "owned"
    assert report.errors == []
