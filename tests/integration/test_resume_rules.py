"""Who may go on with a run, how far, with which code, and with whose approval."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import threading
import time

import pytest

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.model import Kind, RunStatus
from otel_agent_replay.replay.continued_report import ContinuedStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.resume_world import KILLED, Theatre, until
from tests.support.shares import shared


def replayed(theatre, play, *arguments):
    """Replay the run of this lake exactly: it is the same."""
    verdict = theatre.replay(play, theatre.run().run, *arguments)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


def ledger_rows(theatre):
    """Return everything that the ledger holds but the times of its leases."""
    with sqlite3.connect(theatre.lake / "ledger.sqlite") as book:
        tables = [name for (name,) in book.execute("select name from sqlite_master where type = 'table'")]
        rows = {name: sorted(map(repr, book.execute(f"select * from {name}"))) for name in tables}
    book.close()
    return rows


# --- one worker at a time ---


def test_a_second_worker_is_told_that_the_run_is_busy(theatre, world):
    """While one worker finishes a run, another that wants it is told so, and changes nothing."""
    theatre.record("patient", "x", kill_at="before:2")
    world.arrived["/slow"], world.hold["/slow"] = threading.Event(), threading.Event()
    first = theatre.start_resuming("patient", theatre.run().run, "x")
    assert world.arrived["/slow"].wait(30), first.output
    scene = theatre.resume("patient", theatre.run().run, "x", status=75)
    assert "RunBusy" in scene.output
    assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.WAITING, "run_busy")
    world.hold.pop("/slow").set()
    assert first.wait() == 0, first.output
    assert set(world.called.values()) == {1}
    assert theatre.run().run.status is RunStatus.OK


def test_a_slow_tool_is_not_called_again_while_its_worker_lives(theatre, world):
    """A call that takes longer than the lease keeps the run: its worker renews, and nobody calls it a second time."""
    world.arrived["/slow"], world.hold["/slow"] = threading.Event(), threading.Event()
    scene = theatre.start("patient", "x", environment={"lease_s": "1"})
    assert world.arrived["/slow"].wait(30), scene.output
    run_id = bytes.fromhex(theatre.run_ids()[0])
    begun = theatre.book().run(run_id).lease_expires_ns
    until(lambda: theatre.book().run(run_id).lease_expires_ns > begun + 1_500_000_000, "the lease was renewed")
    theatre.resume("patient", theatre.run().run, "x", status=75)
    assert theatre.report.code == "run_busy"
    world.hold.pop("/slow").set()
    assert scene.wait() == 0, scene.output
    assert set(world.called.values()) == {1}


def test_a_worker_stopped_beyond_its_lease_writes_nothing_more(theatre, world):
    """A stalled worker's run is finished by another; continued, the first learns it, and writes nothing more."""
    world.arrived["/slow"], world.hold["/slow"] = threading.Event(), threading.Event()
    stalled = theatre.start("patient", "x", environment={"lease_s": "1"})
    assert world.arrived["/slow"].wait(30), stalled.output
    os.kill(stalled.pid, signal.SIGSTOP)
    run_id = bytes.fromhex(theatre.run_ids()[0])
    until(lambda: theatre.book().run(run_id).lease_expires_ns < time.time_ns(), "the lease is over")
    world.hold.pop("/slow").set()
    theatre.resume("patient", theatre.run().run, "x")
    done, rows = dict(world.done), ledger_rows(theatre)
    os.kill(stalled.pid, signal.SIGCONT)
    assert stalled.wait() == 75, stalled.output
    assert "LeaseLost" in stalled.output
    assert (dict(world.done), ledger_rows(theatre)) == (done, rows)
    assert set(done.values()) == {1}
    assert sorted(world.asked.values()) == [1]
    resumed = theatre.run()
    assert resumed.run.status is RunStatus.OK
    replayed(theatre, "patient", "x")


# --- how far ---


