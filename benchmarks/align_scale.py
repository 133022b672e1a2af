"""How the comparison of two runs grows: a hundred thousand spans a side, and the worst shapes; time and memory.

Judged are seconds of processor time, growth (ten times the spans should take about ten times as long) and the peak of
memory that comparing added, each in a process of its own. Python's search for garbage is off, as in `agent-replay diff`.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from measure import Figure, report
from mutated_runs import Maker, Piece, recorded

from otel_agent_replay.model import Kind, RecordedRun, RecordedSpan, Run, RunStatus, Span

LARGE = 100_000
Shape = Callable[[int], tuple[Piece, Piece]]


def agents(count: int) -> tuple[Piece, Piece]:
    """A run and its copy with forty mutations."""
    maker = Maker(7)
    root = maker.run(count)
    mutated, _ = maker.mutate(root, ("insert", "payload", "delete", "reorder"), 40 / count)
    return root, mutated


def unrelated(count: int) -> tuple[Piece, Piece]:
    """Two runs that have only their labels in common."""
    return Maker(1).run(count), Maker(2).run(count)


def wide(count: int) -> tuple[Piece, Piece]:
    """All under one root: every hundredth differs, ten are gone."""
    maker = Maker(3)
    root = Piece(0, Kind.RUN, "agent", children=[maker.leaf(Kind.TOOL) for _ in range(count)])
    other = root.copy()
    for node in other.children[50::100]:
        node.asks += " altered"
    for place in range(10):
        del other.children[place * count // 11]
    return root, other


def deep(count: int) -> tuple[Piece, Piece]:
    """A chain a twentieth as deep as there are spans elsewhere (paths grow with depth); its last node differs."""
    made = []
    for end in ("one", "other"):
        below = Piece(count // 20, Kind.TOOL, "search", end)
        for uid in range(count // 20 - 1, 0, -1):
            below = Piece(uid, Kind.SCOPE, "step", children=[below])
        made.append(Piece(0, Kind.RUN, "agent", children=[below]))
    return made[0], made[1]


def alike(count: int) -> tuple[Piece, Piece]:
    """Siblings that are all the same call, ten fewer in the other run."""
    root = Piece(0, Kind.RUN, "agent", children=[Piece(n, Kind.TOOL, "poll", "x", "y") for n in range(1, count)])
    other = root.copy()
    del other.children[:10]
    return root, other


def swapped(count: int) -> tuple[Piece, Piece]:
    """Calls that ran side by side, every two neighbours in another order."""
    root = Piece(0, Kind.RUN, "agent", side_by_side=True)
    root.children = [Piece(n, Kind.TOOL, "search", f"ask {n}", "y") for n in range(1, count)]
    other = root.copy()
    other.children[:-1:2], other.children[1::2] = other.children[1::2], other.children[:-1:2]
    return root, other


def foreign_chain(count: int) -> tuple[RecordedRun, RecordedRun]:
    """Spans of other libraries, each below the one before it, as deep as there are spans; the last one fails."""
    made = []
    for seed, status in ((1, 1), (2, 2)):
        run_id = seed.to_bytes(16, "big")
        places = [n.to_bytes(8, "big") if n else b"" for n in range(count + 1)]
        spans = [
            Span(run_id, places[n], "step", 10**18 + n, 10**18 + 3 * count - n, places[n - 1])
            for n in range(1, count + 1)
        ]
        spans[-1] = replace(spans[-1], status_code=status)
        run = Run(run_id, run_id, places[1], "agent", 10**18, status=RunStatus.OK)
        made.append(RecordedRun(run, tuple(map(RecordedSpan, spans)), lambda _: None))
    return made[0], made[1]


SHAPES: dict[str, Shape] = {
    "agent runs, 40 mutations": agents,
    "two unrelated runs": unrelated,
    "children of one root": wide,
    "a chain a twentieth as deep": deep,
    "identical siblings": alike,
    "swapped siblings": swapped,
}
DEEP = "a chain of other libraries' spans"


def child(name: str, count: int) -> None:
    """Compare one pair and print what it took; memory is what comparing added to the runs themselves."""
    sys.setrecursionlimit(10**6)
    if name == DEEP:
        a, b = foreign_chain(count)
    else:
        a, b = (recorded(one, number) for number, one in enumerate(SHAPES[name](count), start=1))
    from otel_agent_replay.compare import compare

    gc.collect()
    gc.disable()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    comparison = compare(a, b)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = {"seconds": seconds, "added_mb": (peak - before) / 1024, "peak_mb": peak / 1024}
    print(json.dumps({**facts, "changes": len(comparison.changes), "pairs": len(comparison.alignment.pairs)}))


def measured(name: str, count: int) -> dict[str, float]:
    """Run a child process and return what it printed."""
    command = [sys.executable, __file__, name, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Measure every shape at a tenth and at the whole size."""
    figures = []
    for name in (*SHAPES, DEEP):
        small, large = measured(name, LARGE // 10), measured(name, LARGE)
        detail = f"{large['seconds']:.1f} s, {large['changes']} changes, {large['peak_mb']:.0f} MB with both runs"
        growth = large["seconds"] / small["seconds"]
        figures.append(
            Figure(f"{name}: {LARGE:,} spans a side", round(large["seconds"], 2), 20, "s of processor", detail=detail)
        )
        figures.append(Figure(f"{name}: time for ten times the spans", round(growth, 1), 30, "times"))
        figures.append(Figure(f"{name}: memory of comparing", round(large["added_mb"]), 1500, "MB"))
    return report("align_scale", figures)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(sys.argv[1], int(sys.argv[2]))
    else:
        raise SystemExit(main())
