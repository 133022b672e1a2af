"""Many runs loaded at once are the runs that are loaded one by one."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.many_runs import ManyRuns
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, RunMaker, full_run

HOUR_MS = 3_600_000


def test_they_are_what_loading_each_gives(tmp_path):
    """Runs of several hours, files and attempts, with losses and forks: spans, facts, losses and every payload."""
    runs = [full_run(number, started_ms=STARTED_MS + number % 3 * HOUR_MS) for number in range(30)]
    origin = runs[0]
    fork = replace(origin.run, run_id=RunMaker(77).run_id, origin_run_id=origin.run.run_id, fork_step=2)
    runs.append(replace(full_run(77), run=replace(full_run(77).run, origin_run_id=fork.origin_run_id, fork_step=2)))
    write_runs(tmp_path, runs[:20], segments=["one"])
    write_runs(tmp_path, runs[20:], segments=["two"])
    again = replace(full_run(1, started_ms=STARTED_MS + HOUR_MS).run, attempt=2)
    write_runs(tmp_path, [replace(full_run(1, started_ms=STARTED_MS + HOUR_MS), run=again)], segments=["three"])
    lake, wanted = Lake(tmp_path), [recorded.run.run_id for recorded in runs]
    found = ManyRuns(tmp_path).load([*wanted, RunMaker(500).run_id])
    assert set(found) == set(wanted)
    for run_id in wanted:
        alone, many = lake.load(run_id), found[run_id]
        assert many.run == alone.run
        assert many.spans == alone.spans
        assert many.losses == alone.losses
        assert many.attempts == alone.attempts
        for node in alone.nodes:
            for payload in (node.call and node.call.request, node.outcome and node.outcome.result):
                if payload:
                    assert many.payload(payload.digest) == alone.payload(payload.digest)


def test_nothing_is_found_in_a_lake_that_is_not_there(tmp_path):
    """An absent lake has none of the runs."""
    assert ManyRuns(tmp_path / "absent").load([RunMaker(1).run_id]) == {}
