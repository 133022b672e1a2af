"""One run loaded out of ten million spans, and the README's five queries beside the same data as JSON text.

    python benchmarks/lake_load.py [--spans 10000000] [--query-spans 10000000] [--remove]

The corpus is made once, in build/benchmarks, and made anew when the code that writes it changes; `--remove` deletes it
afterwards (at ten million spans some 2 GB, and the peer's layouts).
"""

from __future__ import annotations

import argparse
import math
import random
import re
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow.parquet as pq
from json_text_layout import QUERIES, connect_text, layout_of
from lake_copies import lake_of
from measure import Figure, paired, report, spread, timed

from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import SPANS, all_files
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, digest_of

FOLDER = Path("build/benchmarks")
SMALL, MIDDLE = 100_000, 1_000_000
LOADS = 60
PROMOTED = ("cost by model and day", "slowest tools", "error rate by agent version")


def some_runs(lake: Path, count: int, seed: int) -> list[tuple[bytes, bytes]]:
    """Return run and trace ids of `count` runs, drawn from all of the lake."""
    draw = random.Random(seed)
    files = list(all_files(lake, SPANS))
    found = []
    for file in draw.choices(files, k=count):
        roots = pq.read_table(file.path, columns=["root", "run_id", "trace_id"], partitioning=None)
        root = draw.choice(roots.filter(roots.column("root")).drop_columns(["root"]).to_pylist())
        found.append((root["run_id"], root["trace_id"]))
    return found


def load(lake: Path, asked: str) -> None:
    """Find a run, load it, and take the bytes of one of its model calls, proved."""
    catalog = Lake(lake)
    recorded = catalog.load(catalog.find(asked))
    node = next(node for node in recorded.nodes if node.kind is Kind.MODEL and node.step and node.step > 20)
    for payload in (node.call.request, node.outcome.result):
        if digest_of(recorded.payload(payload.digest)) != payload.digest:
            raise AssertionError(f"the bytes of step {node.step} of run {asked} are others")


def check(lake: Path) -> None:
    """Hold some runs of the lake against all their digests: a fast wrong answer is worth nothing."""
    for run_id, _ in some_runs(lake, 5, seed=1):
        findings = verify(Lake(lake).load(run_id))
        if findings:
            raise AssertionError(f"run {run_id.hex()} of {lake} does not hold: {findings}")


def loading(lakes: list[Path]) -> list[Figure]:
    """Measure loads out of lakes of growing size, in turn."""
    for lake in lakes:
        check(lake)
    drawn = [some_runs(lake, LOADS, seed=2) for lake in lakes]
    taken: list[list[float]] = [[] for _ in lakes]
    for number in range(LOADS):
        for lake, runs, times in zip(lakes, drawn, taken, strict=True):
            # 16 digits: all of the time and a little more, as one copies it from a list
            prefix = runs[number][0].hex()[:16]
            times.append(1000 * timed(lambda lake=lake, prefix=prefix: load(lake, prefix)))
    sizes = [lake.name.removeprefix("lake-") for lake in lakes]
    shown = ", ".join(f"{size} {statistics.median(times):.0f} ms" for size, times in zip(sizes, taken, strict=True))
    middle, low, high = spread(taken[-1])
    by_trace, by_trace_shown = by_trace_id(lakes, drawn, sizes)
    return [
        Figure(f"the same by trace id, out of {sizes[-1]} spans", by_trace[-1], 150, "ms", detail=by_trace_shown),
        Figure(
            f"by trace id, {sizes[-1]} against {sizes[0]} spans",
            by_trace[-1] / by_trace[0],
            1.5,
            "x",
            detail="(medians)",
        ),
        Figure(f"one run and a step's bytes out of {sizes[-1]} spans", middle, 150, "ms", low=low, high=high),
        Figure(
            f"the same, {sizes[-1]} against {sizes[0]} spans",
            middle / statistics.median(taken[0]),
            1.5,
            "x",
            detail=f"({shown})",
        ),
    ]


