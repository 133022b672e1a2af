"""What was in flight when a run died, one scene each: parallel tools, writes of every kind, retries."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sqlite3
import threading

import pytest

from otel_agent_replay.model import OutcomeStatus, RunStatus
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.replay.continued_report import ContinuedStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.resume_world import KILLED, Theatre, until
from tests.support.shares import shared


def replayed(theatre, play, *arguments):
    """Replay the run of this lake exactly; return whether it was the same."""
    verdict = theatre.replay(play, theatre.run().run, *arguments)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


def ended(theatre, name):
    """Return how many calls of that name have ended well on record."""
    if not theatre.run_ids():
        return 0
    nodes = [node for node in theatre.run().nodes if node.name == name and node.outcome is not None]
    return sum(node.outcome.status is OutcomeStatus.OK for node in nodes)


def kill_with_one_in_flight(theatre, play, *arguments, tool, path):
    """Record `play` until two of three parallel calls are done, and kill it in the one at `path`."""
    world = theatre.world
    world.arrived[path], world.hold[path] = threading.Event(), threading.Event()
    scene = theatre.start(play, *arguments)
    assert world.arrived[path].wait(30), scene.output
    until(lambda: ended(theatre, tool) == 2, "two of three calls are done")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    world.hold.pop(path).set()


# --- parallel calls ---


@pytest.mark.parametrize(
    ("tool", "name"), shared(itertools.product(["seat", "book"], ["a", "b"]), ("seat", "a"), ("book", "b"))
)
def test_of_three_parallel_threads_only_the_one_in_flight_runs_again(theatre, world, tool, name):
    """Two of three parallel tools were done: on resume only the third is called, and a write with its first key."""
    path = f"/orders/{name}" if tool == "seat" else f"/seats/{name}"
    kill_with_one_in_flight(theatre, "three_threads", tool, tool=tool, path=path)
    scene = theatre.resume("three_threads", theatre.run().run, tool)
    called = [request.path for request in world.provider.seen if request.path[-2:] in ("/a", "/b", "/c")]
    assert sorted(called) == sorted(path[:-1] + one for one in ("a", "b", "c", name))
    if tool == "book":
        assert set(world.done.values()) == {1}
        assert [len(keys) for keys in world.keys.values()] == [1, 1, 1]
    assert len(scene.result[0]) == 3
    replayed(theatre, "three_threads", tool)


def test_of_three_parallel_tasks_only_the_one_in_flight_runs_again(theatre, world):
    """The same for tasks, resumed by `replay.resume`, awaited."""
    kill_with_one_in_flight(theatre, "three_tasks", tool="book_async", path="/seats/c")
    run = theatre.run().run
    scene = theatre.start("three_tasks", resume=run.run_id.hex())
    assert scene.wait() == 0, scene.output
    assert dict(world.called) == {"/seats/a {}": 1, "/seats/b {}": 1, "/seats/c {}": 2, "/seats/last {}": 1}
    assert set(world.done.values()) == {1}
    assert [one["did"] for one in scene.result[0]] == ["/seats/a {}", "/seats/b {}", "/seats/c {}"]
    resumed = theatre.run()
    assert (resumed.run.run_id, resumed.run.status, resumed.run.attempt) == (run.run_id, RunStatus.OK, 2)
    replayed(theatre, "three_tasks")


@pytest.mark.parametrize(
    ("late", "scoped", "ledger"),
    shared(
        itertools.product(["left", "right"], [True, False], ["file", ""]), ("left", True, "file"), ("right", False, "")
    ),
)
def test_equal_parallel_payments_on_purpose_stay_two_whoever_asks_first(stage, world, tmp_path, late, scoped, ledger):
    """Of two equal payments in two scopes one was made: on resume either may ask first, and both are paid."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    prompt = f"may {late} pay?"
    world.hold_prompt[prompt] = threading.Event()
    scene = theatre.start("equal_threads", scoped)
    until(lambda: ended(theatre, "refund") == 1, "one payment is done")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    world.hold_prompt.pop(prompt).set()
    result = theatre.resume("equal_threads", theatre.run().run, scoped).result
    assert world.done['/refunds {"order":"twice","cents":1}'] == 2
    assert sorted(one["number"] for one in result) == [1, 2]
    replayed(theatre, "equal_threads", scoped)


# --- a write in flight, of each kind ---


