"""Import of one trace of 100,000 spans: processor time and memory of `agent-replay import`, `sql` and `show` of it.

The file is gzipped OTLP JSON, 500 spans a line, as the case of a large trace that people reported has it. Each command is
a child process; what counts is its processor time, so that a busy machine changes little. Floor, in turn with it: the
same file unpacked, parsed by `json.loads` and looked through span by span. Half the spans are imported beside: the time
grows linearly where twice the spans take about twice as long.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, report, spread

SPANS = 100_000
A_LINE = 500
ROUNDS = 3
BEGUN = 1_764_400_000_000_000_000

FLOOR = """
import gzip, json, sys
count = 0
for line in gzip.open(sys.argv[1]):
    for resource in json.loads(line)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                count += bool(bytes.fromhex(span["spanId"])) and len(span["attributes"]) > 0
assert count == int(sys.argv[2])
"""


def span(number: int) -> dict:
    """A root, ten thousand calls below it, nine spans below each."""
    parent = 0 if number == 1 else 1 if number % 10 == 2 or number < 12 else number - (number - 2) % 10
    begun = BEGUN + number * 1000
    return {
        "traceId": "f" * 32,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": "chat" if number % 10 == 2 else "step",
        "kind": 1,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + 10**9 - number * 2000),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat" if number % 10 == 2 else "step"}},
            {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
            {"key": "n", "value": {"intValue": str(number)}},
        ],
    }


def write(path: Path, count: int) -> None:
    """Write the file of `count` spans."""
    with gzip.open(path, "wt", 6) as file:
        for first in range(1, count + 1, A_LINE):
            spans = [span(number) for number in range(first, min(first + A_LINE, count + 1))]
            scope = {"scope": {"name": "bench"}, "spans": spans}
            file.write(json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}) + "\n")


def child(*command: str) -> tuple[float, float, str]:
    """Run a command; return its processor seconds, its peak memory in MB and what it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    printed = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:4]} ended with {process.returncode}: {printed[-500:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed


def main() -> int:
    """Import, and read what was imported."""
    ours = (str(Path(sys.executable).parent / "agent-replay"),)
    ratios, seconds, halves, peaks, reading = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        whole, half = Path(folder, "whole.jsonl.gz"), Path(folder, "half.jsonl.gz")
        write(whole, SPANS)
        write(half, SPANS // 2)
        for number in range(ROUNDS):
            lake, small = str(Path(folder, f"lake{number}")), str(Path(folder, f"half{number}"))
            took, peak, printed = child(*ours, "import", "--lake", lake, "--json", str(whole))
            said = json.loads(printed)
            assert said["span_count"] == SPANS, said["span_count"]
            floor, _, _ = child(sys.executable, "-c", FLOOR, str(whole), str(SPANS))
            of_half, _, _ = child(*ours, "import", "--lake", small, "--json", str(half))
            shown, shown_peak, tree = child(*ours, "show", "--lake", lake, said["traces"][0]["run"])
            counted, _, answer = child(*ours, "sql", "--lake", lake, "--json", "SELECT count(*) AS n FROM spans")
            assert str(SPANS) in answer
            assert tree.count("\n") < 520
            ratios.append(took / floor)
            seconds.append(took)
            halves.append(took / of_half)
            peaks.append(max(peak, shown_peak))
            reading.append(shown + counted)
    middle, low, high = spread(ratios)
    return report(
        "import_trace",
        [
            Figure("import of 100,000 spans", round(max(seconds), 1), 60, "s of processor"),
            Figure("import, show and sql together", round(max(seconds) + max(reading), 1), 60, "s of processor"),
            Figure("peak memory of any of them", round(max(peaks)), 1500, "MB"),
            Figure("twice the spans", spread(halves)[0], 2.4, "times the time"),
            Figure("beside parsing the JSON alone", middle, 20, "times", low=low, high=high),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())
