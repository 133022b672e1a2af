"""A recording process is killed a hundred times; nothing that it was told to be written is lost."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.many_runs import ManyRuns
from otel_agent_replay.model import OutcomeStatus, RunStatus

ROOT = Path(__file__).parents[2]
ROUNDS, KILLS = 5, 20


def acknowledged(lake: Path, seed: int) -> list[list[str]]:
    """Run one round of kills; return what the killed workers had been told."""
    command = [sys.executable, "-m", "tests.support.killed_recorder", str(lake), str(KILLS), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines.pop() == ["done"]
    return lines


def test_a_hundred_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """After 100 SIGKILLs at random moments every acknowledged begin and end is in the sealed lake, bodies too."""
    lake = tmp_path / "lake"
    told: dict[str, list[list[str]]] = defaultdict(list)
    for seed in range(ROUNDS):
        for what, run, *rest in acknowledged(lake, seed):
            told[run].append([what, *rest])
        report = seal(lake)
        assert not report.failed
        assert report.open_segments == 0
    again = seal(lake)
    assert (again.runs, again.spans, again.segments_removed) == (0, 0, 0)
    assert not list((lake / "journal").glob("*.log"))
    catalog = Lake(lake)
    stored = {summary.run.run_id.hex(): summary for summary in catalog.runs()}
    assert set(told) <= set(stored)
    statuses = {summary.run.status for summary in stored.values()}
    assert statuses == {RunStatus.OK, RunStatus.PENDING}
    ends = 0
    loaded = ManyRuns(lake).load([bytes.fromhex(run) for run in told])
    for run, facts in told.items():
        recorded = loaded[bytes.fromhex(run)]
        nodes = {span.span.span_id.hex(): span.node for span in recorded.spans}
        for what, *rest in facts:
            if what == "begin":
                assert nodes[rest[0]].call.request.digest.hex() == rest[1]
                assert recorded.payload(bytes.fromhex(rest[1])) is not None
            elif what == "end":
                ends += 1
                outcome = nodes[rest[0]].outcome
                assert outcome.status is OutcomeStatus.OK
                assert outcome.result.digest.hex() == rest[1]
                assert recorded.payload(bytes.fromhex(rest[1])) is not None
            elif what == "finish":
                assert recorded.run.status is RunStatus.OK
    assert ends > 100
