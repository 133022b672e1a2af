"""Ten thousand pairs, half a million spans: `agent-replay compare` of two versions in a lake, on two cores.

    python benchmarks/cohort_pairs.py [--pairs 10000]

Each pair is a run of 25 spans of the old version and one of the new version with the same input. In half of the pairs
both did the same; in the other half the model answers otherwise from the middle of the run on, and all that comes later
differs. The new version says less and makes no other mistake: the report must see that, and nothing else. Seconds of a
shared machine say little, so the processors' time is printed beside them: what two idle cores would take of it. The corpus is made once, in build/benchmarks.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import runpy
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import lake_corpus
from lake_copies import is_stamped, made_by, write_stamp
from measure import Figure, report

from otel_agent_replay import semconv
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import AnswerSource, RecordedRun

FOLDER = Path("build/benchmarks")
OLD, NEW = "2.4.0", "2.5.0"
PAIRS_OF_A_FILE = 250
TURNS, MIDDLE, SPANS_OF_A_RUN = 8, 4, 25
SEED = 23
_AS_COMMAND = "--as-command"


class _Versioned(lake_corpus._RunMaker):
    """A run of one version: like the other version's up to the turn where they part."""

    def __init__(self, number: int, version: str, words: list[str], *, parts: bool) -> None:
        own = random.Random(f"{number} {version}")
        self._own, self._parts = own, parts
        lake_corpus.RUNS = 3_000  # in an hour, so that ten thousand pairs take three and a half
        super().__init__(number % lake_corpus.RUNS, random.Random(SEED * 1_000_003 + number), words)
        later_ms = number // lake_corpus.RUNS * lake_corpus.HOUR_MS
        started_ms = int.from_bytes(self._run_id[:6], "big") + later_ms
        tail = 0x7 << 76 | own.getrandbits(12) << 64 | 0b10 << 62 | own.getrandbits(62)
        self._run_id = started_ms.to_bytes(6, "big") + tail.to_bytes(10, "big")
        self._started_ns = self._now = self._started_ns + later_ms * 1_000_000
        self._trace_id, self._root_id = own.randbytes(16), own.randbytes(8)
        self._version, self._number = version, number
        self._replay, self._source = False, AnswerSource.LIVE

    def run(self) -> RecordedRun:
        for turn in range(TURNS):
            if turn == MIDDLE and self._parts:
                self._draw = self._own
            self._model_call()
            self._tool_call()
            self._tool_call()
        self._version, version = OLD, self._version  # versions fail alike
        self._draw = random.Random(self._number)
        recorded = self._finished()
        self._version = version
        return _of_version(recorded, version)

    def _text(self, count: int) -> str:
        return super()._text(count - 2 if self._draw is self._own and self._version == NEW and count == 8 else count)


def _of_version(recorded: RecordedRun, version: str) -> RecordedRun:
    root, *rest = recorded.spans
    span = replace(root.span, attributes={**root.span.attributes, semconv.VERSION_AGENT: version})
    run = replace(recorded.run, versions=replace(recorded.run.versions, agent=version))
    return replace(recorded, run=run, spans=(replace(root, span=span), *rest))


def _write(lake: Path, first: int, count: int) -> None:
    words = lake_corpus._vocabulary(random.Random(SEED))
    runs = [
        _Versioned(number, version, words, parts=number % 2 == 1).run()
        for number in range(first, first + count)
        for version in (OLD, NEW)
    ]
    write_runs(lake, runs, segments=[f"pairs-{first}"])


def lake_of(pairs: int) -> Path:
    """Return the lake, made when it is not there as this code makes it."""
    lake = FOLDER / f"lake-pairs-{pairs}"
    stamp = {"made by": made_by(Path(__file__)), "pairs": pairs}
    if not is_stamped(lake, stamp):
        shutil.rmtree(lake, ignore_errors=True)
        lake.mkdir(parents=True)
        firsts = range(0, pairs, PAIRS_OF_A_FILE)
        counts = [min(PAIRS_OF_A_FILE, pairs - first) for first in firsts]
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_write, [lake] * len(counts), firsts, counts))
        write_stamp(lake, stamp)
    return lake


@dataclass(frozen=True)
class Took:
    """What one command took: seconds, and seconds of processors, its own (one after the other) and its workers'."""

    seconds: float
    own: float
    workers: float

    @property
    def on_two_cores(self) -> float:
        """Seconds on two idle cores: what the workers share, and what no one can share."""
        return self.own + self.workers / 2


def compared(lake: Path, *more: str) -> tuple[Took, dict[str, object]]:
    """Run the command on the lake; return what it took and its document."""
    conditions = [" AND ".join([f"version_agent = '{version}'", *more]) for version in (OLD, NEW)]
    arguments = ["compare", "--lake", str(lake), "--json", "--a", conditions[0], "--b", conditions[1]]
    told = FOLDER / "cohort_pairs_own.json"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, _AS_COMMAND, str(told), *arguments], stdout=subprocess.PIPE, check=False, text=True
    )
    seconds = time.perf_counter() - started
    return Took(seconds, *json.loads(told.read_text())), json.loads(done.stdout)


def as_command(told: Path, arguments: list[str]) -> None:
    """Be `agent-replay`, and leave in a file what this process and its workers took of the processors."""
    sys.argv = ["agent-replay", *arguments]
    try:
        runpy.run_module("otel_agent_replay", run_name="__main__")
    finally:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        told.write_text(json.dumps([one.ru_utime + one.ru_stime for one in used]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000)
    pairs = parser.parse_args().pairs
    lake = lake_of(pairs)
    took, document = compared(lake)
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    verdicts = document["pairs"]["verdicts"]
    different = sorted(one["name"] for one in document["metrics"] if one["judgement"] == "different")
    took_parted, _ = compared(lake, "ordinal % 2 = 1")
    parted = verdicts.get("different", 0)
    shown = f"{2 * SPANS_OF_A_RUN * pairs:,} spans, {verdicts}"
    parts = f"{took.own:.0f} s of its own, {took.workers:.0f} s of its workers'"
    per_parted = 1000 * (took_parted.own + took_parted.workers) / max(1, parted)
    return report(
        "cohort_pairs",
        [
            Figure(f"compare {pairs:,} pairs", took.seconds, 60, "s", detail=shown),
            Figure(f"the same on two idle cores ({pairs:,} pairs)", took.on_two_cores, 60, "s", detail=parts),
            Figure("memory of its largest process", peak_mb, 800, "MB"),
            Figure("a pair that parts in the middle", per_parted, 20, "ms of a processor"),
            Figure(
                "metrics said to differ besides those made to",
                len({*different} - {"output tokens", "input tokens", "cost"}),
                0,
                "",
                detail=", ".join(different),
            ),
            Figure("made differences seen", float("output tokens" in different), 1, "", at_most=False),
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == [_AS_COMMAND]:
        as_command(Path(sys.argv[2]), sys.argv[3:])
    else:
        raise SystemExit(main())
