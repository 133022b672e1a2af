"""The single HTML file at 100,000 aligned rows, in headless Chromium: made, opened, walked, filtered.

    python benchmarks/html_report.py [--rows 100000]

The floor of opening is the same browser with the data alone: read, decoded, inflated and parsed, nothing drawn. Times
in the browser are its own clock's, from the start of navigation to the frame in which rows stand; a jump and a filter
are measured from the key to the drawn frame. Without Chromium only the file is measured, and said so.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import Figure, report

from otel_agent_replay.report.html import comparison_html
from otel_agent_replay.report.html_page import classic_script
from tests.support.large_reports import large_document
from tests.viewer.conftest import ARGUMENTS

ROUNDS = 5
READ = """
document.addEventListener("DOMContentLoaded", async () => {
  const packed = atob(document.getElementById("report-data").textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let place = 0; place < packed.length; place += 1) bytes[place] = packed.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  window.data = JSON.parse(await new Response(stream).text());
  document.documentElement.dataset.at = performance.now();
});
"""
WATCH = """
new MutationObserver(() => {
  if (document.documentElement.dataset.ready) document.documentElement.dataset.at ??= performance.now();
}).observe(document, { attributes: true, subtree: true, childList: true });
"""


def key_time(page, key):
    """Milliseconds from a key to the end of the work it causes, in the page."""
    return page.evaluate(
        """key => { const begun = performance.now();
        document.querySelector("[role=treegrid]").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        return performance.now() - begun; }""",
        key,
    )


def filter_time(page, text):
    """Milliseconds of one filter over all rows, rows drawn."""
    return page.evaluate(
        """text => { const begun = performance.now(); const field = document.querySelector("[type=search]");
        field.value = text; field.dispatchEvent(new Event("input")); return performance.now() - begun; }""",
        text,
    )


def in_browser(text: str) -> list[Figure]:
    """Open the report several times, beside its data alone."""
    from playwright.sync_api import sync_playwright

    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    bare = bare.replace(classic_script(), READ)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        whole_file, bare_file = Path(folder, "report.html"), Path(folder, "bare.html")
        whole_file.write_text(text, encoding="utf-8")
        bare_file.write_text(bare, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.add_init_script(WATCH)
        opened, floor = [], []
        for _ in range(ROUNDS):
            for file, times in ((bare_file, floor), (whole_file, opened)):
                page.goto(file.as_uri())
                page.wait_for_selector("html[data-at]", state="attached")
                times.append(float(page.evaluate("document.documentElement.dataset.at")))
        jumps = [key_time(page, key) for key in "nnnnnnnnppppdnnn"]
        key_time(page, "]")
        all_rows = [key_time(page, key) for key in ("End", "Home", "n", "n", "n", "p", "d")]
        filters = [filter_time(page, text) for text in ("tool:tool 7", "group 3", "scope:", "")]
        nodes = page.evaluate("document.querySelectorAll('*').length")
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        browser.close()
    first = statistics.median(opened)
    return [
        Figure("first rows after the start of loading", first, 500, "ms", detail=f"the data alone, nothing drawn: {statistics.median(floor):.0f} ms"),
        Figure("a jump to the next difference, equal rows folded", statistics.median(jumps), 16, "ms", detail=f"slowest {max(jumps):.1f}"),
        Figure("a jump with all rows unfolded", statistics.median(all_rows), 16, "ms", detail=f"slowest {max(all_rows):.1f}"),
        Figure("a filter over all rows", statistics.median(filters), 100, "ms", detail=f"slowest {max(filters):.1f}"),
        Figure("elements in the document", nodes, 400, "elements"),
        Figure("memory of the page's script", heap, 150, "MB"),
    ]  # fmt: skip


def main() -> int:
    """Print the figures; 0 when all hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    document = large_document(rows)
    started = time.process_time()
    text = comparison_html(document)
    made = time.process_time() - started
    figures = [
        Figure("processor time of making the file", made, 5, "s", detail=f"{rows:,} rows"),
        Figure("size of the file", len(text.encode()) / 1e6, 3, "MB"),
    ]
    if shutil.which("chromium") is None:
        print("there is no chromium: only the file is measured")
    else:
        figures += in_browser(text)
    return report("html_report", figures)


if __name__ == "__main__":
    raise SystemExit(main())
