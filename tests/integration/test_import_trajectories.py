"""`agent-replay import` of agents' trajectories: runs that can be queried, shown, compared and judged, not replayed."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.imports.files import read_file
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind
from otel_agent_replay.payload.redaction import Redaction
from tests.support.recordings import data_folder
from tests.support.trajectories import desk_messages, tau_record, written

real = pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")


def cli(*arguments, lake, code=0):
    command = arguments[: 2 if arguments[0] == "case" else 1]
    done = CliRunner().invoke(main, [*command, "--lake", str(lake), *map(str, arguments[len(command) :])])
    assert done.exit_code == code, done.output
    return done.stdout


def sql(lake, query):
    return json.loads(cli("sql", query, "--json", lake=lake))


@pytest.fixture
def lake(tmp_path):
    """A lake with two trials of one task: the second one books another seat, and fails."""
    records = [tau_record(), tau_record(trial=1, reward=0.0, seat="14C", answer="I have booked 14C.")]
    folder = tmp_path / "lake"
    cli("import", written(tmp_path, "results.json", records), lake=folder)
    return folder


def runs_of(lake):
    rows = sql(lake, "SELECT run_id FROM labels WHERE name = 'trial' ORDER BY value.integer")
    return [row["run_id"] for row in rows]


def test_import_tells_what_came_and_twice_is_once(tmp_path):
    """--json names the runs and their spans; importing a touched copy again gives the same and adds nothing."""
    path = written(tmp_path, "results.json", [tau_record(), tau_record(trial=1)])
    first = json.loads(cli("import", path, "--json", lake=tmp_path / "lake"))
    copy = Path(shutil.copy(path, tmp_path / "copy.json"))
    os.utime(copy, (1, 1))
    again = json.loads(cli("import", copy, "--json", lake=tmp_path / "lake"))
    assert first == again
    assert (first["span_count"], len(first["traces"]), first["anomalies"]) == (18, 2, [])
    assert len(Lake(tmp_path / "lake").runs()) == 2


def test_one_file_of_several_that_cannot_be_read(tmp_path):
    """What was read before it is kept, and the error names the file."""
    good = written(tmp_path, "good.json", desk_messages())
    bad = written(tmp_path, "bad.json", [{"task_id": 1, "traj": [{"role": "boss"}]}])
    done = CliRunner().invoke(main, ["import", "--lake", str(tmp_path / "lake"), str(good), str(bad)])
    assert done.exit_code == 125
    assert "bad.json#0 traj[0]" in done.output
    assert len(Lake(tmp_path / "lake").runs()) == 1


def test_a_line_that_cannot_be_read_is_left_out_and_told(tmp_path):
    """Of JSON lines the others are imported; exit code 1 says that something was left out."""
    lines = [json.dumps({"messages": desk_messages(seat=seat)}) for seat in ("1A", "2B")]
    path = written(tmp_path, "many.jsonl", "\n".join([lines[0], '{"messages": [', lines[1]]))
    told = json.loads(cli("import", path, "--json", lake=tmp_path / "lake", code=1))
    assert len(told["traces"]) == 2
    assert [(one["code"], "line 2" in one["detail"]) for one in told["anomalies"]] == [("unreadable", True)]


def test_sql_sees_rewards_messages_and_calls(lake):
    """Rewards are labels; the views messages, tool_calls and model_calls read an imported run as any other."""
    good, bad = runs_of(lake)
    rewards = sql(lake, "SELECT run_id, value.number AS reward FROM labels WHERE name = 'reward'")
    assert {row["run_id"]: row["reward"] for row in rewards} == {good: 1.0, bad: 0.0}
    (answer,) = sql(lake, f"SELECT text FROM messages WHERE run_id = '{bad}' AND direction = 'output' AND step = 8")
    assert answer["text"] == "I have booked 14C."
    said = sql(lake, f"SELECT count(*) AS n FROM messages WHERE run_id = '{good}' AND direction = 'input'")
    assert said == [{"n": 2 + 4 + 6 + 8}]
    calls = sql(lake, f"SELECT name, arguments, side_effect FROM tool_calls WHERE run_id = '{bad}' ORDER BY step")
    assert [(row["name"], json.loads(row["arguments"]), row["side_effect"]) for row in calls] == [
        ("search_direct_flight", {"to": "OSL"}, "read"),
        ("book_reservation", {"seat": "14C"}, "write"),
    ]
    took = sql(lake, "SELECT count(*) AS n FROM model_calls WHERE duration_ms IS NOT NULL")
    assert took == [{"n": 0}]


def test_show_says_what_is_not_known(lake):
    """The tree shows steps without times, --coverage why, and a step its messages."""
    good = runs_of(lake)[0]
    assert "never ended" not in cli("show", good, lake=lake)
    assert "the file has no times" in cli("show", good, "--coverage", lake=lake)
    step = json.loads(cli("show", good, "--step", "2", "--json", lake=lake))
    asks = step["messages"]["gen_ai.output.messages"][0]["parts"][0]
    assert (asks["type"], asks["name"]) == ("tool_call", "search_direct_flight")


def test_two_trials_are_compared(lake):
    """The departure is the model's other call to an equal request, and the write with another seat ranks first."""
    good, bad = runs_of(lake)
    report = json.loads(cli("diff", good, bad, "--format", "json", lake=lake, code=1))
    departure = report["departure"]
    assert departure["cause"] == "model answered differently to an equal request"
    assert departure["at"]["step"] == 6
    assert "request of a write differs" in cli("diff", good, bad, "--format", "markdown", lake=lake, code=1)


