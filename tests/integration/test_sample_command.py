"""`agent-replay sample`: a cohort that says how it was drawn."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.replay.cohort import how_drawn, read_cohort
from tests.support.lake_runs import RunMaker


def lake_of(folder, *, count=40):
    """Runs of two agents; a tenth of them pay, one of them asks nothing of any tool."""
    makers = []
    for number in range(count):
        maker = RunMaker(number, agent="clerk" if number % 2 else "refunds")
        if number:
            maker.tool("look", {"order": number}, "found")
        if number % 10 == 5:
            maker.tool("pay", {"order": number}, "paid")
        makers.append(maker)
    write_runs(folder, [maker.run() for maker in makers], segments=["one"])
    return folder


def sample(lake, *arguments):
    return CliRunner().invoke(main, ["sample", "--lake", str(lake), *arguments])


def test_a_sample_says_how_it_was_drawn(tmp_path):
    """Every stratum is there, the rare ones too; weights add up to the population, and the file's first line tells."""
    out = tmp_path / "cohort.jsonl"
    done = sample(lake_of(tmp_path / "lake"), "--n", "8", "--stratify", "tool_path,status,language", "--out", str(out))
    assert done.exit_code == 0, done.output
    runs = read_cohort(out)
    assert len(runs) == 8
    assert sum(run.notes["weight"] for run in runs) == pytest.approx(40, abs=0.01)
    strata = {run.notes["stratum"] for run in runs}
    assert len(strata) == 3
    assert any("look > pay" in one for one in strata)
    drawn = how_drawn(out)
    assert (drawn["population"], drawn["drawn"], drawn["seed"]) == (40, 8, "sample")
    assert drawn["stratify"] == ["tool_path", "status", "language"]


def test_the_seed_decides(tmp_path):
    """The same seed draws the same runs, another one others; --json lists what the file would hold."""
    lake = lake_of(tmp_path / "lake")
    first, again, other = (
        json.loads(sample(lake, "--n", "10", "--seed", seed, "--json").stdout) for seed in ("1", "1", "2")
    )
    assert first == again
    assert first["schema"] == "agent-replay/sample"
    assert [run["run"] for run in first["runs"]] != [run["run"] for run in other["runs"]]


def test_without_a_file_the_cohort_goes_to_standard_output(tmp_path):
    """What is printed is a cohort file; what is said of it goes to standard error."""
    done = sample(lake_of(tmp_path / "lake"), "--n", "5", "--where", "agent = 'clerk'")
    path = tmp_path / "cohort.jsonl"
    path.write_text(done.stdout)
    assert len(read_cohort(path)) == 5
    assert how_drawn(path)["where"] == "agent = 'clerk'"
    assert "5 of 20 runs drawn" in done.stderr


def test_more_strata_than_runs_are_drawn_from_together(tmp_path):
    """Every run keeps a chance: what is too rare for a run of its own is one stratum."""
    done = sample(lake_of(tmp_path / "lake"), "--n", "3", "--stratify", "ordinal", "--json")
    document = json.loads(done.stdout)
    assert [(one["stratum"], one["runs"]) for one in document["strata"]] == [("(rare, together)", 40)]


@pytest.mark.parametrize("arguments", [["--where", "agent ="], ["--stratify", "colour"], ["--where", "false"]])
def test_what_cannot_be_drawn_is_a_usage_error(tmp_path, arguments):
    """Wrong SQL, a column that is not there and an empty population are said, with what to do."""
    done = sample(lake_of(tmp_path / "lake"), "--n", "5", *arguments)
    assert done.exit_code == 2
    assert "--where" in done.stderr


def test_a_header_is_no_run_and_only_the_first_line(tmp_path):
    """Readers skip the header; the same anywhere else is an error, because it is no run."""
    run = RunMaker(1).run_id.hex()
    path = tmp_path / "cohort.jsonl"
    path.write_text(f'{{"cohort": {{"seed": "1"}}}}\n{{"run": "{run}"}}\n')
    assert [one.run_id.hex() for one in read_cohort(path)] == [run]
    path.write_text(f'{{"run": "{run}"}}\n')
    assert how_drawn(path) == {}