@pytest.mark.parametrize("where", ["recorded", "resumed"])
def test_beyond_max_steps_the_run_is_aborted_and_says_so(theatre, world, where):
    """A run that wants more steps than it may is aborted, also by an agent that catches everything, and stays it."""
    if where == "recorded":
        theatre.record("shy", "x", status=1, max_steps="3")
    else:
        theatre.record("shy", "x", kill_at="after:2")
        theatre.resume("shy", theatre.run().run, "x", status=1, max_steps="3")
        assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.STOPPED, "step_limit")
        assert "3 steps" in theatre.report.reason
        assert theatre.report.exit_code == 1
    assert len(world.asked) == 3
    run = theatre.run().run
    assert run.status is RunStatus.ABORTED
    assert theatre.book().run(run.run_id).status == "aborted"
    assert len(theatre.resume("shy", run, "x").result) == 6
    assert set(world.asked.values()) == {1}
    assert theatre.run().run.status is RunStatus.OK


def test_a_finished_run_is_not_resumed(theatre, world):
    """There is nothing to resume in a run that has finished: it is refused, and nothing is called."""
    theatre.record("writes", "refund", "x")
    theatre.resume("writes", theatre.run().run, "refund", "x", status=1)
    assert theatre.report.status is ContinuedStatus.NOT_BEGUN
    assert "has finished" in theatre.report.reason
    assert theatre.report.exit_code == 125
    assert set(world.called.values()) == set(world.asked.values()) == {1}


def test_other_arguments_are_not_the_recorded_run(theatre, world):
    """A command with another input is not the recorded one: refused before anything is called, unless told."""
    theatre.record("writes", "refund", "x", kill_at="before:1")
    theatre.resume("writes", theatre.run().run, "refund", "y", status=1)
    assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.NOT_BEGUN, "fingerprint")
    assert "input" in theatre.report.reason
    assert not world.asked
    theatre.resume("writes", theatre.run().run, "refund", "y", changed="true")
    assert sorted(world.asked) == ["y first", "y last"]


def test_code_that_departs_is_stopped_before_it_changes_anything(theatre, world):
    """Code that asks for something else than is on record departs loudly: no live call, no write, exit code 1."""
    theatre.record("wanders", str(theatre.folder / "x"), kill_at="after:2")
    theatre.resume("wanders", theatre.run().run, str(theatre.folder / "x"), status=1)
    assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.DEPARTED, "departure")
    assert theatre.report.exit_code == 1
    assert dict(world.asked) == {"first": 1}
    assert set(world.called.values()) == {1}
    assert theatre.run().run.status is RunStatus.DEPARTED


# --- after an error, or without a ledger ---


