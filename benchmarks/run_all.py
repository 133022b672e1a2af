"""Run every benchmark, one process each, and print which claims hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOT_BENCHMARKS = {
    "airline.py",
    "json_text_layout.py",
    "lake_copies.py",
    "lake_corpus.py",
    "measure.py",
    "mutated_runs.py",
    "plain_spans.py",
    "real_runs.py",
    "run_all.py",
    "tree_peers.py",
}


def main() -> int:
    """Run the benchmarks named on the command line, or all; returns 1 when a claim does not hold."""
    wanted = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path.name not in NOT_BENCHMARKS)
    missed = 0
    for name in wanted:
        print(f"\n== {name}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False)
        result = Path("build/benchmarks") / f"{name}.json"
        if done.returncode not in (0, 1) or not result.exists():
            print(f"{name} did not finish (exit {done.returncode})")
            missed += 1
            continue
        missed += sum(not figure["holds"] for figure in json.loads(result.read_text())["figures"])
    print(f"\n{missed} claim(s) missed" if missed else "\nall claims hold")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
