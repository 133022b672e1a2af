"""One headless Chromium a module, and pages of it in which reports are opened from files, as a person would."""

import shutil

import pytest
from playwright import sync_api as playwright

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
READY = "html[data-ready]"


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/viewer" in item.path.as_posix():
            item.add_marker(pytest.mark.viewer)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="there is no chromium on this machine"))


# A module's, not a session's: while it is up, its driver's event loop runs in the worker's main thread, where other
# modules' tests start loops of their own.
@pytest.fixture(scope="module")
def launched():
    """Chromium, with a profile of its own that is gone afterwards."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(launched):
    """One page for all tests of a module: opening one takes longer than most tests."""
    context = launched.new_context(permissions=["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


class Report:
    """A report that is open in a page."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.errors = []
        self.requests = []
        self._hearing = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda message: message.type == "error" and self.errors.append(message.text),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, hear in self._hearing.items():
            page.on(event, hear)

    def leave(self):
        """Stop listening, and give the page back as it was."""
        for event, hear in self._hearing.items():
            self.page.remove_listener(event, hear)
        self.page.set_viewport_size({"width": 1280, "height": 720})
        self.page.emulate_media(color_scheme="light")

    def open(self, hash_text=""):
        """Open the file anew at what stands after #."""
        self.page.goto("about:blank")
        self.page.goto(self.url + (f"#{hash_text}" if hash_text else ""))
        self.page.wait_for_selector(READY, state="attached")
        return self

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def selected(self):
        """The texts of the selected row's cells that are not empty."""
        row = self.page.locator("[role=row][aria-selected=true] [role=gridcell]")
        return [text for text in row.all_inner_texts() if text]

    def status(self):
        return self.page.locator("[role=status]").inner_text()

    def rows(self):
        return self.page.locator("[role=rowgroup] > [role=row]").count()

    def shown(self):
        """How many rows are listed, in sight or not, folded ones as one."""
        return int(self.page.locator(".toolbar > .quiet").inner_text().split(" of ")[0].replace(",", ""))

    def wait_hash(self, part):
        self.page.wait_for_function("part => decodeURIComponent(location.hash).includes(part)", arg=part)

    def wait_no_hash(self, part):
        self.page.wait_for_function("part => !decodeURIComponent(location.hash).includes(part)", arg=part)


@pytest.fixture
def opened(tab, tmp_path):
    """Return a function that opens a report's text."""
    reports = []

    def opening(text, hash_text=""):
        file = tmp_path / f"report-{len(reports)}.html"
        file.write_text(text, encoding="utf-8")
        reports.append(Report(tab, file.as_uri()))
        return reports[-1].open(hash_text)

    yield opening
    for report in reports:
        report.leave()
