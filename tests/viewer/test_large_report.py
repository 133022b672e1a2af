"""A report of 100,000 rows: what is in the document and in memory stays small, and every row is reached."""

import pytest

from otel_agent_replay.report.html import comparison_html
from tests.support.large_reports import large_document

ROWS = 100_000


@pytest.fixture(scope="module")
def text():
    return comparison_html(large_document(ROWS))


def test_only_what_is_in_sight_is_in_the_document(opened, text):
    """At most 400 elements and 150 MB, folded and unfolded, at the beginning and at the end."""
    report = opened(text)
    assert report.shown() < 1_000
    for keys in ((), ("]",), ("End",), ("n",)):
        report.press(*keys)
        assert report.page.evaluate("document.querySelectorAll('*').length") <= 400
    assert report.shown() == ROWS
    assert report.page.evaluate("performance.memory.usedJSHeapSize") < 150_000_000
    assert report.errors == []


def test_the_last_row_is_announced_with_its_place(opened, text):
    """The end of 100,000 rows is one key away, and says which row it is."""
    report = opened(text, "show=all").press("End")
    row = report.page.locator("[role=row][aria-selected=true]")
    assert row.get_attribute("aria-rowindex") == str(ROWS + 1)
    assert report.page.get_by_role("treegrid").get_attribute("aria-rowcount") == str(ROWS + 1)


def test_it_stays_a_small_file(text):
    """Rows are columns with interned names: far under the limit."""
    assert len(text) < 3_000_000
