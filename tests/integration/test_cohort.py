"""Cohorts: what a file names and what a condition over the lake finds."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.replay.cohort import CohortRun, read_cohort, runs_where, write_cohort
from tests.support.lake_runs import RunMaker


def test_a_cohort_comes_back_as_it_was_written(tmp_path):
    """Runs keep their order and what more was said of them; a run named twice is there once."""
    runs = [CohortRun(RunMaker(2).run_id, {"step": 4, "why": "other tool"}), CohortRun(RunMaker(1).run_id)]
    write_cohort(tmp_path / "cohort.jsonl", [*runs, CohortRun(runs[0].run_id)])
    assert read_cohort(tmp_path / "cohort.jsonl") == runs
    lines = (tmp_path / "cohort.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"run": RunMaker(2).run_id.hex(), "step": 4, "why": "other tool"}


@pytest.mark.parametrize(
    "line",
    [
        "0198",
        "[]",
        "{}",
        '{"run": "0198c2"}',
        '{"run": 7}',
        '{"run": "%s"}' % ("x" * 32),
        '{"run_id": "%s"}' % ("0" * 32),
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path, line):
    """What is no run stops the reading and says which line it is."""
    path = tmp_path / "cohort.jsonl"
    path.write_text(f'{{"run": "{RunMaker(1).run_id.hex()}"}}\n\n{line}\n')
    with pytest.raises(ConfigurationError, match="line 3 of"):
        read_cohort(path)


def test_a_condition_picks_runs_of_the_lake(tmp_path):
    """The condition is over the view `runs`, the other views at hand; what it does not hold for stays out."""
    makers = [RunMaker(number, agent="clerk" if number % 2 else "refunds") for number in range(6)]
    makers[3].tool("search", {"q": "x"}, "y")
    write_runs(tmp_path, [maker.run() for maker in makers], segments=["one"])
    odd = [CohortRun(makers[number].run_id) for number in (1, 3, 5)]
    assert runs_where(tmp_path, "agent = 'clerk'") == odd
    assert runs_where(tmp_path, "agent = 'clerk' AND run_id IN (SELECT run_id FROM tool_calls) -- why") == odd[1:2]
    assert runs_where(tmp_path, "agent = 'nobody'") == []
    assert runs_where(tmp_path / "absent", "true") == []


@pytest.mark.parametrize("condition", ["", "agent =", "colour = 'red'", "true) -- ;", "agent = 'a' ORDER BY agent"])
def test_a_wrong_condition_is_a_usage_error(tmp_path, condition):
    """SQL that is no condition is refused with what it must be."""
    write_runs(tmp_path, [RunMaker(1).run()], segments=["one"])
    with pytest.raises(ConfigurationError, match="what stands behind WHERE"):
        runs_where(tmp_path, condition)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path):
    """An absent file and an absent folder are usage errors that name the path."""
    with pytest.raises(ConfigurationError, match="absent"):
        read_cohort(tmp_path / "absent.jsonl")
    with pytest.raises(ConfigurationError, match="absent"):
        write_cohort(tmp_path / "absent" / "cohort.jsonl", [])