@pytest.mark.parametrize(
    ("tool", "path", "calls", "ledger"),
    shared(
        [
            (*tool, ledger)
            for tool in (("own_key", "/own", 2), ("refund", "/refunds", 2), ("mail", "/mails", 1))
            for ledger in ("file", "")
        ],
        ("own_key", "/own", 2, ""),
        ("refund", "/refunds", 2, "file"),
        ("mail", "/mails", 1, ""),
    ),
)
def test_a_write_in_flight_happens_once_by_its_key_or_its_query(stage, world, tmp_path, tool, path, calls, ledger):
    """Killed after the service did it: called again with the same key, or its status query says that it happened."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    theatre.record("writes", tool, "x", kill_at="during:3")
    scene = theatre.resume("writes", theatre.run().run, tool, "x")
    (what,) = world.called
    assert what.startswith(path)
    assert (world.called[what], world.done[what], len(world.keys[what])) == (calls, 1, 1)
    assert scene.result[1]["did"] == what
    assert sorted(world.asked.values()) == [1, 1]
    replayed(theatre, "writes", tool, "x")


def test_a_status_query_that_says_no_lets_the_call_be_made(theatre, world):
    """Killed before the service was asked: the status query says that it never happened, and the call is made once."""
    theatre.record("writes", "mail", "x", kill_at="before:3")
    assert not world.called
    theatre.resume("writes", theatre.run().run, "mail", "x")
    assert set(world.done.values()) == {1}
    assert [request.method for request in world.provider.seen if "mails" in request.path] == ["GET", "POST"]
    replayed(theatre, "writes", "mail", "x")


def test_an_async_status_query_is_awaited(theatre, world):
    """The status query of an async tool may be async too, also while the agent's loop runs."""
    theatre.record("chimes", "x", kill_at="during:2")
    scene = theatre.resume("chimes", theatre.run().run, "x")
    assert dict(world.called) == {'/chimes {"text":"x"}': 1}
    assert scene.result["number"] == 1
    replayed(theatre, "chimes", "x")


def test_a_status_query_that_fails_leaves_the_effect_in_doubt(theatre, world):
    """Nothing is guessed when the status query fails; once it answers, the run goes on without a person."""
    theatre.record("writes", "mail", "x", kill_at="during:3")
    world.fails["GET /mails"] = 1
    theatre.resume("writes", theatre.run().run, "mail", "x", status=75)
    assert theatre.report.code == "in_doubt"
    assert [effect.status for effect in theatre.book().in_doubt()] == ["in_doubt"]
    theatre.resume("writes", theatre.run().run, "mail", "x")
    assert set(world.called.values()) == {1}
    assert theatre.book().in_doubt() == []


@pytest.mark.parametrize(
    ("happened", "ledger"), shared(itertools.product([True, False], ["file", ""]), (True, "file"), (False, ""))
)
def test_a_write_without_any_key_is_in_doubt_until_a_person_says(stage, world, tmp_path, happened, ledger):
    """A keyless write in flight stops the run, again and again, until a person decides; either word lets it finish."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    theatre.record("writes", "ring", "x", kill_at="during:3")
    assert set(world.done.values()) == {1}
    for _ in range(2):
        theatre.resume("writes", theatre.run().run, "ring", "x", status=75)
        assert (theatre.report.status, theatre.report.code) == (ContinuedStatus.WAITING, "in_doubt")
        assert theatre.report.step == 2
    assert theatre.run().run.status is RunStatus.PENDING
    assert set(world.called.values()) == {1}
    (doubt,) = theatre.book().in_doubt()
    assert (doubt.tool, doubt.step) == ("ring", 2)
    result = b'{"number": "by hand"}' if happened else None
    theatre.book().decide(theatre.run().run.run_id, 2, happened=happened, result=result, by="ana")
    scene = theatre.resume("writes", theatre.run().run, "ring", "x")
    assert set(world.called.values()) == {1 if happened else 2}
    assert scene.result[1]["number"] == ("by hand" if happened else 2)
    assert theatre.book().in_doubt() == []
    run = theatre.run().run
    assert (run.status, run.attempt) == (RunStatus.OK, 4)
    replayed(theatre, "writes", "ring", "x")


def test_a_bare_post_in_flight_is_in_doubt(theatre, world):
    """A POST that the agent's own code made, with no tool around it, is not sent again on a guess."""
    theatre.record("posts", "x", kill_at="during:2")
    theatre.resume("posts", theatre.run().run, "x", status=75)
    assert theatre.report.code == "in_doubt"
    assert set(world.called.values()) == {1}
    theatre.book().decide(theatre.run().run.run_id, 2, happened=False, result=None, by="ana")
    theatre.resume("posts", theatre.run().run, "x")
    assert set(world.called.values()) == {2}
    assert theatre.run().run.status is RunStatus.OK


# --- calls that failed, and equal ones ---


