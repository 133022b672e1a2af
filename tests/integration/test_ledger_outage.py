"""The ledger's database goes away and comes back in the middle of a run: nothing is lost, nothing happens twice."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from otel_agent_replay.model import RunStatus
from otel_agent_replay.replay.continued_report import ContinuedStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.postgres import postgres_server
from tests.support.resume_world import KILLED, Theatre, until


@pytest.fixture
def server():
    with postgres_server() as server:
        yield server


@pytest.fixture
def theatre(stage, world, server, tmp_path):
    return Theatre(stage, world, tmp_path, ledger=server.url)


def in_its_call(theatre, world):
    """Start an agent and wait until it is in its only write; return it."""
    world.arrived["/slow"], world.hold["/slow"] = threading.Event(), threading.Event()
    scene = theatre.start("patient", "x")
    assert world.arrived["/slow"].wait(30), scene.output
    return scene


def effects(theatre):
    book = theatre.book()
    found = [(effect.tool, effect.status) for effect in book.effects(theatre.run().run.run_id)]
    status = book.run(theatre.run().run.run_id).status
    book.close()
    return status, found


def replayed(theatre, play="patient"):
    verdict = theatre.replay(play, theatre.run().run, "x")
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


def test_a_run_goes_on_over_a_restart_of_its_database(theatre, world, server):
    """Restarted while a call is in flight, the database takes its result on a new connection, and the run ends well."""
    scene = in_its_call(theatre, world)
    server.stop()
    server.start()
    world.hold.pop("/slow").set()
    assert scene.wait() == 0, scene.output
    assert effects(theatre) == ("ok", [("slow", "done")])
    assert set(world.called.values()) == set(world.asked.values()) == {1}
    replayed(theatre)


def test_a_result_that_comes_while_the_database_is_away_is_the_agents_all_the_same(theatre, world, server):
    """The call's result goes to the agent and into the recording; the ledger is told when it is back."""
    world.hold_prompt["last"] = threading.Event()
    scene = in_its_call(theatre, world)
    server.stop()
    world.hold.pop("/slow").set()
    until(lambda: world.asked["last"] == 1, "the agent has its result and goes on")
    server.start()
    world.hold_prompt.pop("last").set()
    assert scene.wait() == 0, scene.output
    assert "not in the ledger yet" in scene.output
    assert scene.result[0]["number"] == 1
    assert effects(theatre) == ("ok", [("slow", "done")])
    replayed(theatre)


def test_a_call_that_the_ledger_cannot_take_down_is_not_made_and_the_agent_is_told(theatre, world, server):
    """No intent, no call: the agent gets a LedgerError, which is on record, and may try again; a replay too."""
    for prompt in ("first", "when?"):
        world.hold_prompt[prompt] = threading.Event()
    scene = theatre.start("insists", "x")
    until(lambda: world.asked["first"] == 1, "the agent asks")
    server.stop()
    world.hold_prompt.pop("first").set()
    until(lambda: world.asked["when?"] == 1, "the agent was refused")
    assert not world.called
    server.start()
    world.hold_prompt.pop("when?").set()
    assert scene.wait() == 0, scene.output
    assert scene.result[1:] == ["not now", 1]
    assert effects(theatre) == ("ok", [("refund", "done")])
    assert set(world.done.values()) == {1}
    replayed(theatre, "insists")


@pytest.mark.parametrize("died", ["in its call", "after its call"])
def test_a_run_that_died_while_the_database_was_away_is_recovered_after_the_restart(theatre, world, server, died):
    """Nobody goes on with it while the database is away, and nothing is called; after the restart it is finished."""
    world.hold_prompt["last"] = threading.Event()
    scene = in_its_call(theatre, world)
    server.stop()
    if died == "after its call":
        world.hold.pop("/slow").set()
        until(lambda: world.asked["last"] == 1, "the agent goes on")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    for held in (*world.hold.values(), *world.hold_prompt.values()):
        held.set()
    world.hold.clear()
    world.hold_prompt.clear()
    before = dict(world.called), dict(world.asked)
    theatre.resume("patient", theatre.run().run, "x", status=1)
    assert theatre.report.status is ContinuedStatus.NOT_BEGUN
    assert "cannot be opened" in theatre.report.reason
    assert (dict(world.called), dict(world.asked)) == before
    server.start()
    theatre.resume("patient", theatre.run().run, "x")
    assert effects(theatre) == ("ok", [("slow", "done")])
    assert set(world.done.values()) == {1}
    assert set(world.called.values()) == {2 if died == "in its call" else 1}
    run = theatre.run().run
    assert (run.status, run.attempt) == (RunStatus.OK, 2)
    replayed(theatre)