def test_a_user_who_says_something_else_is_the_source(tmp_path):
    """Where trials part at the user's turn, the evidence says that it came from outside the agent."""
    other = tau_record(trial=1)
    other["traj"][1]["content"] = "I want to go to Oslo."
    lake = tmp_path / "lake"
    cli("import", written(tmp_path, "results.json", [tau_record(), other]), lake=lake)
    assert "the user said something else to the same message" in cli("diff", *runs_of(lake), lake=lake, code=1)


def test_a_case_of_an_imported_run_is_judged_by_its_invariants(lake, tmp_path):
    """A case of the failing trial rejects it and accepts the good one, by invariants over calls alone."""
    good, bad = runs_of(lake)
    cli("case", "add", bad, "--good", good, "--name", "seat", "--into", tmp_path / "cases", lake=lake)
    stated = tmp_path / "cases" / "seat" / "case.yaml"
    assert "book_reservation" in stated.read_text(encoding="utf-8")
    checked = CliRunner().invoke(main, ["case", "check", str(stated.parent)])
    assert checked.exit_code == 0, checked.output


def gate(lake, cases, *arguments):
    return CliRunner().invoke(main, ["gate", "--lake", str(lake), str(cases), *arguments])


@pytest.fixture
def cases(lake, tmp_path):
    """A case of the failing trial, which accepts the good one."""
    good, bad = runs_of(lake)
    folder = tmp_path / "cases"
    cli("case", "add", bad, "--good", good, "--name", "seat", "--into", folder, "--no-redact", lake=lake)
    return folder


def test_a_gate_holds_recorded_runs_against_a_case(lake, cases, tmp_path):
    """Imported runs with the case's input are judged by its invariants: right ones ship, one wrong of two does not."""
    right = [tau_record(trial=trial, answer=f"All right, {trial}.") for trial in (2, 3)]
    cli("import", written(tmp_path, "right.json", right), lake=lake)
    named = "run_id IN (SELECT run_id FROM labels WHERE name = 'trial' AND value.integer {})".format
    ships = gate(lake, cases, "--mode", "recorded", "--where", named("IN (2, 3)"), "--json")
    assert ships.exit_code == 0, ships.output
    rows = {row["role"]: row for row in json.loads(ships.stdout)["cases"]}
    assert [one["means"] for one in rows["bad"]["trials"]] == ["recorded", "recorded"]
    wrong = tau_record(trial=4, seat="14C")
    cli("import", written(tmp_path, "wrong.json", [wrong]), lake=lake)
    fails = gate(lake, cases, "--mode", "recorded", "--where", named("IN (3, 4)"))
    assert fails.exit_code == 1, fails.output
    assert "recorded before, nothing ran" in fails.output


def test_a_gate_that_finds_no_run_of_the_input_cannot_judge(lake, cases, tmp_path):
    """Runs of another task say nothing of the case: unknown, which is no pass; a filter that fits none is an error."""
    cli("import", written(tmp_path, "other.json", [tau_record(task=5, trial=9)]), lake=lake)
    where = "run_id IN (SELECT run_id FROM labels WHERE name = 'task' AND value.text = '5')"
    done = gate(lake, cases, "--mode", "recorded", "--where", where)
    assert done.exit_code == 125, done.output
    assert "no recorded run has its input" in done.output
    assert "fits no run" in gate(lake, cases, "--mode", "recorded", "--where", "agent = 'nobody'").output
    assert gate(lake, cases, "--mode", "recorded").exit_code == 2
    assert gate(lake, cases, "--where", where).exit_code == 2


@pytest.mark.parametrize("mode", ["auto", "exact", "rerun"])
def test_a_gate_does_not_run_an_imported_case(lake, cases, mode):
    """Its code cannot be run again: not decided, with the reason and the way that is left."""
    done = gate(lake, cases, "--mode", mode, "--entry", "json:dumps")
    assert done.exit_code == 125, done.output
    assert "was imported" in done.output
    assert "--mode recorded" in done.output