@pytest.mark.parametrize("ledger", ["file", ""])
def test_a_run_that_failed_tries_its_last_call_again(stage, world, tmp_path, ledger):
    """A run that ended in a provider's error is resumed: that call is made again, the rest comes from the tape."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    world.fails_prompt["x last"] = 1
    theatre.record("writes", "refund", "x", status=1)
    assert theatre.run().run.status is RunStatus.ERROR
    theatre.resume("writes", theatre.run().run, "refund", "x")
    assert dict(world.asked) == {"x first": 1, "x last": 2}
    assert set(world.called.values()) == {1}
    run = theatre.run().run
    assert (run.status, run.attempt) == (RunStatus.OK, 2)
    replayed(theatre, "writes", "refund", "x")


@pytest.mark.parametrize(
    ("point", "sealed"),
    shared(
        itertools.product(["during:3", "after:2", "before:5"], [True, False]),
        ("during:3", True),
        ("after:2", False),
        ("before:5", True),
    ),
)
def test_a_lost_ledger_repeats_no_finished_effect(theatre, world, point, sealed):
    """The recording alone is enough: with the ledger gone, sealed or not, what was done is not done again."""
    theatre.record("pays_twice", "x", kill_at=point)
    if sealed:
        seal(theatre.lake)
    for path in theatre.lake.glob("ledger.sqlite*"):
        path.unlink()
    theatre.resume("pays_twice", theatre.run().run, "x")
    assert set(world.done.values()) == {2}
    replayed(theatre, "pays_twice", "x")


@pytest.mark.parametrize("sealed", shared([True, False], True))
def test_a_run_that_dies_again_and_again_is_finished_in_the_end(theatre, world, sealed):
    """Killed at one step after the other, attempt after attempt, the run is finished, each effect once."""
    points = ["during:1", "during:3", "during:4", "during:7", "after:7", "during:9", "after:10", "during:11"]
    theatre.record("desk", "x", kill_at=points[0])
    for point in points[1:]:
        if sealed:
            seal(theatre.lake)
        theatre.resume("desk", theatre.run().run, "x", kill_at=point)
    theatre.resume("desk", theatre.run().run, "x")
    assert set(world.done.values()) == {1}
    assert sorted(world.asked.values()) == [2, 2, 2]
    resumed = theatre.run()
    assert resumed.run.attempt == len(points) + 1
    assert sorted(node.step for node in resumed.nodes if node.step is not None) == list(range(1, 12))
    replayed(theatre, "desk", "x")


# --- approvals ---


def test_a_granted_approval_is_not_asked_for_again(theatre, world):
    """An approval on the tape is not asked for again; the call that it is for takes place once."""
    theatre.record("approved", "x", kill_at="after:2")
    theatre.resume("approved", theatre.run().run, "x")
    assert world.called['/asked {"order":"x","cents":5}'] == 1
    assert set(world.done.values()) == {1}
    replayed(theatre, "approved", "x")


@pytest.mark.parametrize("ledger", ["file", ""])
def test_an_approval_is_spent_with_the_call_also_when_the_provider_fails_afterwards(stage, world, tmp_path, ledger):
    """Approved, paid, then a provider's error: the resumed run does not pay again, and a new payment needs approval."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    world.fails_prompt["last"] = 1
    theatre.record("approved", "x", True, status=1)
    assert theatre.run().run.status is RunStatus.ERROR
    scene = theatre.resume("approved", theatre.run().run, "x", True)
    assert world.called['/paid {"order":"x","cents":5}'] == 1
    assert world.called['/asked {"order":"x","cents":5}'] == 1
    assert "approv" in scene.result[-1]
    replayed(theatre, "approved", "x", True)


@pytest.mark.parametrize(
    "point",
    shared(["before:3", "during:3", "before:4", "during:4", "after:4", "after:3"], "before:3", "during:4", "after:3"),
)
def test_an_approval_is_spent_once_by_two_attempts(theatre, world, point):
    """Killed around the approved call, the second attempt makes it under the first one's approval and key, once."""
    theatre.record("approved", "x", True, kill_at=point)
    scene = theatre.resume("approved", theatre.run().run, "x", True)
    paid = '/paid {"order":"x","cents":5}'
    assert (world.done[paid], len(world.keys[paid])) == (1, 1)
    assert world.called['/asked {"order":"x","cents":5}'] == 1
    assert "approv" in scene.result[-1]
    statuses = [one.status for one in theatre.book().approvals(theatre.run().run.run_id)]
    assert statuses == ["spent"]


@pytest.mark.parametrize("point", shared(["before:3", "during:4", "after:3", "after:5"], "before:3", "after:3"))
def test_an_approval_of_before_the_ledger_is_held_and_spent_in_it(stage, world, tmp_path, point):
    """Recorded without a ledger, then resumed with one: it takes the approval over, and knows who spent it."""
    theatre = Theatre(stage, world, tmp_path, ledger="")
    theatre.record("approved", "x", True, kill_at=point)
    scene = theatre.resume("approved", theatre.run().run, "x", True)
    assert "approv" in scene.result[-1]
    (approval,) = theatre.book().approvals(theatre.run().run.run_id)
    assert (approval.status, approval.action, approval.by, approval.step) == ("spent", "pay", "ana", 1)
    (key,) = world.keys['/paid {"order":"x","cents":5}']
    assert approval.spent_key == key
    assert world.done['/paid {"order":"x","cents":5}'] == 1
    replayed(theatre, "approved", "x", True)


