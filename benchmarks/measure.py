"""How every benchmark here measures: the subject and its floor or peer in turn, in one process, as ratios.

Timings on shared machines drift, so a figure is a ratio of neighbours: A B A B ..., one ratio a pair, reported
as median with the spread of the middle half. Each benchmark prints a table and appends JSON to build/benchmarks/.
"""

from __future__ import annotations

import gc
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured claim. `value` is judged against `limit` (`at_most` tells the direction)."""

    claim: str
    value: float
    limit: float
    unit: str
    at_most: bool = True
    low: float | None = None
    high: float | None = None
    detail: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def paired(
    subject: Callable[[], object], floor: Callable[[], object], *, rounds: int = 15, warmup: int = 2
) -> list[tuple[float, float]]:
    """Return (subject seconds, floor seconds) for each round, taken in turn."""
    pairs = []
    for number in range(rounds + warmup):
        gc.collect()
        if number % 2:
            a, b = timed(subject), timed(floor)
        else:
            b, a = timed(floor), timed(subject)
        if number >= warmup:
            pairs.append((a, b))
    return pairs


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return median, lower and upper quartile."""
    quartiles = statistics.quantiles(values, n=4)
    return statistics.median(values), quartiles[0], quartiles[2]


def report(name: str, figures: list[Figure]) -> int:
    """Print the figures, keep them as JSON, return 0 when all hold."""
    for figure in figures:
        mark = "ok  " if figure.holds else "MISS"
        between = "" if figure.low is None else f" [{figure.low:.3g} .. {figure.high:.3g}]"
        sign = "<=" if figure.at_most else ">="
        print(
            f"{mark} {figure.claim}: {figure.value:.4g} {figure.unit}{between} (wanted {sign} {figure.limit:g}) {figure.detail}",
            flush=True,
        )
    folder = Path("build/benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    record = {
        "benchmark": name,
        "commit": commit,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": [{**asdict(figure), "holds": figure.holds} for figure in figures],
    }
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    return 0 if all(figure.holds for figure in figures) else 1