def by_trace_id(lakes: list[Path], drawn: list[list[tuple[bytes, bytes]]], sizes: list[str]) -> tuple[list[float], str]:
    """Return the median milliseconds of a load by trace id, which may lie in any hour, of each lake, and all as text."""
    first = [
        1000 * timed(lambda lake=lake, runs=runs: load(lake, runs[0][1].hex())) for lake, runs in zip(lakes, drawn)
    ]
    taken: list[list[float]] = [[] for _ in lakes]
    for number in range(1, LOADS // 2):
        for lake, runs, times in zip(lakes, drawn, taken, strict=True):
            trace = runs[number][1].hex()
            times.append(1000 * timed(lambda lake=lake, trace=trace: load(lake, trace)))
    middle = [statistics.median(times) for times in taken]
    shown = (f"{size} {one:.0f} ms, the first {before:.0f} ms" for size, one, before in zip(sizes, middle, first))
    return middle, f"({'; '.join(shown)})"


def readme_queries() -> dict[str, str]:
    """Return the README's queries by the comment above each."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    block = re.search(r"Five questions people ask:\n\n```sql\n(.*?)```", text, re.DOTALL)
    if block is None:
        raise AssertionError("the README's five queries are not where they were")
    found = {}
    for part in block[1].split(";"):
        comment, _, query = part.strip().partition("\n")
        for name in QUERIES:
            if comment.startswith(f"-- {name}"):
                found[name] = query
    if found.keys() != QUERIES.keys():
        raise AssertionError(f"queries missing from the README: {QUERIES.keys() - found.keys()}")
    return found


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Return whether two results say the same: sums of floats may differ in their last digits, texts in their form."""

    def row(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in values[:3])

    def key(values: tuple[Any, ...]) -> str:
        return repr(values)

    pairs = list(zip(sorted(map(row, ours), key=key), sorted(map(row, theirs), key=key), strict=False))
    return len(ours) == len(theirs) and all(
        one == other or (isinstance(one, float) and math.isclose(one, other, rel_tol=1e-6))
        for left, right in pairs
        for one, other in zip(left, right, strict=True)
    )


def querying(spans: int, large: Path, rounds: int) -> list[Figure]:
    """Measure the README's queries over the lake and over the same data as JSON text, in turn."""
    lake = lake_of(spans, FOLDER)
    ours, theirs = connect(lake), connect_text(layout_of(spans, FOLDER))
    lean, many = connect_text(layout_of(spans, FOLDER, lean=True)), connect(large)
    print(
        f"info the lake holds {size_of(lake):.0f} MB, the same as JSON text {size_of(layout_of(spans, FOLDER)):.0f} MB"
    )
    figures = []
    for name, query in readme_queries().items():
        asked = QUERIES[name]
        if not same(rows(ours, query), rows(theirs, asked)):
            raise AssertionError(f"{name}: the two layouts give different answers")
        pairs = paired(lambda q=query: rows(ours, q), lambda q=asked: rows(theirs, q), rounds=rounds, warmup=1)
        middle, low, high = spread([peer / own for own, peer in pairs])
        own = statistics.median(own for own, _ in pairs)
        detail = f"(ours {own * 1000:.0f} ms; {large.name} {timed(lambda q=query: rows(many, q)) * 1000:.0f} ms)"
        if name in PROMOTED:
            bare = statistics.median(timed(lambda q=asked: rows(lean, q)) for _ in range(3))
            once = (
                one_shot(lambda: connect(lake), query),
                one_shot(lambda: connect_text(layout_of(spans, FOLDER)), asked),
            )
            print(
                f"info {name}: JSON text without contents takes {bare / own:.1f} times ours; "
                f"opened for this one query {once[1] / once[0]:.1f} times"
            )
            figures.append(Figure(f"{name}: JSON text against ours", middle, 10, "x", False, low, high, detail))
        else:
            print(
                f"info {name}: JSON text takes {middle:.2f} times ours [{low:.2f} .. {high:.2f}] {detail}", flush=True
            )
    return figures


def rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def one_shot(opened: Callable[[], Any], query: str) -> float:
    """Return the seconds to open and ask one query, the median of five."""

    def ask() -> None:
        with opened() as connection:
            rows(connection, query)

    return statistics.median(timed(ask) for _ in range(5))


def size_of(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000, help="size of the largest lake")
    parser.add_argument("--query-spans", type=int, default=10_000_000, help="size of both layouts that are queried")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each pair of queries")
    parser.add_argument("--remove", action="store_true", help="delete what was made, afterwards")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    lakes = [lake_of(spans, FOLDER) for spans in sorted({SMALL, min(MIDDLE, given.spans), given.spans})]
    print(f"info the lakes stand after {time.perf_counter() - started:.0f} s (made once)", flush=True)
    figures = loading(lakes) + querying(given.query_spans, lakes[-1], given.rounds)
    print(
        f"info peak memory of the measuring process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    if given.remove:
        remove_corpora(given.query_spans, lakes)
    return report("lake_load", figures)


def remove_corpora(query_spans: int, lakes: list[Path]) -> None:
    layouts = [layout_of(query_spans, FOLDER), layout_of(query_spans, FOLDER, lean=True)]
    for folder in (*lakes, lake_of(query_spans, FOLDER), *layouts):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
