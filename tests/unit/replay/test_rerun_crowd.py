"""Many re-runs at once: one budget, one file of results, and nobody ends the crowd."""

from __future__ import annotations

import threading

import pytest

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.replay.rerun.crowd import Job, Purse, ResultsFile, is_done, jobs_of, run_jobs
from otel_agent_replay.replay.rerun.drift import Drift
from otel_agent_replay.replay.rerun.outcome import Parting, RerunResult, Use
from otel_agent_replay.replay.rerun.report import RerunReport, RerunStatus
from otel_agent_replay.replay.rerun.totals import exit_code, totals_of


def result(run="a", status=RerunStatus.FINISHED, *, lane="candidate", usd=None, parted=None, code="", **more):
    report = RerunReport(status, run, "f" * 32, "desk", code=code, drifted=(Drift("find", 2, 3, True),))
    return RerunResult(lane, 1, report, Use(cost_usd=usd), (("tape", 3), ("pool", 1)), parted, **more)


def made(job, usd):
    return result(job.run_id, lane=job.lane)


def test_results_come_out_of_their_file_as_they_went_in(tmp_path):
    """With drift, parting and use; a torn last line is not read, and the next result does not run into it."""
    file = ResultsFile(tmp_path / "results.jsonl")
    first, second = result("a", parted=Parting(3, None, "x", "y")), result("b", usd=0.5, unfrozen=("moved",))
    file.append(first)
    with file.path.open("ab") as torn:
        torn.write(b'{"run": "c", "la')
    again = ResultsFile(file.path)
    assert again.read() == [first]
    again.append(second)
    assert ResultsFile(file.path).read() == [first, second]
    file.path.write_text('{"run": 1}\n')
    with pytest.raises(ConfigurationError, match="line 1"):
        file.read()


def test_a_run_that_cannot_be_made_is_a_result_and_ends_nothing(tmp_path):
    """Errors of ours and of anybody else's; the others are made, in the order that was asked for."""

    def make(job, usd):
        if job.run_id == "b":
            raise CannotJudge("damaged")
        if job.run_id == "c":
            raise OSError("disk full")
        return made(job, usd)

    jobs = jobs_of(["a", "b", "c", "d"], ["candidate"], 1)
    heard = []
    found = run_jobs(jobs, make, results=ResultsFile(tmp_path / "r"), parallel=3, purse=Purse(None, side_by_side=3),
                     told=heard.append)  # fmt: skip
    assert [one.report.status.value for one in found] == ["finished", "not_begun", "not_begun", "finished"]
    assert [one.report.code for one in found[1:3]] == ["cannot_judge", "defect"]
    assert len(heard) == len(ResultsFile(tmp_path / "r").read()) == 4
    assert not any(is_done(one) for one in found[1:3])


def test_runs_go_side_by_side_and_never_more_than_asked_for(tmp_path):
    """Two are in flight at once, a third never."""
    both, most, lock = threading.Barrier(2, timeout=20), [0, 0], threading.Lock()

    def make(job, usd):
        with lock:
            most[0] += 1
            most[1] = max(most)
        both.wait()
        with lock:
            most[0] -= 1
        return made(job, usd)

    jobs = jobs_of(map(str, range(6)), ["candidate"], 1)
    run_jobs(jobs, make, results=ResultsFile(tmp_path / "r"), parallel=2, purse=Purse(None, side_by_side=2))
    assert most[1] == 2


@pytest.mark.parametrize("parallel", [1, 3])
def test_all_together_never_have_more_than_the_budget(tmp_path, parallel):
    """Each uses up what it was given: the sum is the budget, less what was spent before, and then nobody begins."""
    given = []

    def make(job, usd):
        given.append(usd)
        return result(job.run_id, usd=usd, status=RerunStatus.STOPPED, code="spending_limit")

    jobs = jobs_of(map(str, range(9)), ["candidate"], 1)
    purse = Purse(1.0, side_by_side=parallel, spent=0.25)
    found = run_jobs(jobs, make, results=ResultsFile(tmp_path / "r"), parallel=parallel, purse=purse)
    assert sum(given) <= 0.75 + 1e-9
    assert {one.report.code for one in found} == {"spending_limit"}
    assert not any(is_done(one) for one in found)


def test_what_is_not_used_is_there_for_the_next(tmp_path):
    """Each may have all that the others left."""
    given = []

    def make(job, usd):
        given.append(usd)
        return result(job.run_id, usd=0.25)

    run_jobs(jobs_of("abcd", ["candidate"], 1), make, results=ResultsFile(tmp_path / "r"),
             purse=Purse(1.0, side_by_side=1))  # fmt: skip
    assert given == [1.0, 0.75, 0.5, 0.25]


def test_what_a_killed_run_spent_is_all_that_it_had(tmp_path):
    """Nobody knows how much it was: the next ones do not get it."""
    given = []

    def make(job, usd):
        given.append(usd)
        return result(job.run_id, usd=0.0, status=RerunStatus.STOPPED, code="limit")

    jobs = jobs_of("ab", ["candidate"], 1)
    found = run_jobs(jobs, make, results=ResultsFile(tmp_path / "r"), purse=Purse(1.0, side_by_side=1))
    assert given == [1.0]
    assert found[1].report.reason == "the budget is spent"


def test_jobs_of_one_run_stand_together():
    """Lanes and repeats of a run before the next run's."""
    assert jobs_of(["a", "b"], ["baseline", "candidate"], 2)[:5] == [
        Job("a", "baseline", 1), Job("a", "baseline", 2), Job("a", "candidate", 1), Job("a", "candidate", 2),
        Job("b", "baseline", 1),
    ]  # fmt: skip


PARTED = Parting(3, 3, "x", "y")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([result()], 0),
        ([result(), result(parted=PARTED)], 1),
        ([result(status=RerunStatus.REFUSED)], 1),
        ([result(status=RerunStatus.NOT_BEGUN)], 125),
        ([result(), result(status=RerunStatus.NOT_BEGUN)], 1),
        ([result(lane="baseline", parted=PARTED), result()], 0),  # the noise floor is no verdict
        ([result(lane="baseline", parted=PARTED)], 1),
    ],
)
def test_exit_codes(results, expected):
    """0 alike, 1 otherwise, 125 where nothing could be judged; the candidate's lane counts where there is one."""
    assert exit_code(results) == expected


def test_lanes_in_numbers():
    """Sums over the runs of each lane, in the order observed, baseline, candidate."""
    lanes = totals_of([result(usd=0.5), result(status=RerunStatus.REFUSED, usd=0.25), result(lane="baseline")])
    assert [lane.lane for lane in lanes] == ["baseline", "candidate"]
    last = lanes[1]
    assert (last.runs, last.alike, dict(last.statuses)) == (2, 1, {"finished": 1, "refused": 1})
    assert (dict(last.answers), last.off_tape, last.cost_usd) == ({"tape": 6, "pool": 2}, 0.25, 0.75)
    assert (last.drifted_reads, lanes[0].cost_usd) == (2, None)
