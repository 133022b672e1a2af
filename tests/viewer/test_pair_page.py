"""What a report is: readable by everyone, closed to the world, the same with and without script."""

import random
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.support.reports import HOSTILE, pair_document, pair_html, read_data


@pytest.fixture(scope="module")
def text():
    return pair_html()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_axe_finds_nothing(opened, text, theme, width):
    """No rule of accessibility that a machine can check is broken, in either theme, wide and narrow."""
    report = opened(text, f"theme={theme}")
    report.page.set_viewport_size({"width": width, "height": 720})
    found = Axe().run(report.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("theme", "dark"), [("light", False), ("dark", True), ("system", True)])
def test_themes(opened, text, theme, dark):
    """A theme is what the link says, else what the system says."""
    report = opened(text)
    report.page.emulate_media(color_scheme="dark")
    report.open(f"theme={theme}")
    ground = report.page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, re.findall(r"\d+", ground)[:3]))
    assert (lightness < 384) is dark


def test_the_grid_tells_a_screen_reader_where_one_is(opened, text):
    """Rows say their place of all, level, siblings; the active one is named by the grid and is in the document."""
    report = opened(text, "show=all")
    grid = report.page.get_by_role("treegrid")
    assert int(grid.get_attribute("aria-rowcount")) == len(pair_document()["rows"]) + 1
    row = report.page.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']")
    assert row.get_attribute("aria-level") == "2"
    assert row.get_attribute("aria-posinset") == "1"
    assert int(row.get_attribute("aria-setsize")) > 3
    report.page.evaluate("document.querySelector('[role=treegrid]').scrollTop = 5000")
    report.page.wait_for_function("document.querySelectorAll('[role=rowgroup] > [role=row]').length > 0")
    assert report.page.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']").count() == 1


def test_without_script_it_is_read_too(launched, tmp_path, text):
    """Verdict, counts, cause and the differences as a table stand in the file itself."""
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    context = launched.new_context(java_script_enabled=False)
    page = context.new_page()
    try:
        page.goto(file.as_uri())
        shown = page.locator("body").inner_text()
        assert pair_document()["sentence"] in shown
        assert "tool result differed for equal arguments" in shown
        assert page.get_by_role("table", name="All differences").get_by_role("row").count() == 1 + len(
            pair_document()["changes"]
        )
    finally:
        context.close()


def test_no_request_leaves_it(opened, text):
    """Opening and using a report loads its file and nothing else."""
    report = opened(text).press("n", "]", "u", "c")
    assert {url for url in report.requests if url != "about:blank"} == {report.url}
    assert "default-src 'none'" in text
    blocked = report.page.evaluate("fetch('https://example.org').then(() => 'open', () => 'blocked')")
    assert blocked == "blocked"


def test_hostile_text_is_text(opened):
    """Markup in a name or a value is shown, never run."""
    report = opened(pair_html(HOSTILE))
    assert "owned" not in report.page.title().replace(HOSTILE, "")
    assert report.page.locator("img").count() == 0
    assert HOSTILE in report.page.locator(".detail").inner_text()
    assert HOSTILE in report.page.locator("h1").inner_text()
    assert report.errors == []


def test_a_script_of_a_recording_is_not_run(opened, text):
    """The policy allows the report's own script by its hash alone."""
    report = opened(text.replace("</body>", "<script>document.title = 'owned'</script></body>"))
    assert report.page.title() != "owned"
    assert any("Content Security Policy" in error for error in report.errors)


def test_what_does_not_fit_is_listed_by_digest_and_size(opened):
    """Above the limit values are left out, the last first, and each says its digest and size where it was."""
    long = " ".join(str(number) for number in random.Random(5).sample(range(10**9), 3_000))
    whole = pair_html(late=long)
    small = pair_html(late=long, limit=len(whole.encode()) - 2_000)
    view = read_data(small)["pair"]
    assert view["left_out"]["values"] > 0
    assert "left out" in small
    report = opened(small, "at=~" + next(d["spans"][1] for d in view["details"].values() if "left_out" in str(d)))
    assert re.search(r"\d+ bytes, sha256 [0-9a-f]{64}", report.page.locator(".detail").inner_text())
    first = view["details"][str(view["departure"]["row"])]
    assert "parts" in first["fields"][0]["places"][0]


def test_data_of_another_format_are_not_guessed_at(opened, text):
    """A report whose data are newer keeps its plain part and says why there is no more."""
    packed = re.search(r'data-format="1">([^<]+)<', text)[1]
    from base64 import b64decode, b64encode
    from zlib import compress, decompress

    newer = b64encode(compress(decompress(b64decode(packed)).replace(b'"format":1', b'"format":9'))).decode()
    report = opened(text.replace(packed, newer))
    assert "format 9" in report.page.get_by_role("alert").inner_text()
    assert report.page.get_by_role("table", name="All differences").count() == 1