@pytest.mark.parametrize(
    "kill_at",
    shared(["during:2", "after:1", "during:4", "after:3", "during:6", "after:6"], "during:2", "after:3", "during:6"),
)
def test_a_call_that_failed_is_tried_again_under_its_key(theatre, world, kill_at):
    """A tool that raised and is retried by the agent keeps its key, also when the agent dies in between."""
    world.fails["/refunds"] = 2
    theatre.record("tries_again", "x", kill_at=kill_at)
    scene = theatre.resume("tries_again", theatre.run().run, "x")
    assert scene.result[-2]["number"] == 1
    assert set(world.done.values()) == {1}
    (keys,) = world.keys.values()
    assert len(keys) == 1
    replayed(theatre, "tries_again", "x")


@pytest.mark.parametrize("ledger", shared(["file", ""], "file"))
def test_an_error_on_record_has_its_response(stage, world, tmp_path, ledger):
    """A tool's HTTP error comes from the tape with status, body and headers, resumed and replayed."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    world.fails["/refunds"] = 1
    theatre.record("looks_at_errors", "x", kill_at="during:3")
    scene = theatre.resume("looks_at_errors", theatre.run().run, "x")
    assert scene.result[:4] == [500, {}, "application/json", "POST"]
    assert sum(world.called.values()) == 1
    replayed(theatre, "looks_at_errors", "x")


@pytest.mark.parametrize(
    "kill_at", shared(["during:2", "after:1", "before:3", "during:4", "after:4"], "during:2", "before:3", "after:4")
)
def test_two_equal_calls_on_purpose_are_two_effects(theatre, world, kill_at):
    """Two equal calls that both succeed have two keys, and stay two effects over a crash."""
    theatre.record("pays_twice", "x", kill_at=kill_at)
    scene = theatre.resume("pays_twice", theatre.run().run, "x")
    assert [one["number"] for one in scene.result[:2]] == [1, 2]
    assert set(world.done.values()) == {2}
    (keys,) = world.keys.values()
    assert len(keys) == 2
    replayed(theatre, "pays_twice", "x")


@pytest.mark.parametrize(
    "kill_at", shared(["during:2", "after:1", "before:3", "before:5", "after:5"], "during:2", "after:1", "before:5")
)
def test_a_key_that_is_used_again_gives_no_other_call_its_old_result(theatre, world, kill_at):
    """A tool's own key, used with other arguments, is refused and told, before and after a crash, and in a replay."""
    theatre.record("parcels", "x", kill_at=kill_at)
    scene = theatre.resume("parcels", theatre.run().run, "x")
    assert scene.result[:3] == [1, "step 1", 1]
    assert dict(world.done) == {'/parcels {"order":"x","kilos":1}': 1}
    replayed(theatre, "parcels", "x")


# --- what the ledger and the recording know of each other ---


def test_an_end_that_only_the_recording_has_leaves_no_doubt(theatre, world):
    """A worker that died after it had recorded a result, before the ledger had it, leaves nothing in doubt."""
    theatre.record("writes", "ring", "x", kill_at="after:2")
    with contextlib.closing(sqlite3.connect(theatre.lake / "ledger.sqlite")) as book, book:
        book.execute("update agent_replay_effects set status = 'intended', ended_ns = 0")
    theatre.resume("writes", theatre.run().run, "ring", "x")
    assert set(world.called.values()) == {1}
    (effect,) = theatre.book().effects(theatre.run().run.run_id)
    assert effect.status == "done"


def test_a_person_may_say_what_a_generator_would_have_yielded(theatre, world):
    """A tool that yields and died in the middle is in doubt; a person's list of items is what it yields."""
    theatre.record("printer", "x", kill_at="during:3")
    theatre.resume("printer", theatre.run().run, "x", status=75)
    result = encode(["first", "second"]).data
    theatre.book().decide(theatre.run().run.run_id, 1, happened=True, result=result, by="ana")
    scene = theatre.resume("printer", theatre.run().run, "x")
    assert scene.result[:2] == ["first", "second"]
    assert set(world.called.values()) == {1}
    replayed(theatre, "printer", "x")


@pytest.mark.parametrize("kill_at", shared(["during:2", "after:1", "during:3"], "during:2", "after:1"))
def test_a_tool_in_a_worker_thread_keeps_its_run_and_its_key(theatre, world, kill_at):
    """A write that a task hands to a thread happens once, under one key, before and after the crash."""
    theatre.record("in_thread", "x", kill_at=kill_at)
    theatre.resume("in_thread", theatre.run().run, "x")
    assert set(world.done.values()) == {1}
    (keys,) = world.keys.values()
    assert len(keys) == 1
    replayed(theatre, "in_thread", "x")