@pytest.mark.parametrize(("cents", "approved"), [(5, 0), (5, 6), (6, 5)])
def test_no_approval_or_one_of_other_arguments_lets_nothing_pass(theatre, world, cents, approved):
    """A tool that needs approval is not called without one of exactly its arguments."""
    scene = theatre.record("pays", "x", cents, approved)
    assert "pay" in scene.result
    assert scene.result != "paid"
    assert not [what for what in world.called if what.startswith("/paid")]


@pytest.mark.parametrize("granted", [True, False])
def test_a_suspended_run_waits_for_a_person_and_repeats_nothing_before(theatre, world, granted):
    """A run that waits for a person's answer ends as pending; answered, it goes on, and no mail is sent twice."""
    theatre.record("suspended", "x", status=75)
    for _ in range(2):
        theatre.resume("suspended", theatre.run().run, "x", status=75)
        assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.WAITING, "awaiting_person")
    run = theatre.run()
    assert run.run.status is RunStatus.PENDING
    (waiting,) = theatre.book().approvals(run.run.run_id, status="waiting")
    step = next(node.step for node in run.nodes if node.kind is Kind.APPROVAL)
    assert waiting.step == step
    theatre.book().answer(run.run.run_id, step, granted=granted, by="ana")
    scene = theatre.resume("suspended", run.run, "x")
    assert scene.result[:3] == [1, granted, 1 if granted else "not paid"]
    assert world.called['/mails {"to":"ana","text":"may I pay x?"}'] == 1
    assert world.called['/paid {"order":"x","cents":5}'] == int(granted)
    replayed(theatre, "suspended", "x")


def test_a_replay_spends_no_approval(theatre, world):
    """An exact replay of a run with approvals and effects leaves the ledger as it is."""
    theatre.record("approved", "x", kill_at="after:1")
    theatre.resume("approved", theatre.run().run, "x")
    rows = ledger_rows(theatre)
    replayed(theatre, "approved", "x")
    assert ledger_rows(theatre) == rows


# --- other shapes ---