def test_an_imported_run_is_not_executed_again(lake):
    """Exact replay cannot judge a run that was imported, and says why."""
    good = runs_of(lake)[0]
    done = CliRunner().invoke(main, ["replay", "--lake", str(lake), good, "--entry", "json:dumps"])
    assert done.exit_code == 125
    assert "was imported" in done.output


TRAJECTORIES = {
    "tau-bench/*.json": ("tau-bench", 48, {"model": 698, "tool": 343, "input": 403}),
    "tau2-bench/*.json": ("tau2-bench", 8, {"model": 85, "tool": 49, "input": 48}),
    "swe-agent/*/*.traj": ("swe-agent", 12, {"model": 114, "tool": 114, "input": 12}),
    "mini-swe-agent/*.traj.json": ("chat", 2, {"model": 12, "input": 14}),
    "ljoukov-llm/*/*/run-?.json": ("ljoukov-llm", 54, {"model": 514, "tool": 826}),
    "who-and-when/*/*.json": ("who-and-when", 24, {"model": 367, "tool": 43, "input": 8}),
    "inspect-ai/*_popularity.json": ("inspect", 3, {"model": 3, "input": 3}),
    "inspect-ai/*_security-guide.json": ("inspect", 3, {"model": 6, "input": 3}),
    "inspect-ai/log_[filmrs]*s.json": ("inspect", 2, {"model": 2, "input": 2}),
    "inspect-ai/*.eval": ("inspect", 6, {"model": 11, "tool": 5, "input": 6}),
    "inspect-ai/log_tool_call_error.json": ("inspect", 1, {"tool": 11}),
    "inspect-ai/utility_*.json": ("inspect", 8, {"model": 25, "tool": 5}),
}
"""Files -> the format that `auto` tells, runs, and steps of each kind. The greeting of tau2-bench is no model step."""


@pytest.mark.real
@real
@pytest.mark.parametrize("pattern", TRAJECTORIES)
def test_real_trajectories_have_their_steps(pattern):
    """Every file of trajectories is told for what it is, and each answer, call and user's turn in it is a step."""
    format_name, runs, steps = TRAJECTORIES[pattern]
    found = Counter()
    for path in sorted(data_folder().glob(pattern)):
        file = read_file(path)
        assert file.format == format_name, path
        for recording in file.recordings:
            recorded = recording.build(1, Redaction.default()).run
            found["runs"] += 1
            found.update(node.kind.value for node in recorded.nodes if node.step is not None)
            requests = [node.call.request for node in recorded.nodes if node.kind is Kind.MODEL]
            assert all(len(recorded.payload(request.digest)) == request.size for request in requests)
        assert not file.anomalies
    assert found == {"runs": runs, **steps}


@pytest.mark.real
@real
def test_a_real_benchmark_is_queried_and_compared(tmp_path):
    """All of tau-bench in a lake: sums by SQL, and two halves of its trials compared task by task."""
    lake = tmp_path / "lake"
    told = json.loads(cli("import", *data_folder().glob("tau-bench/*.json"), "--json", lake=lake))
    assert (len(told["traces"]), told["span_count"]) == (48, 48 + 698 + 343 + 403)
    rows = sql(lake, "SELECT count(*) AS runs, sum(model_call_count) AS calls, count(ended_at) AS ended FROM runs")
    assert rows == [{"runs": 48, "calls": 698, "ended": 0}]
    (passed,) = sql(lake, "SELECT count(*) AS n FROM labels WHERE name = 'reward' AND value.number = 1")
    assert passed == {"n": 6}
    trials = "run_id IN (SELECT run_id FROM labels WHERE name = 'trial' AND value.integer IN {})".format
    halves = CliRunner().invoke(
        main, ["compare", "--lake", str(lake), "--a", trials("(0, 1)"), "--b", trials("(2, 3)"), "--json"]
    )
    report = json.loads(halves.stdout)
    assert len(report["cases"]) == 12


@pytest.mark.real
@real
def test_real_inspect_logs_without_runs_say_so():
    """A log that was cancelled before its first sample, and one that is no JSON, are errors with a reason."""
    folder = data_folder() / "inspect-ai"
    for name, said in (
        ("log_valid.txt", "without samples"),
        ("log_with_nan.txt", "without samples"),
        ("log_invalid.txt", ""),
    ):
        done = CliRunner().invoke(main, ["import", "--lake", "/nonexistent", str(folder / name)])
        assert done.exit_code == 125
        assert said in done.output
