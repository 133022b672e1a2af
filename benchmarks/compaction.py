"""Files, bytes and the time of a lookup before compaction and after it; what compaction costs a span; its memory.

    python benchmarks/compaction.py [--spans 20000] [--processes 32]

A lake as a busy service makes it: an hour of agent runs by 32 processes side by side, each of which has a few runs
sealed at a time into a file of its own. The fewer processes, the fewer files can hold a run of a given moment: below
some sixteen a lookup by a whole run id is quicker before compaction than after it. The same lookups are asked of the lake before and of the compacted one, in
turn, in one process, by processor time (the machine may be busy); so is compaction, beside the sealing of the runs.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lake_corpus import SPANS_OF_A_RUN, recorded_runs
from measure import Figure, report, spread

from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import CompactionReport, compact
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.views import connect
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Kind, RecordedRun

RUNS_OF_A_SEALING = 4
LOOKUPS = 30
_QUERY = "SELECT agent, version_agent, count(*), sum((cost_usd * 1e6)::BIGINT) FROM runs GROUP BY ALL ORDER BY ALL"
_MESSAGES = "SELECT count(DISTINCT run_id) FROM messages WHERE text ILIKE '%refund%'"


def batches(runs: Sequence[RecordedRun], processes: int) -> Iterator[Sequence[RecordedRun]]:
    """Yield runs as sealings take them: those of one process, in order of their start."""
    in_order = sorted(runs, key=lambda recorded: recorded.run.run_id)
    for process in range(processes):
        of_process = in_order[process::processes]
        for first in range(0, len(of_process), RUNS_OF_A_SEALING):
            yield of_process[first : first + RUNS_OF_A_SEALING]


def cpu(action: Callable[[], object]) -> float:
    """Return the processor seconds that `action` takes."""
    started = time.process_time()
    action()
    return time.process_time() - started


def seal_all(lake: Path, runs: Sequence[RecordedRun], processes: int) -> None:
    for number, batch in enumerate(batches(runs, processes)):
        write_runs(lake, batch, segments=[f"segment-{number}"])


def look_up(lake: Path, run_id: bytes) -> None:
    """Load a run by its id, with the bytes of its last model call."""
    recorded = Lake(lake).load(run_id)
    node = [node for node in recorded.nodes if node.kind is Kind.MODEL][-1]
    if not recorded.payload(node.call.request.digest):
        raise AssertionError("the request is not there")


def check(lake: Path, runs: Sequence[RecordedRun]) -> None:
    """Hold a tenth of the runs against what was written and against all their digests."""
    for recorded in runs[::10]:
        loaded = Lake(lake).load(recorded.run.run_id)
        if verify(loaded) or len(loaded.spans) != len(recorded.spans):
            raise AssertionError(f"run {recorded.run.run_id.hex()} is not what it was")


def answers(lake: Path) -> list[object]:
    with connect(lake) as connection:
        return [connection.execute(query).fetchall() for query in (_QUERY, _MESSAGES)]


def peak_of_compaction(lake: Path) -> int:
    """Return the MB that a process takes at most which does nothing but compact."""
    script = (
        "import re, sys; from pathlib import Path; from otel_agent_replay.lake.compaction import compact\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "before = peak()\n"
        "compact(Path(sys.argv[1]), grace_s=0)\n"
        "print(before, peak())"
    )
    done = subprocess.run([sys.executable, "-c", script, str(lake)], check=True, capture_output=True, text=True)
    before, after = map(int, done.stdout.split())
    return (after - before) // 1024


def lookups(before: Path, after: Path, runs: Sequence[RecordedRun]) -> list[Figure]:
    """Measure lookups by run id and by its beginning, and two queries, in both lakes in turn."""
    draw = random.Random(3)
    wanted = [draw.choice(runs).run.run_id for _ in range(LOOKUPS)]
    figures = []
    actions: dict[str, Callable[[Path], object]] = {
        "one run by its id": lambda lake: [look_up(lake, run_id) for run_id in wanted],
        "a run id by its beginning": lambda lake: [Lake(lake).find(run_id.hex()[:20]) for run_id in wanted[:3]],
        "runs by agent and version, in SQL": lambda lake: _asked(lake, _QUERY),
        "runs whose prompts say a word, in SQL": lambda lake: _asked(lake, _MESSAGES),
    }
    for name, action in actions.items():
        pairs = [(cpu(lambda act=action: act(after)), cpu(lambda act=action: act(before))) for _ in range(6)][1:]
        middle, low, high = spread([own / old for own, old in pairs])
        detail = f"(before {statistics.median(old for _, old in pairs):.3f} s)"
        figures.append(Figure(f"{name}: compacted against before", middle, 1.0, "x", True, low, high, detail))
    return figures


def _asked(lake: Path, query: str) -> list[object]:
    with connect(lake) as connection:
        return connection.execute(query).fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000, help="spans of the hour, at most 50,000")
    parser.add_argument("--processes", type=int, default=32, help="processes whose runs are sealed apart")
    given = parser.parse_args()
    runs = list(recorded_runs())[: max(1, given.spans // SPANS_OF_A_RUN)]
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        return report("compaction", measured(folder, runs, given.processes))
    finally:
        shutil.rmtree(folder)


def measured(folder: Path, runs: Sequence[RecordedRun], processes: int) -> list[Figure]:
    """Make the lakes and measure."""
    before, after, alone = folder / "before", folder / "after", folder / "alone"
    sealing = cpu(lambda: seal_all(before, runs, processes))
    for copy in (after, alone):
        shutil.copytree(before, copy)
    done: list[CompactionReport] = []
    compaction = cpu(lambda: done.append(compact(after, grace_s=0)))
    check(after, runs)
    if answers(before) != answers(after):
        raise AssertionError("the compacted lake answers otherwise")
    (told,) = done
    spans = sum(len(recorded.spans) for recorded in runs)
    files = f"({told.files_before} files become {told.files_after}, of {spans} spans)"
    print(f"info {json.dumps({'before': told.bytes_before, 'after': told.bytes_after})} bytes", flush=True)
    print(f"info compaction {spans / compaction:,.0f} spans a processor second", flush=True)
    print(f"info peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB", flush=True)
    return [
        Figure("files after compaction against before", told.files_after / told.files_before, 0.05, "x", detail=files),
        Figure("bytes after compaction against before", (told.bytes_after or 0) / told.bytes_before, 0.6, "x"),
        Figure("processor time of compaction against sealing the same runs", compaction / sealing, 1.5, "x"),
        Figure("memory that compaction takes", peak_of_compaction(alone), 512, "MB"),
        *lookups(before, after, runs),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