@pytest.mark.parametrize("ledger", shared(["file", ""], "file"))
def test_a_result_of_5_megabytes_is_resumed_without_a_stall(stage, world, tmp_path, ledger):
    """Large results of a read and of a write are on record: resuming takes them from there, and soon."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    theatre.record("bulky", "x", kill_at="after:3")
    started = time.monotonic()
    scene = theatre.resume("bulky", theatre.run().run, "x")
    assert time.monotonic() - started < 20
    assert scene.result[:2] == [5 << 20, 5 << 20]
    assert set(world.done.values()) == {1}
    replayed(theatre, "bulky", "x")


@pytest.mark.parametrize("point", shared(["during:1", "during:3", "after:2", "during:4"], "during:3", "after:2"))
def test_a_generator_is_resumed_by_its_command(theatre, world, point):
    """An agent that yields is resumed by its command, with each of its items and effects once."""
    theatre.record("yields", "x", kill_at=point)
    scene = theatre.resume("yields", theatre.run().run, "x")
    assert len(scene.result) == 3
    assert set(world.done.values()) == {1}
    replayed(theatre, "yields", "x")


@pytest.mark.parametrize(
    ("killed_in", "way"),
    shared(
        itertools.product(["first", "between", "second", "last"], ["command", "entry", "function"]),
        ("first", "function"),
        ("between", "command"),
        ("second", "entry"),
        ("last", "command"),
    ),
)
def test_an_agent_that_calls_agents_is_resumed_whole(theatre, world, killed_in, way):
    """Killed inside an inner run, or between two, everything is finished once, however the outer run is resumed."""
    prompt = {"first": "x-1 inner", "between": "between", "second": "x-2 inner", "last": "last"}[killed_in]
    world.hold_prompt[prompt] = threading.Event()
    scene = theatre.start("outer", "x")
    until(lambda: world.asked[prompt] == 1, "the agent asks")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    world.hold_prompt.pop(prompt).set()
    outer = next(run for run in map(theatre.run, range(len(theatre.run_ids()))) if run.run.agent == "outer").run
    if way == "function":
        scene = theatre.start("outer", resume=outer.run_id.hex())
        assert scene.wait() == 0, scene.output
    else:
        theatre.resume("outer", outer, "x", entry=way == "entry")
    assert {what: world.done[what] for what in world.done} == {
        '/refunds {"order":"x-1","cents":1}': 1,
        '/refunds {"order":"x-2","cents":1}': 1,
    }
    assert {what: count for what, count in world.asked.items() if count != 1} == {prompt: 2}
    runs = [theatre.run(number).run for number in range(len(theatre.run_ids()))]
    assert sorted((run.agent, run.status) for run in runs) == [
        ("inner", RunStatus.OK), ("inner", RunStatus.OK), ("outer", RunStatus.OK)
    ]  # fmt: skip


def number_of(theatre, agent):
    """Return the place of the first run of that agent among the runs of this lake."""
    return next(place for place in range(len(theatre.run_ids())) if theatre.run(place).run.agent == agent)


@pytest.mark.parametrize("way", ["command", "entry"])
def test_what_a_second_attempt_began_is_not_begun_again_by_a_third(theatre, world, way):
    """An inner run that the second attempt began and finished is given to the third one from its recording."""
    for prompt in ("x-1 inner", "last"):
        world.hold_prompt[prompt] = threading.Event()
        if theatre.run_ids():
            outer = theatre.run(number_of(theatre, "outer")).run
            scene = theatre.start_resuming("outer", outer, "x", entry=way == "entry")
        else:
            scene = theatre.start("outer", "x")
        until(lambda: world.asked[prompt] == 1, "the agent asks")  # noqa: B023 - called at once
        os.kill(scene.pid, signal.SIGKILL)
        assert scene.wait() == KILLED
        world.hold_prompt.pop(prompt).set()
    theatre.resume("outer", theatre.run(number_of(theatre, "outer")).run, "x", entry=way == "entry")
    assert set(world.done.values()) == {1}
    assert dict(world.asked) == {"x-1 inner": 2, "between": 1, "x-2 inner": 1, "last": 2}
    runs = [theatre.run(number).run for number in range(len(theatre.run_ids()))]
    assert sorted((run.agent, run.status, run.attempt) for run in runs) == [
        ("inner", RunStatus.OK, 1), ("inner", RunStatus.OK, 2), ("outer", RunStatus.OK, 3)
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["command", "entry"])
def test_an_inner_run_that_failed_is_what_is_tried_again(theatre, world, way):
    """When an inner run fails and its caller with it, resuming the caller goes on inside the inner run."""
    world.fails_prompt["x-2 inner"] = 1
    theatre.record("outer", "x", status=1)
    outer = theatre.run(number_of(theatre, "outer")).run
    theatre.resume("outer", outer, "x", entry=way == "entry")
    assert set(world.done.values()) == {1}
    assert dict(world.asked) == {"x-1 inner": 1, "between": 1, "x-2 inner": 2, "last": 1}


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_runs_made_at_the_same_time_are_told_by_their_input(theatre, world, order):
    """Two runs of one agent that began in threads are each resumed with their own input, whoever comes first."""
    for name in "xy":
        world.hold_prompt[f"{name} inner"] = threading.Event()
    scene = theatre.start("both", "xy")
    until(lambda: world.asked["x inner"] == world.asked["y inner"] == 1, "both agents ask")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    for event in world.hold_prompt.values():
        event.set()
    theatre.resume("both", theatre.run().run, order)
    assert {what: world.done[what] for what in world.done} == {
        '/refunds {"order":"x","cents":1}': 1,
        '/refunds {"order":"y","cents":1}': 1,
    }
    assert [theatre.run(number).run.status for number in (0, 1)] == [RunStatus.OK] * 2
